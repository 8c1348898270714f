// compare: HDRM on a BiGraph beside what else one could do with as many hosts and links: the ring, the
// best order without a mapping, random placements over one and four hashed paths. All of them,
// always: against the weak ones alone HDRM would look better than it is.
//
// The leaf-spine fabric of a comparison has a leaf with as many hosts and as many links upwards for
// each switch of the BiGraph: 2 S leaves of H hosts, S L spines.
#pragma once

#include "allreduce/cost/simulate.hpp"

namespace ef::cost {

struct compare_case {
    fabric::bigraph_shape shape;  // one rail
    double gbps = 100;
    uint64_t bytes = 100'000'000;
    simulation_options how;  // of all rows; subflows does not count
    uint32_t seeds = 20;     // random placements and hashes that are averaged: how.seed, ..+1, ..
    // In step (closed form, as price_in_step_us), or simulated with how.how.
    bool simulated = false;
};

/// A mean over seeds; spread is the standard deviation. What has no randomness has a spread of 0.
struct compare_time {
    double us = 0;
    double spread_us = 0;
    double worst_load = 0;  // flows on the fullest link of any round, of any seed
};

struct compare_row {
    compare_time hdrm;              // BiGraph, lanes by destination
    compare_time ring;              // BiGraph, Eulerian order
    compare_time ring_random;       // leaf-spine, random placement, ECMP
    compare_time halving_random;    // leaf-spine, random placement, one hashed path per pair
    compare_time halving_random_4;  // the same, four hashed paths per pair
    compare_time near_leaf_spine;   // leaf-spine, hosts in order, near bits first, one hashed path
    compare_time far_bigraph;       // BiGraph, hosts in order, far bits first, one hashed path

    /// The least of what needs no mapping and no path control.
    const compare_time& best_naive() const noexcept;
};

/// EF_INVALID for a shape without HDRM (S and H powers of two) or without the ring (H > S L);
/// errors of simulate().
result<compare_row> compare(const compare_case& c);

}  // namespace ef::cost
