// summary: what a fabric has and what it can carry, in a few numbers.
#pragma once

#include "affinity/fabric/graph.hpp"

#include <map>
#include <string>

namespace ef::planning {

struct fabric_summary {
    size_t hosts = 0, servers = 0, switches = 0, rails = 0;
    size_t cables = 0;            // between switches
    size_t down = 0;              // cables that are down
    std::map<int, size_t> tiers;  // switches by tier
    double host_gbps = 0;         // of all hosts' links, one direction
    double switch_gbps = 0;       // of all links between switches, one direction
    double least_gbps = 0, most_gbps = 0;
    // Hosts' capacity over that of the other links of the switch; the worst switch that has both.
    double oversubscription = 0;  // 0: no switch has both
    std::string oversubscribed;   // which
    // The least of the cuts into two halves that were looked at: an upper bound for an arbitrary
    // graph, the known value for the generated ones.
    double bisection_gbps = 0;
    std::string bisection_cut;
};

/// Links that are down carry nothing. Time: a few maximum flows over the switches.
fabric_summary summarize(const fabric::graph& g);

}  // namespace ef::planning
