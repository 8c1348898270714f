#include "tools/plan/summary.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

namespace ef::planning {
namespace {

using fabric::graph;
using fabric::link_id;
using fabric::node_id;
using fabric::node_kind;

/// Maximum flow [Dinic 1970] over switches: from those with hosts of one half to those of the
/// other.
class flow_network {
public:
    explicit flow_network(size_t nodes) : out_(nodes) {}

    void add(size_t a, size_t b, double capacity) {
        out_[a].push_back(edges_.size());
        edges_.push_back({b, capacity});
        out_[b].push_back(edges_.size());
        edges_.push_back({a, 0});
    }

    double maximum(size_t source, size_t sink) {
        double total = 0;
        while (levels(source, sink)) {
            next_.assign(out_.size(), 0);
            for (double f; (f = push(source, sink)) > tiny;) total += f;
        }
        return total;
    }

private:
    struct edge {
        size_t to;
        double room;
    };
    static constexpr double tiny = 1e-9;

    bool levels(size_t source, size_t sink) {
        level_.assign(out_.size(), -1);
        level_[source] = 0;
        std::vector<size_t> queue{source};
        for (size_t i = 0; i < queue.size(); ++i)
            for (const size_t e : out_[queue[i]])
                if (edges_[e].room > tiny && level_[edges_[e].to] < 0) {
                    level_[edges_[e].to] = level_[queue[i]] + 1;
                    queue.push_back(edges_[e].to);
                }
        return level_[sink] >= 0;
    }

    /// One augmenting path, without recursion: paths are as long as the graph is deep.
    double push(size_t source, size_t sink) {
        std::vector<size_t> path;
        for (size_t at = source; at != sink;) {
            bool moved = false;
            for (; next_[at] < out_[at].size(); ++next_[at]) {
                const size_t e = out_[at][next_[at]];
                if (edges_[e].room <= tiny || level_[edges_[e].to] != level_[at] + 1) continue;
                path.push_back(e);
                at = edges_[e].to;
                moved = true;
                break;
            }
            if (moved) continue;
            if (path.empty()) return 0;
            at = edges_[path.back() ^ 1].to;
            ++next_[at];
            path.pop_back();
        }
        double room = std::numeric_limits<double>::infinity();
        for (const size_t e : path) room = std::min(room, edges_[e].room);
        for (const size_t e : path) {
            edges_[e].room -= room;
            edges_[e ^ 1].room += room;
        }
        return room;
    }

    std::vector<std::vector<size_t>> out_;
    std::vector<edge> edges_;
    std::vector<int> level_;
    std::vector<size_t> next_;
};

const std::string& server_of(const fabric::node& n) { return n.server.empty() ? n.name : n.server; }

/// What can flow from the hosts with half[i] to the others.
double cut(const graph& g, const std::vector<bool>& half) {
    const size_t source = g.nodes().size(), sink = source + 1;
    flow_network net(sink + 1);
    for (link_id l = 0; l < g.links().size(); ++l) {
        const fabric::link& e = g.edge(l);
        if (e.up && g.at(e.from).kind != node_kind::host && g.at(e.to).kind != node_kind::host)
            net.add(e.from, e.to, e.gbps);
    }
    std::map<node_id, double> in, out;  // by switch
    for (size_t i = 0; i < g.hosts().size(); ++i) {
        const fabric::link& up = g.edge(g.uplink(g.hosts()[i]));
        if (!up.up) continue;
        if (half[i]) in[up.to] += up.gbps;
        else out[up.to] += g.edge(up.reverse).gbps;
    }
    for (const auto& [n, gbps] : in) net.add(source, n, gbps);
    for (const auto& [n, gbps] : out) net.add(n, sink, gbps);
    return net.maximum(source, sink);
}

/// Halves of the servers of each group, in the order in which they were added; no server is cut.
std::vector<bool> halves(const graph& g, bool by_side) {
    std::map<std::string, std::pair<int, size_t>> place;  // server -> group, index in it
    std::map<int, size_t> size;
    for (const node_id h : g.hosts()) {
        const int group = by_side ? g.at(g.switch_of(h)).side : 0;
        if (place.try_emplace(server_of(g.at(h)), group, size[group]).second) ++size[group];
    }
    std::vector<bool> half;
    for (const node_id h : g.hosts()) {
        const auto& [group, index] = place.at(server_of(g.at(h)));
        half.push_back(2 * index < size[group]);
    }
    return half;
}

void find_bisection(const graph& g, fabric_summary& s) {
    const auto look = [&](const std::vector<bool>& half, const char* says) {
        const double gbps = cut(g, half);
        if (!s.bisection_cut.empty() && gbps >= s.bisection_gbps) return;
        s.bisection_gbps = gbps;
        s.bisection_cut = says;
    };
    if (s.servers < 2) return;
    look(halves(g, false), "the first half of the hosts against the second");
    if (!g.bigraph) return;
    std::vector<bool> side;
    for (const node_id h : g.hosts()) side.push_back(g.at(g.switch_of(h)).side == 0);
    look(side, "U against L");
    look(halves(g, true), "half of U and half of L against the rest");
}

void find_oversubscription(const graph& g, fabric_summary& s) {
    for (const node_id n : g.switches()) {
        double hosts = 0, others = 0;
        for (const link_id l : g.out(n)) {
            if (!g.edge(l).up) continue;
            (g.at(g.edge(l).to).kind == node_kind::host ? hosts : others) += g.edge(l).gbps;
        }
        if (hosts == 0 || others == 0 || hosts / others <= s.oversubscription) continue;
        s.oversubscription = hosts / others;
        s.oversubscribed = g.at(n).name;
    }
}

}  // namespace

fabric_summary summarize(const graph& g) {
    fabric_summary s;
    s.hosts = g.hosts().size();
    s.switches = g.switches().size();
    std::set<std::string> servers;
    std::set<uint32_t> rails;
    for (const node_id h : g.hosts()) {
        servers.insert(server_of(g.at(h)));
        rails.insert(g.at(h).rail);
    }
    s.servers = servers.size();
    s.rails = rails.size();
    for (const node_id n : g.switches()) ++s.tiers[g.at(n).tier];
    for (link_id l = 0; l < g.links().size(); ++l) {
        const fabric::link& e = g.edge(l);
        const bool first = l < e.reverse;
        s.down += first && !e.up;
        s.least_gbps = l == 0 ? e.gbps : std::min(s.least_gbps, e.gbps);
        s.most_gbps = std::max(s.most_gbps, e.gbps);
        if (g.at(e.to).kind == node_kind::host) continue;
        if (g.at(e.from).kind == node_kind::host) {
            s.host_gbps += e.gbps;
        } else {
            s.cables += first;
            if (first) s.switch_gbps += e.gbps;
        }
    }
    find_oversubscription(g, s);
    find_bisection(g, s);
    return s;
}

}  // namespace ef::planning
