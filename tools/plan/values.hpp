// values: are the values of a plan right where there are too many ranks to run it on symbols? It runs
// the plans of all ranks on random 64-bit numbers, added modulo 2^64. A contribution that is missing,
// counted twice or replaced by another leaves a wrong sum, except with probability 2^-64.
//
// Unlike plan_check it takes one order of events, so it says nothing of deadlock under fewer buffers
// and nothing of the order in which values are combined.
#pragma once

#include "allreduce/plan.hpp"
#include "transport/base/status.hpp"

#include <functional>

namespace ef::planning {

/// EF_UNSUPPORTED if that would take more than some seconds or some 100 MiB; EF_INVALID with rank and
/// block if a value is wrong, or a rank waits for a message that nobody sends.
status check_numbers(const plan_request& like, const std::function<plan(rank_t)>& build);

}  // namespace ef::planning
