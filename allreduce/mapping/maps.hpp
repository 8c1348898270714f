// maps: from a fabric and where the ranks sit on it to the orders that algorithms run in. The joint
// between affinity/ and the plans: algorithms see only orders, the fabric knows no ranks.
#pragma once

#include "affinity/fabric/routes.hpp"
#include "allreduce/plan.hpp"

#include <vector>

namespace ef::mapping {

/// By rank: index into graph::hosts(). Several ranks may share a host.
using placement = std::vector<uint32_t>;

/// The arrangement for these ranks on this fabric. halving:
///   a BiGraph that is full (or of which the ranks fill the same ports of a power of two of switches
///   per side)                                  HDRM; inside a switch first where H > S L
///   a BiGraph otherwise                        the largest HDRM core inside it, the rest folded; or,
///                                              if that is faster, switch by switch, or an order
///                                              found by search (up to 256 servers)
///   anything else                              switch by switch (near bits inside a switch)
/// and ring: Eulerian where it exists, else switch by switch. Several ranks of one server are
/// neighbours (by rail, host, rank), a power of two of each; where planes that are not linked leave no
/// ring of all ranks there is none. server_*: the same of servers.
///
/// `host_of`: by rank, the index of its server, 0 .. servers-1, exactly what plan_request::host_of
/// says: orders of servers are in these indices. Rails stay on their planes in hierarchical plans if
/// the l-th rank of every server sits on the l-th rail. Empty: the servers that the graph names,
/// numbered in the order in which ranks 0, 1, .. name them.
///
/// Links that are down do not change HDRM and rings: who prices and proves sees to them. Deterministic,
/// so that all ranks that know the same graph have the same maps. Empty maps
/// if a rank is on no host of this graph or `host_of` has a gap.
rank_maps make_maps(const fabric::graph& g, const placement& where,
                    std::span<const int> host_of = {});

/// The ranks in a random order, its core the largest power of two; for comparisons.
rank_order random_order(rank_t nranks, uint64_t seed);

/// Positions of the order as a placement: rank p on the host of order[p]. What a launcher does with
/// a rank file, so that rank == position.
placement placed_by(const rank_order& o, const placement& where);

}  // namespace ef::mapping
