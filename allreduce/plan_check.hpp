// plan_check: the proof that a plan is right. It runs the plans of all ranks on symbols instead of
// numbers.
//
//   structure  the i-th send of a to b and the i-th receive of b from a name the same blocks in the
//              same round
//   extent     nothing writes to `in`, and nobody touches a block that his `in` (allgather) or `out`
//              (reduce_scatter) does not hold
//   values     every rank ends with every rank's contribution exactly once in each block that it
//              must have; nothing unwritten is read, nothing is added twice; `last` stands at the
//              reduction that completes a value, and nowhere else
//   bits       all ranks that end with a block have combined it in the same order, so they have the
//              same bits
//   deadlock   it ends even if no channel holds a single message (a send takes place only together
//              with its receive); eager plans, whose sends are copied, may post first
//
// A value is a node of an expression over contributions: a leaf per rank and block, or left (+)
// right. Equal expressions are one node (hash consing), so "the same bits" is "the same node".
//
// Everything is exact up to 64 ranks, where a value's contributions are a set of bits. Above, they are
// two sums modulo 2^64 of numbers that stand for the ranks: that each counts exactly once then holds
// but for a probability of 2^-100, and one that counts twice is seen not where it is added but where
// the value should be complete. Structure, extent, bits and deadlock stay exact.
#pragma once

#include "allreduce/plan.hpp"
#include "transport/base/status.hpp"

#include <functional>

namespace ef {

/// OK, or EF_INVALID with what is wrong: ranks, moves and blocks by name. `like` says collective,
/// ranks (at most 1024), root and in_place; `build` gives each rank's plan.
status check_plans(const plan_request& like, const std::function<plan(rank_t)>& build);

/// "round 3: send out blocks 2..3 to rank 1"
std::string text_of(const move& m);

}  // namespace ef
