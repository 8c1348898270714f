// What a file must fulfil that says it is a BiGraph: on each plane S switches per side, H hosts on
// each of them, L cables between each two of different sides, and none between two of one side.
#include "affinity/fabric/file_draft.hpp"

#include <fmt/format.h>

#include <unordered_map>

namespace ef::fabric {

status draft::check_bigraph() const {
    const bigraph_shape& s = *bigraph;
    if (s.rails != parts_)
        return complain_(bigraph_at, fmt::format("no BiGraph of {} planes: the cables join the "
                                                 "switches to {}",
                                                 s.rails, parts_));
    for (uint32_t p = 0; p < parts_; ++p)
        if (status why = check_plane(p, s); !why.ok()) return why;
    return {};
}

status draft::check_plane(uint32_t part, const bigraph_shape& s) const {
    const auto no = [&](std::string_view why) {
        return complain_(bigraph_at, fmt::format("no BiGraph of S={} H={} L={}: {}", s.switches,
                                                 s.hosts, s.lanes, why));
    };
    std::vector<uint32_t> side[2];
    std::unordered_map<uint32_t, uint32_t> hosts;  // of each switch
    std::unordered_map<uint64_t, uint32_t> lanes;  // of each pair, the U switch first
    uint32_t rail = none;
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
        if (part_[n] != part) continue;
        if (nodes_[n].kind == node_kind::network_switch) {
            side[nodes_[n].side].push_back(n);
        } else if (rail == none) {
            rail = nodes_[n].rail;
        } else if (rail != nodes_[n].rail) {
            return no(fmt::format("{} is on rail {}, others of its plane on rail {}", called(n),
                                  nodes_[n].rail, rail));
        }
    }
    for (int i : {0, 1})
        if (side[i].size() != s.switches)
            return no(fmt::format("side {} has {} switches", "UL"[i], side[i].size()));
    for (const draft_cable& c : cables_) {
        if (part_[c.a] != part) continue;
        const bool host = nodes_[c.a].kind == node_kind::host;
        if (host || nodes_[c.b].kind == node_kind::host) {
            ++hosts[host ? c.b : c.a];
        } else if (nodes_[c.a].side == nodes_[c.b].side) {
            return no(fmt::format("a cable joins {} and {} of one side", called(c.a), called(c.b)));
        } else {
            const bool flip = nodes_[c.a].side == 1;
            lanes[uint64_t(flip ? c.b : c.a) << 32 | (flip ? c.a : c.b)] += c.lanes;
        }
    }
    for (const auto& switches : side)
        for (uint32_t n : switches)
            if (hosts[n] != s.hosts) return no(fmt::format("{} has {} hosts", called(n), hosts[n]));
    for (uint32_t u : side[0])
        for (uint32_t l : side[1]) {
            const auto it = lanes.find(uint64_t(u) << 32 | l);
            const uint32_t have = it == lanes.end() ? 0 : it->second;
            if (have != s.lanes)
                return no(fmt::format("{} cables between {} and {}", have, called(u), called(l)));
        }
    return {};
}

}  // namespace ef::fabric
