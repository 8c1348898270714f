// maps: from a fabric and where the ranks sit on it to the orders that algorithms run in. The joint
// between affinity/ and the plans: algorithms see only orders, the fabric knows no ranks.
#pragma once

#include "affinity/fabric/routes.hpp"
#include "allreduce/plan.hpp"

#include <vector>

namespace ef::mapping {

/// By rank: index into graph::hosts(). Several ranks may share a host.
using placement = std::vector<uint32_t>;

/// The arrangement for these ranks on this fabric:
///   a BiGraph that is full (or of which the ranks fill the same ports of a power of two of switches
///   per side)                                  HDRM; inside a switch first where H > S L
///   a BiGraph otherwise                        the largest HDRM core inside it, the rest folded
///   any other fabric                           switch by switch (near bits inside a switch)
/// and a ring: Eulerian where it exists, else switch by switch. Links that are down are not looked
/// at: who prices and proves does that. Deterministic.
rank_maps make_maps(const fabric::graph& g, const placement& where);

/// The same ranks in a random order; for comparisons.
rank_order random_order(rank_t nranks, uint64_t seed);

/// Positions of the order as a placement: rank p on the host of order[p]. What a launcher does with
/// a rank file, so that rank == position.
placement placed_by(const rank_order& o, const placement& where);

}  // namespace ef::mapping
