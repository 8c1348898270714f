#include "affinity/fabric/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace ef::fabric {

node_id graph::add(node n) {
    const node_id id = node_id(nodes_.size());
    by_name_.emplace(n.name, id);  // the first of a name stays; check() finds the second
    nodes_.push_back(std::move(n));
    out_.emplace_back();
    return id;
}

node_id graph::add_switch(std::string called, uint8_t tier, uint8_t side) {
    const node_id id = add({std::move(called), node_kind::network_switch, tier, side, {}, {}});
    switches_.push_back(id);
    hosts_of_.resize(nodes_.size(), 0);
    return id;
}

node_id graph::add_host(std::string called, std::string server, uint32_t rail) {
    node n{std::move(called), node_kind::host, 0, 0, std::move(server), {}};
    if (n.server.empty()) n.server = n.name;
    n.rail = rail;
    const node_id id = add(std::move(n));
    hosts_.push_back(id);
    hosts_of_.resize(nodes_.size(), 0);
    return id;
}

link_id graph::add_cable(node_id a, node_id b, double gbps) { return add_cable(a, b, gbps, gbps); }

link_id graph::add_cable(node_id a, node_id b, double gbps_there, double gbps_back) {
    const link_id there = link_id(links_.size()), back = there + 1;
    const uint32_t lane = lanes_[uint64_t(std::min(a, b)) << 32 | std::max(a, b)]++;
    links_.push_back({a, b, lane, gbps_there, true, back, {}});
    links_.push_back({b, a, lane, gbps_back, true, there, {}});
    out_[a].push_back(there);
    out_[b].push_back(back);
    for (auto [host, other] : {std::pair(a, b), std::pair(b, a)})
        if (nodes_[host].kind == node_kind::host && nodes_[host].port == none)
            nodes_[host].port = hosts_of_[other]++;
    return there;
}

node_id graph::find(std::string_view called) const noexcept {
    const auto it = by_name_.find(called);
    return it == by_name_.end() ? none : it->second;
}

std::string graph::text_of(link_id l) const {
    const link& e = links_[l];
    const bool parallel = std::any_of(out_[e.from].begin(), out_[e.from].end(), [&](link_id o) {
        return links_[o].to == e.to && links_[o].lane != e.lane;
    });
    std::string t = nodes_[e.from].name + "-" + nodes_[e.to].name;
    return parallel ? t + fmt::format("/{}", e.lane) : t;
}

link_id graph::find_link(std::string_view text) const noexcept {
    // Names may hold dashes and slashes themselves, so every cut is tried; the link that is called
    // exactly so goes before one that could be.
    uint32_t lane = 0;
    link_id found = none;
    std::string_view ends = text;
    if (const size_t slash = text.rfind('/'); slash != std::string_view::npos) {
        const std::string_view digits = text.substr(slash + 1);
        if (!digits.empty() && digits.size() < 6 &&
            std::all_of(digits.begin(), digits.end(),
                        [](char c) { return c >= '0' && c <= '9'; })) {
            for (char c : digits) lane = lane * 10 + uint32_t(c - '0');
            ends = text.substr(0, slash);
        }
    }
    for (const std::string_view t : {ends, text}) {
        for (size_t cut = t.find('-'); cut != std::string_view::npos; cut = t.find('-', cut + 1)) {
            const node_id a = find(t.substr(0, cut)), b = find(t.substr(cut + 1));
            if (a == none || b == none) continue;
            for (link_id l : out_[a])
                if (links_[l].to == b && links_[l].lane == lane) {
                    if (text_of(l) == text) return l;
                    if (found == none) found = l;
                }
        }
        lane = 0;
    }
    return found;
}

void graph::set_up(link_id l, bool up) noexcept {
    links_[l].up = up;
    links_[links_[l].reverse].up = up;
}

void graph::set_switch_up(node_id n, bool up) noexcept {
    for (link_id l : out_[n]) set_up(l, up);
}

// ---------------------------------------------------------------- check

status graph::check() const {
    for (node_id n = 0; n < nodes_.size(); ++n) {
        const node& v = nodes_[n];
        if (v.name.empty()) return status(EF_INVALID, fmt::format("node {} has no name", n));
        if (find(v.name) != n)
            return status(EF_INVALID, fmt::format("two nodes are called {}", v.name));
    }
    for (link_id l = 0; l < links_.size(); ++l) {
        const link& e = links_[l];
        if (!(e.gbps > 0) || !std::isfinite(e.gbps))
            return status(EF_INVALID,
                          fmt::format("link {}: a capacity of {} Gb/s", text_of(l), e.gbps));
        if (e.from == e.to)
            return status(EF_INVALID,
                          fmt::format("a cable from {} to itself", nodes_[e.from].name));
    }
    for (node_id h : hosts_)
        if (status s = check_host(h); !s.ok()) return s;
    return check_connected();
}

status graph::check_host(node_id h) const {
    const node& v = nodes_[h];
    if (out_[h].empty())
        return status(EF_INVALID, fmt::format("host {} is connected to nothing", v.name));
    if (out_[h].size() > 1)
        return status(EF_INVALID,
                      fmt::format("host {} has {} cables, to {} and {}: one NIC is one "
                                  "host, give each its own name and the same server",
                                  v.name, out_[h].size(), nodes_[links_[out_[h][0]].to].name,
                                  nodes_[links_[out_[h][1]].to].name));
    const node& other = nodes_[links_[out_[h][0]].to];
    if (other.kind == node_kind::host)
        return status(EF_INVALID, fmt::format("host {} is connected to host {}, not to a switch",
                                              v.name, other.name));
    return {};
}

// One part, or separate planes: each then has one NIC or more of every server.
status graph::check_connected() const {
    std::vector<uint32_t> part(nodes_.size(), none);
    std::vector<node_id> first;  // host of each part
    std::vector<node_id> queue;
    for (node_id start : hosts_) {
        if (part[start] != none) continue;
        const uint32_t p = uint32_t(first.size());
        first.push_back(start);
        queue.assign(1, start);
        part[start] = p;
        while (!queue.empty()) {
            const node_id n = queue.back();
            queue.pop_back();
            for (link_id l : out_[n])
                if (part[links_[l].to] == none) {
                    part[links_[l].to] = p;
                    queue.push_back(links_[l].to);
                }
        }
    }
    const auto apart = [&](node_id a, node_id b) {
        return status(EF_INVALID,
                      fmt::format("no cables lead from {} to {}", nodes_[a].name, nodes_[b].name));
    };
    for (node_id n : switches_)
        if (part[n] == none)
            return hosts_.empty() ? status(EF_INVALID, "a fabric without hosts")
                                  : apart(hosts_[0], n);
    if (first.size() < 2) return {};
    std::unordered_map<std::string_view, std::vector<bool>> planes;
    for (node_id h : hosts_) {
        std::vector<bool>& on = planes[nodes_[h].server];
        on.resize(first.size());
        on[part[h]] = true;
    }
    for (node_id h : hosts_) {
        const std::vector<bool>& on = planes[nodes_[h].server];
        const auto missing = std::find(on.begin(), on.end(), false);
        if (missing != on.end()) return apart(h, first[size_t(missing - on.begin())]);
    }
    return {};
}

}  // namespace ef::fabric
