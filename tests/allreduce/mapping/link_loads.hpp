// Flows on the links of a fabric, round by round, counted in the dullest way from the plans of all
// ranks: what tests hold maps to.
#pragma once

#include "affinity/fabric/routes.hpp"
#include "allreduce/algo/algorithm.hpp"
#include "allreduce/mapping/maps.hpp"
#include "allreduce/plan_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace ef::mapping::test {

struct pair_flow {
    rank_t from, to;
    double part;  // of the vector
};

/// By round.
using rounds = std::vector<std::vector<pair_flow>>;

inline rounds flows_of_all(const algorithm& a, plan_request r) {
    std::map<std::pair<uint32_t, std::pair<rank_t, rank_t>>, double> sums;
    uint32_t count = 0;
    for (r.rank = 0; r.rank < r.nranks; ++r.rank) {
        const plan p = a.build(r);
        for (const move& m : p.moves)
            if (m.kind == move_kind::send)
                sums[{m.round, {p.rank, m.peer}}] += double(m.what.count) / p.nblocks;
        count = std::max(count, p.all_rounds);
    }
    rounds out(count);
    for (const auto& [key, part] : sums)
        out[key.first].push_back({key.second.first, key.second.second, part});
    return out;
}

struct round_load {
    uint32_t most = 0;      // flows on the fullest link
    uint32_t switches = 0;  // flows on the fullest link between switches
    double bytes = 0;       // on the link with most bytes, in vectors
    bool reachable = true;
};

inline round_load load_of_round(std::span<const pair_flow> flows, const fabric::routes& routes,
                                const placement& where) {
    const fabric::graph& g = routes.net();
    std::vector<uint32_t> count(g.links().size(), 0);
    std::vector<double> bytes(g.links().size(), 0);
    round_load out;
    for (const pair_flow& f : flows) {
        const fabric::node_id a = g.hosts()[where[size_t(f.from)]],
                              b = g.hosts()[where[size_t(f.to)]];
        // Between two NICs of a server nothing goes over the fabric.
        const std::string& server = g.at(a).server;
        if (a == b || (!server.empty() && server == g.at(b).server)) continue;
        fabric::path p;
        if (!routes.append(a, b, 0, p)) out.reachable = false;
        for (const fabric::link_id l : p) {
            const bool between = g.at(g.edge(l).from).kind == fabric::node_kind::network_switch &&
                                 g.at(g.edge(l).to).kind == fabric::node_kind::network_switch;
            out.most = std::max(out.most, ++count[l]);
            if (between) out.switches = std::max(out.switches, count[l]);
            out.bytes = std::max(out.bytes, bytes[l] += f.part);
        }
    }
    return out;
}

struct loads {
    std::vector<round_load> by_round;
    uint32_t most() const {
        uint32_t m = 0;
        for (const round_load& r : by_round) m = std::max(m, r.most);
        return m;
    }
    /// Time in n/B when all ranks are in step.
    double bytes() const {
        double sum = 0;
        for (const round_load& r : by_round) sum += r.bytes;
        return sum;
    }
    bool reachable() const {
        return std::all_of(by_round.begin(), by_round.end(),
                           [](const round_load& r) { return r.reachable; });
    }
};

struct arrangement {
    fabric::graph g;
    placement where;
    std::vector<int> host_of = {};
    rank_maps maps = {};

    /// Each rank on the host of its number.
    explicit arrangement(fabric::graph net) : arrangement(std::move(net), {}) {}
    arrangement(fabric::graph net, placement at, std::vector<int> servers = {})
        : g(std::move(net)), where(std::move(at)), host_of(std::move(servers)) {
        if (where.empty()) {
            where.resize(g.hosts().size());
            std::iota(where.begin(), where.end(), 0);
        }
        maps = make_maps(g, where, host_of);
    }

    plan_request request() const {
        plan_request r;
        r.nranks = rank_t(where.size());
        r.maps = &maps;
        r.host_of = host_of;
        return r;
    }
    rounds flows(std::string_view name) const {
        return flows_of_all(*find_algorithm(name), request());
    }
    loads load(std::string_view name,
               fabric::route_rule rule = {fabric::balance::by_destination, 1}) const {
        const fabric::routes routes(g, rule);
        loads out;
        for (const auto& round : flows(name))
            out.by_round.push_back(load_of_round(round, routes, where));
        return out;
    }
    /// "U0p0 L0p0 ..": hosts in the order of positions.
    std::string hosts(const rank_order& o) const {
        std::string all;
        for (const rank_t r : o.order)
            all += (all.empty() ? "" : " ") + g.at(g.hosts()[where[size_t(r)]]).name;
        return all;
    }
};

inline bool is_permutation(const rank_order& o, size_t n) {
    std::set<rank_t> all(o.order.begin(), o.order.end());
    return o.order.size() == n && all.size() == n &&
           (n == 0 || (*all.begin() == 0 && *all.rbegin() == rank_t(n) - 1));
}

/// Every plan of these that serves the request is right.
inline void expect_right_plans(const arrangement& a) {
    if (a.where.size() > 64) return;
    for (const char* name :
         {"hdrm", "eulerian_ring", "hierarchical:hdrm", "hierarchical:eulerian_ring"}) {
        plan_request r = a.request();
        if (!find_algorithm(name)->accepts(r)) continue;
        const status s = check_plans(r, [&](rank_t rank) {
            plan_request mine = r;
            mine.rank = rank;
            return find_algorithm(name)->build(mine);
        });
        EXPECT_TRUE(s.ok()) << name << ": " << s.text();
    }
}

}  // namespace ef::mapping::test
