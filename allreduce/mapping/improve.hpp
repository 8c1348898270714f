// improve: halving-doubling for ranks that are scattered over a BiGraph, where no regular core is left
// that HDRM could use. Units exchange positions as long as that takes flows off the fullest links.
#pragma once

#include "allreduce/mapping/arrange.hpp"

namespace ef::mapping {

/// Up to so many units are improved: 32 take 10 ms, 256 take 0.2 s.
inline constexpr size_t most_improved = 256;

/// `from` after a search over exchanges of units [threshold accepting: Dueck, Scheuer 1990]. What counts
/// is in_step_time() and, among equals, the squares of the flows on all links. Integers only, and its
/// own random numbers, so that all ranks come to the same order.
halving_order improved(const fabric::graph& g, std::span<const unit> units, halving_order from);

}  // namespace ef::mapping
