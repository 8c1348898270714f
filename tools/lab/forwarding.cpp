#include "tools/lab/forwarding.hpp"

#include <algorithm>
#include <deque>

namespace ef::lab {
namespace {

using namespace fabric;

bool between_switches(const graph& g, const link& e) {
    return g.at(e.from).kind == node_kind::network_switch &&
           g.at(e.to).kind == node_kind::network_switch;
}

/// Links from every switch to `to`, by node.
std::vector<uint32_t> distances(const graph& g, node_id to) {
    std::vector<uint32_t> far(g.nodes().size(), none);
    std::deque<node_id> next{to};
    far[to] = 0;
    while (!next.empty()) {
        const node_id n = next.front();
        next.pop_front();
        // A cable is up in both directions or in none.
        for (const link_id l : g.out(n)) {
            const link& e = g.edge(l);
            if (!e.up || !between_switches(g, e) || far[e.to] != none) continue;
            far[e.to] = far[n] + 1;
            next.push_back(e.to);
        }
    }
    return far;
}

}  // namespace

std::vector<forwarding_table> forwarding_of(const graph& g) {
    std::vector<forwarding_table> tables(g.nodes().size());
    std::vector<node_id> with_hosts;
    for (const node_id h : g.hosts()) with_hosts.push_back(g.switch_of(h));
    std::sort(with_hosts.begin(), with_hosts.end());
    with_hosts.erase(std::unique(with_hosts.begin(), with_hosts.end()), with_hosts.end());

    for (const node_id to : with_hosts) {
        const std::vector<uint32_t> far = distances(g, to);
        for (const node_id s : g.switches()) {
            if (s == to) continue;
            std::vector<link_id>& via = tables[s][to];
            for (const link_id l : g.out(s)) {
                const link& e = g.edge(l);
                if (e.up && between_switches(g, e) && far[e.to] != none && far[s] != none &&
                    far[e.to] + 1 == far[s])
                    via.push_back(l);
            }
        }
    }
    return tables;
}

}  // namespace ef::lab
