// arrange: orders of units. For halving-doubling a core of a power of two of them, and for each other
// one the core unit that takes in its vector; for a ring just an order.
#pragma once

#include "allreduce/mapping/units.hpp"

#include <utility>

namespace ef::mapping {

struct halving_order {
    std::vector<uint32_t> core;  // units by position
    // Core position that takes it in, and the unit; by position.
    std::vector<std::pair<uint32_t, uint32_t>> extras;
    std::string says;
};

/// The largest HDRM core in a BiGraph: H' units on each of S' switches per side, powers of two that
/// make 2 S' H' as large as the units allow. Where H' > S' L, o = H' / (S' L) units of a switch come
/// together, so that the largest messages stay inside it:
///
///   position of a unit = HDRM position on (S', H'/o) * o + 0 .. o-1
///
/// Extras give to a unit of their own switch, else straight across to the other side, spread over
/// its switches. No core if a side is empty.
halving_order hdrm_core(const fabric::graph& g, std::span<const unit> units,
                        std::span<const station> stations);

/// The largest power of two of units, switch by switch. The same count on each of a power of two of
/// switches where that works out; else neighbours in the line fold.
halving_order switch_core(std::span<const station> line);

/// How long halving-doubling in this order takes for long vectors when all are in step, by the routes
/// that a careful operator would set (balance::by_destination): 2 times the sum over rounds of bytes on
/// the fullest link over its speed. In vectors per Gb/s, for comparing orders; infinite where units
/// cannot reach each other.
double in_step_time(const fabric::graph& g, std::span<const unit> units, const halving_order& o);

/// Units in the order of an Eulerian ring. Empty if this is no BiGraph with the same number H' of
/// units on each of S' switches on both sides, H' <= S' L.
std::vector<uint32_t> eulerian_units(const fabric::graph& g, std::span<const unit> units,
                                     std::span<const station> stations);

std::string text_of(const fabric::bigraph_shape& s);

}  // namespace ef::mapping
