// values: are the values of a plan right where there are too many ranks to run it on symbols? It
// runs the plans of all ranks on random 64-bit numbers, added modulo 2^64. A contribution that is
// missing, counted twice or replaced by another leaves a wrong sum, except with probability 2^-64.
//
// Unlike plan_check it takes one order of events and copies every message, so it says nothing of
// deadlock with fewer buffers, nor of the order in which values are combined.
#pragma once

#include "allreduce/plan.hpp"
#include "transport/base/status.hpp"

#include <functional>

namespace ef::planning {

struct numbers_run {
    status
        outcome;  // EF_INVALID with rank and block if a value is wrong, or with the rank that waits
                  // for a message that nobody sends
    uint32_t blocks = 0,
             of = 0;  // how many were run: all, or a sample where all would take minutes
};

/// EF_UNSUPPORTED in `outcome` if even a sample would take more than some seconds or 1 GiB.
numbers_run check_numbers(const plan_request& like, const std::function<plan(rank_t)>& build);

}  // namespace ef::planning
