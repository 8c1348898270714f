#include "affinity/fabric/file_draft.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace ef::fabric {

std::string draft::called(uint32_t n) const {
    return (nodes_[n].kind == node_kind::host ? "host " : "switch ") + shown(nodes_[n].name);
}

uint32_t draft::find(std::string_view called) const noexcept {
    const auto it = by_name_.find(called);
    return it == by_name_.end() ? none : it->second;
}

result<uint32_t> draft::add_node(draft_node n) {
    if (n.name.empty()) return complain_(n.at, "a name must not be empty");
    if (nodes_.size() >= max_nodes)
        return complain_(n.at, fmt::format("more than {} switches and hosts", max_nodes));
    const uint32_t id = uint32_t(nodes_.size());
    if (const auto [it, fresh] = by_name_.emplace(n.name, id); !fresh)
        return complain_(
            n.at, fmt::format("{} is already the name of a {}", shown(n.name),
                              nodes_[it->second].kind == node_kind::host ? "host" : "switch"));
    nodes_.push_back(std::move(n));
    cable_of_.push_back(none);
    return id;
}

status draft::check_end(const draft_cable& c, uint32_t end, size_t at) const {
    if (nodes_[end].kind != node_kind::host) return {};
    const uint32_t other = end == c.a ? c.b : c.a;
    if (nodes_[other].kind == node_kind::host)
        return complain_(at, fmt::format("a cable joins {} and {}: a host's cable goes to a switch",
                                         called(end), called(other)));
    if (c.lanes > 1)
        return complain_(at,
                         fmt::format("{} has {} cables: a host is one port", called(end), c.lanes));
    if (cable_of_[end] == none) return {};
    const draft_cable& first = cables_[cable_of_[end]];
    return complain_(at, fmt::format("{} is already on {}: a host is one port; name further ports "
                                     "of the server as hosts of their own",
                                     called(end), called(first.a == end ? first.b : first.a)));
}

status draft::add_cable(draft_cable c) {
    if (c.a == c.b) return complain_(c.b_at, fmt::format("a cable from {} to itself", called(c.a)));
    if (status s = check_end(c, c.a, c.a_at); !s.ok()) return s;
    if (status s = check_end(c, c.b, c.b_at); !s.ok()) return s;
    for (double g : {c.there, c.back})
        if (!(g > 0) || !std::isfinite(g))
            return complain_(c.at, fmt::format("a capacity of {} Gb/s is not positive", g));
    lanes_ += c.lanes;
    if (lanes_ > max_cables) return complain_(c.at, fmt::format("more than {} cables", max_cables));
    for (uint32_t end : {c.a, c.b}) cable_of_[end] = uint32_t(cables_.size());
    cables_.push_back(std::move(c));
    return {};
}

// ---------------------------------------------------------------- the whole

void draft::find_parts() {
    std::vector<uint32_t> up(nodes_.size());
    std::iota(up.begin(), up.end(), 0u);
    const auto root = [&](uint32_t n) {
        while (up[n] != n) n = up[n] = up[up[n]];
        return n;
    };
    for (const draft_cable& c : cables_) {
        const uint32_t a = root(c.a), b = root(c.b);
        up[std::max(a, b)] = std::min(a, b);  // a part's root is its first node
    }
    part_.assign(nodes_.size(), 0);
    parts_ = 0;
    for (uint32_t n = 0; n < nodes_.size(); ++n)
        part_[n] = root(n) == n ? parts_++ : part_[root(n)];
}

// Planes may be apart if every server has a NIC on each of them; else all is one part.
status draft::check_parts() const {
    std::vector<uint32_t> first(parts_, none);  // host of each part
    uint32_t home = none;
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
        if (cable_of_[n] == none && nodes_.size() > 1)
            return complain_(nodes_[n].at, fmt::format("{} has no cable", called(n)));
        if (nodes_[n].kind != node_kind::host) continue;
        if (home == none) home = n;
        if (first[part_[n]] == none) first[part_[n]] = n;
    }
    if (home == none) return complain_(0, "the fabric has no hosts");
    for (uint32_t n = 0; n < nodes_.size(); ++n)
        if (first[part_[n]] == none)
            return complain_(nodes_[n].at,
                             fmt::format("{} cannot be reached from any host", called(n)));
    if (parts_ == 1) return {};
    std::unordered_map<std::string_view, std::vector<uint32_t>> planes;
    for (uint32_t n = 0; n < nodes_.size(); ++n)
        if (nodes_[n].kind == node_kind::host) planes[nodes_[n].server].push_back(part_[n]);
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
        if (nodes_[n].kind != node_kind::host) continue;
        std::vector<uint32_t>& on = planes[nodes_[n].server];
        std::sort(on.begin(), on.end());
        on.erase(std::unique(on.begin(), on.end()), on.end());
        if (on.size() == parts_) continue;
        const uint32_t apart = part_[n] == part_[home] ? first[part_[home] == 0 ? 1 : 0] : n;
        return complain_(nodes_[apart].at,
                         fmt::format("{} cannot be reached from {}, and not every "
                                     "server has a host on every part",
                                     called(apart), called(home)));
    }
    return {};
}

status draft::find_tiers() {
    std::vector<std::vector<uint32_t>> near(nodes_.size());
    for (const draft_cable& c : cables_) {
        near[c.a].push_back(c.b);
        near[c.b].push_back(c.a);
    }
    std::vector<uint32_t> far(nodes_.size(), none), queue;
    for (uint32_t n = 0; n < nodes_.size(); ++n)
        if (nodes_[n].kind == node_kind::host) {
            far[n] = 0;
            queue.push_back(n);
        }
    for (size_t i = 0; i < queue.size(); ++i)
        for (uint32_t o : near[queue[i]])
            if (far[o] == none) {
                far[o] = far[queue[i]] + 1;
                queue.push_back(o);
            }
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
        if (nodes_[n].kind == node_kind::host || nodes_[n].tier) continue;
        if (far[n] > 255)
            return complain_(nodes_[n].at, fmt::format("{} is {} cables away from the nearest "
                                                       "host; at most 255 are possible",
                                                       called(n), far[n]));
        nodes_[n].tier = uint8_t(far[n]);
    }
    return {};
}

std::vector<uint32_t> draft::order() const {
    std::vector<uint32_t> by(nodes_.size());
    std::iota(by.begin(), by.end(), 0u);
    if (!nodes_.empty() && nodes_[0].id != none) {
        std::sort(by.begin(), by.end(),
                  [&](uint32_t x, uint32_t y) { return nodes_[x].id < nodes_[y].id; });
    } else {
        std::stable_partition(by.begin(), by.end(), [&](uint32_t n) {
            return nodes_[n].kind == node_kind::network_switch;
        });
    }
    return by;
}

result<graph> draft::build() && {
    find_parts();
    if (status s = check_parts(); !s.ok()) return s;
    if (status s = find_tiers(); !s.ok()) return s;
    if (bigraph)
        if (status s = check_bigraph(); !s.ok()) return s;
    graph g;
    g.name = std::move(name);
    g.bigraph = bigraph;
    std::vector<node_id> ids(nodes_.size());
    for (uint32_t n : order()) {
        draft_node& d = nodes_[n];
        if (d.kind == node_kind::host) {
            ids[n] = g.add_host(std::move(d.name), std::move(d.server), d.rail);
            g.set_address(ids[n], std::move(d.address));
        } else {
            ids[n] = g.add_switch(std::move(d.name), *d.tier, d.side);
        }
    }
    for (const draft_cable& c : cables_)
        for (uint32_t lane = 0; lane < c.lanes; ++lane) {
            const link_id l = g.add_cable(ids[c.a], ids[c.b], c.there, c.back);
            if (!c.up) g.set_up(l, false);
            if (!c.b_address.empty()) g.set_link_address(l, c.b_address);
            if (!c.a_address.empty()) g.set_link_address(g.edge(l).reverse, c.a_address);
        }
    if (status s = g.check(); !s.ok()) return complain_(0, s.text());
    return g;
}

}  // namespace ef::fabric
