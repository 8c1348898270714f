// Routes at large: over many fabrics and failures held to a plain search, over all pairs held to
// chance, and over many shapes held to the loads that are proved for them.
#include "affinity/fabric/routes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <queue>
#include <random>
#include <set>

namespace ef::fabric {
namespace {

/// Links from a to everywhere over what is up, by plain breadth first search over nodes.
std::vector<uint32_t> distances(const graph& g, node_id a) {
    std::vector<uint32_t> d(g.nodes().size(), none);
    std::queue<node_id> q;
    d[a] = 0;
    for (q.push(a); !q.empty(); q.pop())
        for (link_id l : g.out(q.front()))
            if (g.edge(l).up && d[g.edge(l).to] == none) {
                d[g.edge(l).to] = d[q.front()] + 1;
                q.push(g.edge(l).to);
            }
    return d;
}

/// "" or what is wrong with this path.
std::string fault_of(const graph& g, node_id a, node_id b, const path& p, uint32_t length) {
    node_id at = a;
    for (link_id l : p) {
        if (g.edge(l).from != at) return g.text_of(l) + " does not follow";
        if (!g.edge(l).up) return g.text_of(l) + " is down";
        at = g.edge(l).to;
    }
    if (at != b) return "ends at " + g.at(at).name;
    if (p.size() != length) return "has " + std::to_string(p.size()) + " links";
    return "";
}

void expect_shortest_paths(const graph& g, route_rule rule, const char* what) {
    const routes ways(g, rule);
    for (node_id a : g.hosts()) {
        const std::vector<uint32_t> d = distances(g, a);
        for (node_id b : g.hosts()) {
            const std::string pair =
                std::string(what) + ", " + g.name + ": " + g.at(a).name + " to " + g.at(b).name;
            ASSERT_EQ(ways.distance(a, b), d[b]) << pair;
            for (uint32_t subflow : {0u, 3u}) {
                path p{7, 7};  // append() leaves what is there
                ASSERT_EQ(ways.append(a, b, subflow, p), d[b] != none) << pair;
                ASSERT_GE(p.size(), 2u);
                ASSERT_EQ(p[0] + p[1], 14u);
                p.erase(p.begin(), p.begin() + 2);
                if (d[b] == none) ASSERT_TRUE(p.empty()) << pair;
                else ASSERT_EQ(fault_of(g, a, b, p, d[b]), "") << pair;
            }
        }
    }
}

void expect_shortest_paths(const graph& g) {
    expect_shortest_paths(g, {balance::hash, 7}, "hash");
    expect_shortest_paths(g, {balance::by_destination, 7}, "by destination");
}

std::vector<graph> small_fabrics() {
    return {make_bigraph({1, 2, 1, 1}, 100),
            make_bigraph({2, 2, 1, 1}, 100),
            make_bigraph({4, 4, 1, 1}, 100),
            make_bigraph({3, 5, 2, 1}, 100),
            make_bigraph({2, 3, 2, 2}, 100),
            make_leaf_spine(4, 4, 4, 1, 100),
            make_leaf_spine(3, 5, 2, 3, 100),
            make_fat_tree(2, 100),
            make_fat_tree(4, 100),
            make_fat_tree(6, 100),
            make_single(5, 100)};
}

struct loads {
    uint32_t most = 0;  // between switches
    bool reachable = true;
};

loads load_of(const routes& ways, const std::vector<std::pair<node_id, node_id>>& flows) {
    const graph& g = ways.net();
    std::vector<uint32_t> count(g.links().size(), 0);
    loads l;
    for (const auto& [a, b] : flows) {
        path p;
        l.reachable &= ways.append(a, b, 0, p);
        for (size_t i = 1; i + 1 < p.size(); ++i) l.most = std::max(l.most, ++count[p[i]]);
    }
    return l;
}

// HDRM, rank to endpoint; the letters are those of the specification.
node_id hdrm(const graph& g, uint32_t S, uint32_t H, uint32_t r) {
    const uint32_t x = r % (2 * S), group = r / (2 * S), i = x >> 1;
    const bool lower = std::popcount(r) & 1;
    const uint32_t sw = lower ? i : (i + group) % S;
    return g.hosts()[((lower ? S : 0) + sw) * H + group];
}

/// The flows of recursive halving's exchange over `bit`, with ranks on hosts in this order.
std::vector<std::pair<node_id, node_id>> partners(const std::vector<node_id>& order, uint32_t bit) {
    std::vector<std::pair<node_id, node_id>> flows;
    for (uint32_t r = 0; r < order.size(); ++r) flows.push_back({order[r], order[r ^ bit]});
    return flows;
}

TEST(RoutesAtLarge, AreShortestPathsOverWhatIsUpWhateverHasFailed) {
    SCOPED_TRACE("seed 20");
    std::mt19937 random(20);
    for (graph g : small_fabrics())
        for (int round = 0; round < 3; ++round) {
            // A tenth of the cables each time: the last rounds leave parts that nothing reaches.
            for (size_t i = 0; i < g.links().size() / 20 + 1; ++i)
                g.set_up(link_id(random() % g.links().size()), false);
            expect_shortest_paths(g);
        }
}

// All shortest paths by following every link that comes nearer.
size_t count_paths(const graph& g, node_id at, node_id b, const std::vector<uint32_t>& left) {
    if (at == b) return 1;
    size_t n = 0;
    for (link_id l : g.out(at))
        if (g.edge(l).up && left[g.edge(l).to] + 1 == left[at])
            n += count_paths(g, g.edge(l).to, b, left);
    return n;
}

TEST(RoutesAtLarge, ListAllShortestPathsThatASearchFinds) {
    for (const graph& g : small_fabrics()) {
        if (g.hosts().size() > 40) continue;
        const routes ways(g, {});
        for (node_id a : g.hosts())
            for (node_id b : g.hosts()) {
                if (a == b) continue;
                const std::vector<uint32_t> left = distances(g, b);
                const std::vector<path> found = ways.all(a, b, 1000);
                const size_t want = left[a] == none ? 0 : count_paths(g, a, b, left);
                ASSERT_EQ(found.size(), want)
                    << g.name << ": " << g.at(a).name << " to " << g.at(b).name;
                EXPECT_TRUE(std::is_sorted(found.begin(), found.end()));
                EXPECT_EQ(std::set<path>(found.begin(), found.end()).size(), want);
                for (const path& p : found) ASSERT_EQ(fault_of(g, a, b, p, left[a]), "");
                const std::vector<path> few = ways.all(a, b, 2);
                EXPECT_EQ(few, std::vector<path>(found.begin(),
                                                 found.begin() + std::min<size_t>(2, want)));
                EXPECT_TRUE(ways.all(a, b, 0).empty());
            }
    }
}

// Sum of (seen - expected)^2 / expected; of c cells of a fair choice about c - 1, and more than
// c - 1 + 5 sqrt(2 (c - 1)) hardly ever. Seeds are fixed: a pass stays one.
double chi_square(const std::map<link_id, uint32_t>& seen, size_t cells, size_t draws) {
    const double expected = double(draws) / double(cells);
    double sum = double(cells - seen.size()) * expected;
    for (const auto& [l, n] : seen) sum += (n - expected) * (n - expected) / expected;
    return sum;
}

double bound(size_t cells) { return double(cells - 1) + 5 * std::sqrt(2 * double(cells - 1)); }

TEST(RoutesAtLarge, UseEveryNextHopEquallyOftenByHash) {
    const graph g = make_leaf_spine(8, 16, 8, 2, 100);
    for (uint64_t seed : {1, 2, 3, 1000}) {
        const routes ways(g, {balance::hash, seed});
        // From each leaf, and down from each spine to the lanes of a leaf.
        std::map<std::pair<node_id, node_id>, std::map<link_id, uint32_t>> up, lanes;
        std::map<std::pair<node_id, node_id>, uint32_t> draws, lane_draws;
        for (node_id a : g.hosts())
            for (node_id b : g.hosts()) {
                path p;
                ASSERT_TRUE(ways.append(a, b, 0, p));
                if (p.size() != 4) continue;
                ++up[{g.switch_of(a), 0}][p[1]];
                ++draws[{g.switch_of(a), 0}];
                const std::pair trunk(g.edge(p[2]).from, g.edge(p[2]).to);
                ++lanes[trunk][p[2]];
                ++lane_draws[trunk];
            }
        for (const auto& [at, seen] : up)
            EXPECT_LT(chi_square(seen, 16, draws[at]), bound(16)) << g.at(at.first).name;
        double sum = 0;
        for (const auto& [at, seen] : lanes) sum += chi_square(seen, 2, lane_draws[at]);
        EXPECT_EQ(lanes.size(), 64u);
        EXPECT_LT(sum, 64 + 5 * std::sqrt(2.0 * 64));
    }
}

// Were a switch further on to hash as the one before, the flows that reach it would all go one way.
TEST(RoutesAtLarge, ChooseAnewAtEachSwitchByHash) {
    const graph g = make_fat_tree(8, 100);
    const routes ways(g, {balance::hash, 5});
    std::map<std::pair<node_id, node_id>, std::map<link_id, uint32_t>> after;  // edge, aggregation
    std::map<std::pair<node_id, node_id>, uint32_t> draws;
    for (node_id a : g.hosts())
        for (node_id b : g.hosts()) {
            path p;
            ASSERT_TRUE(ways.append(a, b, 0, p));
            if (p.size() != 6) continue;
            ++after[{g.edge(p[1]).from, g.edge(p[1]).to}][p[2]];
            ++draws[{g.edge(p[1]).from, g.edge(p[1]).to}];
        }
    EXPECT_EQ(after.size(), 32u * 4);
    double sum = 0;
    for (const auto& [at, seen] : after) sum += chi_square(seen, 4, draws[at]);
    const double degrees = 32 * 4 * 3;
    EXPECT_LT(sum, degrees + 5 * std::sqrt(2 * degrees));
    EXPECT_GT(sum, degrees - 5 * std::sqrt(2 * degrees)) << "more even than chance is no hash";
}

TEST(RoutesAtLarge, CarryBlockOrderOnALeafSpineOfSeveralLanesWithLoadOne) {
    for (const auto& [leaves, hosts, spines, lanes] : {std::tuple(8u, 4u, 4u, 1u),
                                                       {4u, 8u, 8u, 1u},
                                                       {16u, 16u, 16u, 1u},
                                                       {4u, 8u, 4u, 2u},
                                                       {4u, 8u, 2u, 4u}}) {
        const graph g = make_leaf_spine(leaves, hosts, spines, lanes, 100);
        const std::vector<node_id> block(g.hosts().begin(), g.hosts().end());
        const routes fixed(g, {balance::by_destination, 1}), hashed(g, {balance::hash, 1});
        uint32_t worst = 0;
        for (uint32_t bit = 1; bit < block.size(); bit <<= 1) {
            const uint32_t want = bit < hosts ? 0 : 1;
            EXPECT_EQ(load_of(fixed, partners(block, bit)).most, want) << g.name << " bit " << bit;
            worst = std::max(worst, load_of(hashed, partners(block, bit)).most);
        }
        EXPECT_GT(worst, 1u) << "hashing collides";
    }
}

// A permutation that moves each host by the same number of places, as D-mod-K is made for.
TEST(RoutesAtLarge, CarryEveryShiftOnAFatTreeWithLoadOne) {
    for (uint32_t k : {4u, 6u, 8u}) {
        const graph g = make_fat_tree(k, 100);
        const routes ways(g, {balance::by_destination, 1});
        const size_t n = g.hosts().size();
        for (size_t shift = 1; shift < n; ++shift) {
            std::vector<std::pair<node_id, node_id>> flows;
            for (size_t i = 0; i < n; ++i)
                flows.push_back({g.hosts()[i], g.hosts()[(i + shift) % n]});
            ASSERT_EQ(load_of(ways, flows).most, 1u) << "k=" << k << " shift " << shift;
        }
    }
}

TEST(RoutesAtLarge, RelayByDestinationOverSwitchPlusPort) {
    const graph g = make_bigraph({4, 6, 2, 1}, 100);
    const routes ways(g, {balance::by_destination, 1});
    for (node_id a : g.hosts())
        for (node_id b : g.hosts()) {
            const node &from = g.at(g.switch_of(a)), &to = g.at(g.switch_of(b));
            if (from.side != to.side || &from == &to) continue;
            path p;
            ASSERT_TRUE(ways.append(a, b, 0, p));
            ASSERT_EQ(p.size(), 4u);
            const uint32_t sw = uint32_t(std::stoul(to.name.substr(1))), port = g.at(b).port;
            EXPECT_EQ(g.at(g.edge(p[1]).to).name,
                      (to.side ? "U" : "L") + std::to_string((sw + port) % 4));
            EXPECT_EQ(g.edge(p[1]).lane, port / 4 % 2);
            EXPECT_EQ(g.edge(p[2]).lane, port / 4 % 2);
        }
}

// Files list cables in any order.
TEST(RoutesAtLarge, DoNotDependOnTheOrderOfCables) {
    const graph g = make_bigraph({3, 9, 3, 1}, 100);
    graph mixed;
    mixed.bigraph = g.bigraph;
    for (const node& v : g.nodes()) {
        if (v.kind == node_kind::host) mixed.add_host(v.name);
        else mixed.add_switch(v.name, v.tier, v.side);
    }
    for (node_id h : g.hosts()) mixed.add_cable(h, g.switch_of(h), 100);
    for (uint32_t lane = 0; lane < 3; ++lane)
        for (uint32_t l = 3; l-- > 0;)
            for (uint32_t u = 0; u < 3; ++u)
                mixed.add_cable(g.switches()[u], g.switches()[3 + l], 100);
    ASSERT_TRUE(mixed.check().ok()) << mixed.check().text();
    const routes want(g, {balance::by_destination, 1}), got(mixed, {balance::by_destination, 1});
    for (node_id a : g.hosts())
        for (node_id b : g.hosts()) {
            path p, q;
            ASSERT_TRUE(want.append(a, b, 0, p));
            ASSERT_TRUE(got.append(a, b, 0, q));
            ASSERT_EQ(p.size(), q.size());
            for (size_t i = 0; i < p.size(); ++i) ASSERT_EQ(g.text_of(p[i]), mixed.text_of(q[i]));
        }
}

TEST(RoutesAtLarge, KeepHdrmToItsLoadOverLanesWhereHashingCollides) {
    const auto worst = [](const graph& g, uint32_t S, uint32_t H, route_rule rule) {
        const routes ways(g, rule);
        std::vector<node_id> order;
        for (uint32_t r = 0; r < 2 * S * H; ++r) order.push_back(hdrm(g, S, H, r));
        EXPECT_EQ(std::set<node_id>(order.begin(), order.end()).size(), order.size());
        uint32_t most = 0;
        for (uint32_t bit = 1; bit < order.size(); bit <<= 1)
            most = std::max(most, load_of(ways, partners(order, bit)).most);
        return most;
    };
    for (uint32_t S = 1; S <= 16; S *= 2)
        for (uint32_t H = 1; H <= 32; H *= 2)
            for (uint32_t L : {1, 2, 4, 8}) {
                const graph g = make_bigraph({S, H, L, 1}, 100);
                const uint32_t want = std::max(1u, (H + S * L - 1) / (S * L));
                EXPECT_EQ(worst(g, S, H, {balance::by_destination, 1}), want) << g.name;
                // Which lane matters only if there are several, and only to flows that share a pair.
                const uint32_t hashed = worst(g, S, H, {balance::hash, 1});
                if (L == 1 || H <= S) {
                    EXPECT_EQ(hashed, want) << g.name;
                } else if (H >= 4 * S && L <= 4) {
                    EXPECT_GT(hashed, want) << g.name;
                }
            }
    // 64 hosts, two lanes: two flows meet on one while the other is idle.
    const graph g = make_bigraph({4, 8, 2, 1}, 100);
    EXPECT_EQ(worst(g, 4, 8, {balance::by_destination, 1}), 1u);
    EXPECT_EQ(worst(g, 4, 8, {balance::hash, 1}), 2u);
}

// Who proves this size routes each flow of each round anew: 16 rounds, two rules, 2 million paths.
TEST(RoutesAtLarge, ProveHdrmFreeOfCongestionAt65536Hosts) {
    const uint32_t S = 256, H = 128;
    const graph g = make_bigraph({S, H, 1, 1}, 100);
    ASSERT_EQ(g.hosts().size(), 65536u);
    std::vector<node_id> order;
    for (uint32_t r = 0; r < 2 * S * H; ++r) order.push_back(hdrm(g, S, H, r));
    for (balance how : {balance::by_destination, balance::hash}) {
        const routes ways(g, {how, 1});
        for (uint32_t bit = 1; bit < order.size(); bit <<= 1) {
            const loads l = load_of(ways, partners(order, bit));
            ASSERT_TRUE(l.reachable);
            ASSERT_EQ(l.most, 1u) << "bit " << bit;
        }
    }
}

}  // namespace
}  // namespace ef::fabric
