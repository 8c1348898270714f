// units: the servers of a job and where they sit, as the orders need them. A unit is one server with
// all its ranks, which may share a host (NIC) or have one each. It is where its first rail is.
#pragma once

#include "affinity/fabric/graph.hpp"
#include "allreduce/mapping/maps.hpp"

namespace ef::mapping {

struct unit {
    std::vector<rank_t> members;          // by rail, then host, then rank
    fabric::node_id host = fabric::none;  // of the first member
    fabric::node_id at = fabric::none;    // the switch of that host
    uint32_t port = 0;                    // of that host
};

/// By index of the server. `host_of` as in plan_request; empty: the fabric's servers, numbered as
/// ranks name them first.
std::vector<unit> units_of(const fabric::graph& g, const placement& where,
                           std::span<const int> host_of);

/// A switch that has units.
struct station {
    fabric::node_id at = fabric::none;
    uint8_t side = 0;
    std::vector<uint32_t> units;  // by port
};

/// By id of the switch.
std::vector<station> stations_of(const fabric::graph& g, std::span<const unit> units);

/// The same in an order in which neighbours are near each other: a neighbour's switch next (the
/// other side of a BiGraph), else all switches that share one above them (a pod), else the nearest.
std::vector<station> in_a_line(const fabric::graph& g, std::vector<station> stations);

}  // namespace ef::mapping
