// algorithm: the registry of all schedules. A builder turns a request into one rank's plan, in time
// and memory of that rank's own moves. Builders see nothing but the plan: what an algorithm costs
// is in cost/, whether it is right is in plan_check.
#pragma once

#include "allreduce/plan.hpp"

#include <span>
#include <string_view>

namespace ef {

/// How the plans of all ranks follow from one, in positions of the order that the algorithm runs in:
/// where position 0 sends to position d in a round, position v sends to (v + d) mod P (rotation) or
/// to v XOR d (exclusive_or), the same number of blocks in all, in the same round. Lets 10^4 ranks
/// be priced by reading one plan.
enum class symmetry : uint8_t { none, rotation, exclusive_or };

struct algorithm {
    std::string_view name;     // "ring", "hierarchical:ring"
    std::string_view summary;  // one line for --help and --explain
    // Does it serve this collective on these ranks? The answer is the same on every rank.
    bool (*accepts)(const plan_request&) noexcept;
    plan (*build)(const plan_request&);  // only if accepts()
    // Of its plan for this request, which it accepts; null: none.
    symmetry (*symmetric)(const plan_request&) noexcept = nullptr;
    // The order in which it runs, of a request that it accepts; null: the caller's, position == rank.
    const rank_order* (*order)(const plan_request&) noexcept = nullptr;
};

/// All algorithms; the order breaks ties between equal prices.
std::span<const algorithm> algorithms() noexcept;

/// By name; "hierarchical" alone is its first variant, "halving_doubling:near" is halving_doubling.
/// Null if there is none.
const algorithm* find_algorithm(std::string_view name) noexcept;

}  // namespace ef
