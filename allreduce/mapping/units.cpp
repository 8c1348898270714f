#include "allreduce/mapping/units.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace ef::mapping {

using fabric::graph;
using fabric::node_id;

namespace {

/// By rank: index of its server.
std::vector<int> servers_of(const graph& g, const placement& where) {
    std::unordered_map<std::string_view, int> known;
    std::vector<int> out;
    out.reserve(where.size());
    for (const uint32_t h : where) {
        const fabric::node& n = g.at(g.hosts()[h]);
        const std::string_view name = n.server.empty() ? n.name : n.server;
        out.push_back(known.emplace(name, int(known.size())).first->second);
    }
    return out;
}

/// Walks from switch to switch.
class walker {
public:
    explicit walker(const graph& g) : g_(g), seen_(g.nodes().size(), 0) {}

    /// The wanted switches that are nearest to `from`, by id, and how far they are.
    std::vector<node_id> nearest(node_id from, const std::vector<bool>& wanted, uint32_t* hops_p) {
        ++pass_;
        std::vector<node_id> edge{from}, next, found;
        seen_[from] = pass_;
        for (uint32_t hops = 1; !edge.empty() && found.empty(); ++hops) {
            next.clear();
            for (const node_id n : edge)
                for (const fabric::link_id l : g_.out(n)) visit(g_.edge(l).to, wanted, next, found);
            edge.swap(next);
            *hops_p = hops;
        }
        std::sort(found.begin(), found.end());
        return found;
    }

private:
    void visit(node_id n, const std::vector<bool>& wanted, std::vector<node_id>& next,
               std::vector<node_id>& found) {
        if (seen_[n] == pass_ || g_.at(n).kind != fabric::node_kind::network_switch) return;
        seen_[n] = pass_;
        next.push_back(n);
        if (wanted[n]) found.push_back(n);
    }

    const graph& g_;
    std::vector<uint32_t> seen_;
    uint32_t pass_ = 0;
};

}  // namespace

std::vector<unit> units_of(const graph& g, const placement& where, std::span<const int> host_of) {
    std::vector<int> own;
    if (host_of.empty()) {
        own = servers_of(g, where);
        host_of = own;
    }
    std::vector<unit> units;
    for (size_t r = 0; r < where.size(); ++r) {
        const size_t server = size_t(host_of[r]);
        if (server >= units.size()) units.resize(server + 1);
        units[server].members.push_back(rank_t(r));
    }
    const auto rail_first = [&](rank_t a, rank_t b) {
        const uint32_t ha = where[size_t(a)], hb = where[size_t(b)];
        return std::tuple(g.at(g.hosts()[ha]).rail, ha, a) <
               std::tuple(g.at(g.hosts()[hb]).rail, hb, b);
    };
    for (unit& u : units) {
        if (u.members.empty()) continue;
        std::sort(u.members.begin(), u.members.end(), rail_first);
        u.host = g.hosts()[where[size_t(u.members[0])]];
        u.at = g.switch_of(u.host);
        u.port = g.at(u.host).port;
    }
    return units;
}

std::vector<station> stations_of(const graph& g, std::span<const unit> units) {
    std::map<node_id, station> by_switch;
    for (uint32_t i = 0; i < units.size(); ++i) {
        station& s = by_switch[units[i].at];
        s.at = units[i].at;
        s.side = g.at(s.at).side;
        s.units.push_back(i);
    }
    std::vector<station> out;
    for (auto& [id, s] : by_switch) {
        std::sort(s.units.begin(), s.units.end(), [&](uint32_t a, uint32_t b) {
            return std::tuple(units[a].port, units[a].host, a) <
                   std::tuple(units[b].port, units[b].host, b);
        });
        out.push_back(std::move(s));
    }
    return out;
}

std::vector<station> in_a_line(const graph& g, std::vector<station> stations) {
    std::vector<bool> wanted(g.nodes().size(), false);
    std::unordered_map<node_id, size_t> index;
    for (size_t i = 0; i < stations.size(); ++i) {
        wanted[stations[i].at] = true;
        index[stations[i].at] = i;
    }
    std::vector<station> line;
    const auto take = [&](node_id n) {
        wanted[n] = false;
        line.push_back(std::move(stations[index[n]]));
    };
    walker from(g);
    for (size_t first = 0; line.size() < index.size();) {
        std::vector<node_id> next;
        uint32_t hops = 0;
        if (!line.empty()) next = from.nearest(line.back().at, wanted, &hops);
        if (next.empty()) {  // the first of all, or of a part that cannot be reached
            while (!wanted[stations[first].at]) ++first;
            next = {stations[first].at};
        }
        // Two hops: all that hang off the same switches. They come together, in order of ids.
        next.resize(hops == 2 ? next.size() : 1);
        for (const node_id n : next) take(n);
    }
    return line;
}

}  // namespace ef::mapping
