// forwarding: what the switches of a lab forward where: to everything behind another switch, all
// next hops on shortest paths over links that are up. As a routing protocol would have it once it
// has converged, and as free of loops.
#pragma once

#include "affinity/fabric/graph.hpp"

#include <map>
#include <vector>

namespace ef::lab {

/// Outgoing links by the switch they lead to, in the order of link ids; none for one that cannot be
/// reached.
using forwarding_table = std::map<fabric::node_id, std::vector<fabric::link_id>>;

/// By node; empty for hosts. Only switches that have hosts are destinations.
std::vector<forwarding_table> forwarding_of(const fabric::graph& g);

}  // namespace ef::lab
