// Routes: every path is a shortest one, what the rules choose, failures and pins; and the loads that
// the field's static routes are known for.
#include "affinity/fabric/routes.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <set>

namespace ef::fabric {
namespace {

std::vector<graph> small_fabrics() {
    std::vector<graph> all;
    all.push_back(make_bigraph({3, 2, 1, 1}, 100));
    all.push_back(make_bigraph({2, 4, 2, 1}, 100));
    all.push_back(make_leaf_spine(3, 3, 2, 1, 100));
    all.push_back(make_leaf_spine(2, 2, 3, 2, 100));
    all.push_back(make_fat_tree(4, 100));
    all.push_back(make_single(4, 100));
    return all;
}

/// Links from one host to every node, counted breadth first over what is up: the dullest distance.
std::vector<uint32_t> count_links(const graph& g, node_id from) {
    std::vector<uint32_t> d(g.nodes().size(), none);
    std::vector<node_id> queue{from};
    d[from] = 0;
    for (size_t i = 0; i < queue.size(); ++i)
        for (const link_id l : g.out(queue[i]))
            if (g.edge(l).up && d[g.edge(l).to] == none) {
                d[g.edge(l).to] = d[queue[i]] + 1;
                queue.push_back(g.edge(l).to);
            }
    return d;
}

/// "" or what is wrong with it as a way from a to b.
std::string fault_of(const graph& g, const path& p, node_id a, node_id b) {
    node_id at = a;
    for (const link_id l : p) {
        if (g.edge(l).from != at) return g.text_of(l) + " does not begin where the one before ends";
        if (!g.edge(l).up) return g.text_of(l) + " is down";
        at = g.edge(l).to;
    }
    return at == b ? "" : "ends at " + g.at(at).name;
}

std::string text_of(const graph& g, const path& p) {
    std::string t;
    for (const link_id l : p) t += (t.empty() ? "" : " ") + g.text_of(l);
    return t;
}

path way(const routes& r, node_id a, node_id b, uint32_t subflow = 0) {
    path p;
    EXPECT_TRUE(r.append(a, b, subflow, p));
    return p;
}

/// Flows on the fullest link when each pair sends.
uint32_t load(const routes& r, const std::vector<std::pair<node_id, node_id>>& flows) {
    std::map<link_id, uint32_t> on;
    uint32_t most = 0;
    for (const auto& [a, b] : flows)
        for (const link_id l : way(r, a, b)) most = std::max(most, ++on[l]);
    return most;
}

TEST(Routes, TakeAShortestPathBetweenAllPairsByEveryRule) {
    for (const graph& g : small_fabrics())
        for (const balance how : {balance::hash, balance::by_destination, balance::pinned}) {
            SCOPED_TRACE(g.name);
            const routes r(g, {how, 7});
            for (const node_id a : g.hosts()) {
                const std::vector<uint32_t> distance = count_links(g, a);
                for (const node_id b : g.hosts()) {
                    const path p = way(r, a, b);
                    EXPECT_EQ(fault_of(g, p, a, b), "") << text_of(g, p);
                    EXPECT_EQ(p.size(), distance[b]) << text_of(g, p);
                    EXPECT_EQ(r.distance(a, b), distance[b]);
                }
            }
        }
}

TEST(Routes, AppendBehindWhatIsThere) {
    const graph g = make_single(2, 100);
    const routes r(g, {});
    path p = {17};
    EXPECT_TRUE(r.append(g.hosts()[0], g.hosts()[0], 0, p));
    EXPECT_EQ(p, path{17});
    EXPECT_TRUE(r.append(g.hosts()[0], g.hosts()[1], 0, p));
    EXPECT_EQ(p, (path{17, g.uplink(g.hosts()[0]), g.edge(g.uplink(g.hosts()[1])).reverse}));
}

// ---------------------------------------------------------------- all()

TEST(RoutesAll, ListEachShortestPathOnceAndInOrder) {
    for (const graph& g : small_fabrics()) {
        SCOPED_TRACE(g.name);
        const routes r(g, {});
        for (const node_id a : g.hosts())
            for (const node_id b : g.hosts()) {
                const std::vector<path> all = r.all(a, b, 1000);
                EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
                EXPECT_EQ(std::set(all.begin(), all.end()).size(), all.size());
                for (const path& p : all) {
                    EXPECT_EQ(fault_of(g, p, a, b), "") << text_of(g, p);
                    EXPECT_EQ(p.size(), r.distance(a, b));
                }
                if (a == b) {
                    EXPECT_TRUE(all.empty());
                    continue;
                }
                const path taken = way(r, a, b);
                EXPECT_EQ(std::count(all.begin(), all.end(), taken), 1) << text_of(g, taken);
            }
    }
}

TEST(RoutesAll, AreAsManyAsTheFabricHas) {
    const auto count = [](const graph& g, const char* a, const char* b) {
        return routes(g, {}).all(g.find(a), g.find(b), 1000).size();
    };
    const graph bigraph = make_bigraph({4, 2, 2, 1}, 100);
    EXPECT_EQ(count(bigraph, "U0p0", "L3p1"), 2u) << "opposite side: L";
    EXPECT_EQ(count(bigraph, "U0p0", "U3p1"), 4u * 2 * 2) << "same side: S L L";
    EXPECT_EQ(count(bigraph, "U0p0", "U0p1"), 1u);
    const graph clos = make_leaf_spine(3, 2, 4, 3, 100);
    EXPECT_EQ(count(clos, "leaf0p0", "leaf2p1"), 4u * 3 * 3);
    EXPECT_EQ(count(clos, "leaf0p0", "leaf0p1"), 1u);
    const graph tree = make_fat_tree(6, 100);
    EXPECT_EQ(count(tree, "p0e0h0", "p0e0h2"), 1u);
    EXPECT_EQ(count(tree, "p0e0h0", "p0e1h0"), 3u) << "k/2 within a pod";
    EXPECT_EQ(count(tree, "p0e0h0", "p5e1h0"), 9u) << "(k/2)^2 between pods";
}

TEST(RoutesAll, StopAtTheNumberAskedFor) {
    const graph g = make_leaf_spine(2, 1, 5, 1, 100);
    const routes r(g, {});
    const std::vector<path> all = r.all(g.hosts()[0], g.hosts()[1], 9);
    ASSERT_EQ(all.size(), 5u);
    for (size_t most = 0; most < 5; ++most)
        EXPECT_EQ(r.all(g.hosts()[0], g.hosts()[1], most),
                  std::vector(all.begin(), all.begin() + long(most)));
}

// ---------------------------------------------------------------- hash

TEST(RoutesHash, SpreadsSubflowsEvenlyOverTheSpines) {
    const graph g = make_leaf_spine(2, 1, 8, 1, 100);
    for (uint64_t seed = 1; seed <= 5; ++seed) {
        const routes r(g, {balance::hash, seed});
        std::map<link_id, int> on;
        for (uint32_t s = 0; s < 8000; ++s) ++on[way(r, g.hosts()[0], g.hosts()[1], s)[1]];
        ASSERT_EQ(on.size(), 8u);
        // chi^2 of 7 degrees of freedom passes 24.3 once in a thousand.
        double chi2 = 0;
        for (const auto& [l, n] : on) chi2 += (n - 1000.0) * (n - 1000.0) / 1000;
        EXPECT_LT(chi2, 24.3) << "seed " << seed;
    }
}

TEST(RoutesHash, SpreadsPairsEvenlyAtEachLevelOfAFatTree) {
    const graph g = make_fat_tree(6, 100);
    const routes r(g, {balance::hash, 3});
    std::map<node_id, int> over;
    int flows = 0;
    for (const node_id a : g.hosts())
        for (const node_id b : g.hosts())
            if (r.distance(a, b) == 6) {
                ++over[g.edge(way(r, a, b)[2]).to];
                ++flows;
            }
    ASSERT_EQ(over.size(), 9u) << "core switches: two levels hash apart, or only 3 would be seen";
    double chi2 = 0;
    const double each = flows / 9.0;
    for (const auto& [core, n] : over) chi2 += (n - each) * (n - each) / each;
    EXPECT_LT(chi2, 26.1) << "8 degrees of freedom, once in a thousand";
}

TEST(RoutesHash, KeepsAFlowAndChangesWithSeedSubflowAndDirection) {
    const graph g = make_leaf_spine(2, 8, 8, 1, 100);
    routes r(g, {balance::hash, 1});
    const routes again(g, {balance::hash, 1}), other(g, {balance::hash, 2});
    int seed = 0, subflow = 0, direction = 0;
    std::vector<path> first;
    for (int i = 0; i < 64; ++i) {
        const node_id a = g.hosts()[size_t(i % 8)], b = g.hosts()[size_t(8 + i / 8)];
        first.push_back(way(r, a, b));
        EXPECT_EQ(first.back(), way(again, a, b));
        seed += first.back() != way(other, a, b);
        subflow += first.back() != way(r, a, b, 1);
        direction += g.edge(first.back()[1]).to != g.edge(way(r, b, a)[1]).to;
    }
    // 7 of 8 differ by chance: 56 of 64, deviation 2.6.
    EXPECT_GT(seed, 45);
    EXPECT_GT(subflow, 45);
    EXPECT_GT(direction, 45);
    r.reseed(2);
    for (int i = 0; i < 64; ++i) {
        const node_id a = g.hosts()[size_t(i % 8)], b = g.hosts()[size_t(8 + i / 8)];
        EXPECT_EQ(way(r, a, b), way(other, a, b));
    }
}

// ---------------------------------------------------------------- by destination

/// Pairs of one step of halving-doubling in block order.
std::vector<std::pair<node_id, node_id>> step_of(const graph& g, uint32_t bit) {
    std::vector<std::pair<node_id, node_id>> flows;
    for (uint32_t r = 0; r < g.hosts().size(); ++r)
        flows.emplace_back(g.hosts()[r], g.hosts()[r ^ bit]);
    return flows;
}

TEST(RoutesByDestination, CarryBlockOrderOnALeafSpineWithOneFlowPerLink) {
    for (const auto& [leaves, hosts] : {std::pair(4u, 4u), {8u, 8u}, {16u, 4u}, {2u, 16u}}) {
        const graph g = make_leaf_spine(leaves, hosts, hosts, 1, 100);
        const routes r(g, {balance::by_destination, 1}), hashed(g, {balance::hash, 1});
        uint32_t worst_hashed = 0;
        for (uint32_t bit = 1; bit < leaves * hosts; bit *= 2) {
            EXPECT_EQ(load(r, step_of(g, bit)), 1u) << g.name << " bit " << bit;
            worst_hashed = std::max(worst_hashed, load(hashed, step_of(g, bit)));
        }
        EXPECT_GT(worst_hashed, 1u) << g.name << ": or the case shows nothing";
    }
}

TEST(RoutesByDestination, CarryBlockOrderOnAFatTreeWithOneFlowPerLink) {
    // k = 8: 4 hosts of a switch, 4 switches of a pod, 8 pods.
    const graph g = make_fat_tree(8, 100);
    const routes r(g, {balance::by_destination, 1});
    for (uint32_t bit = 1; bit < 128; bit *= 2)
        EXPECT_EQ(load(r, step_of(g, bit)), 1u) << "bit " << bit;
}

TEST(RoutesByDestination, TakeTheSpineOfTheDestinationsPort) {
    const graph g = make_leaf_spine(3, 4, 4, 1, 100);
    const routes r(g, {balance::by_destination, 1});
    for (const node_id a : g.hosts())
        for (const node_id b : g.hosts())
            if (g.switch_of(a) != g.switch_of(b)) {
                EXPECT_EQ(g.at(g.edge(way(r, a, b)[1]).to).name,
                          fmt::format("spine{}", g.at(b).port));
            }
}

TEST(RoutesByDestination, TakeTheLaneOfTheDestinationsPortOnABigraph) {
    const graph g = make_bigraph({2, 8, 4, 1}, 100);
    const routes r(g, {balance::by_destination, 1});
    for (const node_id a : g.hosts())
        for (const node_id b : g.hosts())
            if (g.at(g.switch_of(a)).side != g.at(g.switch_of(b)).side) {
                EXPECT_EQ(g.edge(way(r, a, b)[1]).lane, g.at(b).port / 2 % 4) << "port / S mod L";
            }
}

/// Ranks as HDRM places them, written out again from its definition.
node_id hdrm_host(const graph& g, uint32_t r, uint32_t S, uint32_t H) {
    const uint32_t x = r % (2 * S), port = r / (2 * S), i = x / 2;
    const bool low = std::popcount(r) & 1;
    const uint32_t sw = low ? i : (i + port) % S;
    return g.hosts()[(low ? S * H : 0) + sw * H + port];
}

TEST(RoutesByDestination, CarryHdrmWithOneFlowPerLaneOfABigraph) {
    for (const auto& [S, H, L] :
         {std::tuple(4u, 4u, 1u), {8u, 4u, 1u}, {4u, 8u, 2u}, {2u, 8u, 4u}}) {
        const graph g = make_bigraph({S, H, L, 1}, 100);
        const routes r(g, {balance::by_destination, 1});
        const uint32_t n = 2 * S * H;
        for (uint32_t bit = 1; bit < n; bit *= 2) {
            std::vector<std::pair<node_id, node_id>> flows;
            for (uint32_t k = 0; k < n; ++k)
                flows.emplace_back(hdrm_host(g, k, S, H), hdrm_host(g, k ^ bit, S, H));
            EXPECT_EQ(load(r, flows), 1u) << g.name << " bit " << bit;
        }
    }
}

TEST(RoutesByDestination, MeetAtTheRelaysOnlyIfBothSidesMove) {
    // Every host of U0 sends to the same port of U1, those of U1 to U2, ..; and on L alike.
    constexpr uint32_t S = 8, H = 8;
    const graph g = make_bigraph({S, H, 1, 1}, 100);
    const routes r(g, {balance::by_destination, 1});
    for (uint32_t shift = 1; shift < S; ++shift) {
        std::vector<std::pair<node_id, node_id>> side[2];
        for (uint32_t s = 0; s < 2; ++s)
            for (uint32_t sw = 0; sw < S; ++sw)
                for (uint32_t p = 0; p < H; ++p)
                    side[s].emplace_back(g.hosts()[s * S * H + sw * H + p],
                                         g.hosts()[s * S * H + (sw + shift) % S * H + p]);
        EXPECT_EQ(load(r, side[0]), 1u) << "shift " << shift;
        EXPECT_EQ(load(r, side[1]), 1u) << "shift " << shift;
        std::vector<std::pair<node_id, node_id>> both = side[0];
        both.insert(both.end(), side[1].begin(), side[1].end());
        EXPECT_EQ(load(r, both), 2u) << "shift " << shift;
    }
}

// ---------------------------------------------------------------- failures

TEST(RoutesFailures, GoRoundAFailedLinkOfABigraphInThreeHops) {
    graph g = make_bigraph({3, 2, 1, 1}, 100);
    for (const balance how : {balance::hash, balance::by_destination}) {
        routes r(g, {how, 1});
        const node_id a = g.find("U0p0"), b = g.find("L0p1");
        EXPECT_EQ(text_of(g, way(r, a, b)), "U0p0-U0 U0-L0 L0-L0p1");
        EXPECT_EQ(r.distance(a, b), 3u);
        g.set_up(g.find_link("U0-L0"), false);
        r.refresh();
        const path detour = way(r, a, b);
        EXPECT_EQ(fault_of(g, detour, a, b), "");
        EXPECT_EQ(detour.size(), 5u) << "three links between switches: " << text_of(g, detour);
        EXPECT_EQ(r.distance(a, b), 5u);
        EXPECT_EQ(r.all(a, b, 100).size(), 4u) << "over L1 or L2, then U1 or U2";
        EXPECT_EQ(way(r, g.find("U1p0"), b).size(), 3u) << "others keep their way";
        g.set_up(g.find_link("U0-L0"), true);
        r.refresh();
        EXPECT_EQ(text_of(g, way(r, a, b)), "U0p0-U0 U0-L0 L0-L0p1");
    }
}

TEST(RoutesFailures, UseTheLanesThatAreLeft) {
    graph g = make_bigraph({2, 4, 2, 1}, 100);
    g.set_up(g.find_link("U0-L1/1"), false);
    for (const balance how : {balance::hash, balance::by_destination}) {
        const routes r(g, {how, 1});
        for (const node_id a : g.hosts())
            for (const node_id b : g.hosts()) {
                const path p = way(r, a, b);
                EXPECT_EQ(fault_of(g, p, a, b), "") << text_of(g, p);
            }
        EXPECT_EQ(r.all(g.find("U0p0"), g.find("L1p0"), 9).size(), 1u);
    }
}

TEST(RoutesFailures, SayThatAHostCannotBeReachedAndLeaveThePathAsItWas) {
    graph g = make_leaf_spine(2, 2, 2, 1, 100);
    const node_id a = g.find("leaf0p0"), near = g.find("leaf0p1"), b = g.find("leaf1p0");
    routes r(g, {});
    const auto unreachable = [&](node_id to) {
        path p = {5};
        EXPECT_FALSE(r.append(a, to, 0, p));
        EXPECT_EQ(p, path{5});
        EXPECT_EQ(r.distance(a, to), none);
        EXPECT_TRUE(r.all(a, to, 9).empty());
    };
    g.set_switch_up(g.find("spine0"), false);
    r.refresh();
    EXPECT_EQ(r.all(a, b, 9).size(), 1u);
    g.set_switch_up(g.find("spine1"), false);
    r.refresh();
    unreachable(b);
    EXPECT_EQ(way(r, a, near).size(), 2u);
    g.set_up(g.uplink(near), false);
    r.refresh();
    unreachable(near);
    g.set_up(g.uplink(near), true);
    g.set_up(g.uplink(a), false);
    r.refresh();
    unreachable(near);
}

TEST(RoutesFailures, KeepPlanesApart) {
    const graph g = make_bigraph({2, 2, 1, 2}, 100);
    const routes r(g, {});
    path p;
    EXPECT_FALSE(r.append(g.find("r0U0p0"), g.find("r1L0p0"), 0, p));
    EXPECT_EQ(r.distance(g.find("r0U0p0"), g.find("r1U0p0")), none);
    EXPECT_EQ(r.distance(g.find("r1U0p0"), g.find("r1L0p0")), 3u);
}

// ---------------------------------------------------------------- pins

TEST(RoutesPins, AreTakenByTheirFlowAndNoOther) {
    const graph g = make_leaf_spine(2, 2, 4, 1, 100);
    const node_id a = g.hosts()[0], b = g.hosts()[2];
    routes r(g, {balance::pinned, 1});
    const routes hashed(g, {balance::hash, 1}), static_rule(g, {balance::by_destination, 1});
    for (const path& p : r.all(a, b, 9)) {
        ASSERT_TRUE(r.pin(a, b, 0, p).ok());
        EXPECT_EQ(way(r, a, b), p) << "the last one said";
        EXPECT_EQ(way(r, a, b, 1), way(hashed, a, b, 1));
        EXPECT_EQ(way(r, b, a), way(hashed, b, a));
    }
    routes other(g, {balance::by_destination, 1});
    ASSERT_TRUE(other.pin(a, b, 0, r.all(a, b, 9).back()).ok());
    EXPECT_EQ(way(other, a, b), way(static_rule, a, b)) << "pins are for the rule of that name";
}

TEST(RoutesPins, MayGoALongWayRound) {
    const graph g = make_bigraph({2, 1, 1, 1}, 100);
    const node_id a = g.find("U0p0"), b = g.find("L0p0");
    routes r(g, {balance::pinned, 1});
    path p;
    for (const char* l : {"U0p0-U0", "U0-L1", "L1-U1", "U1-L0", "L0-L0p0"})
        p.push_back(g.find_link(l));
    ASSERT_TRUE(r.pin(a, b, 0, p).ok());
    EXPECT_EQ(way(r, a, b), p);
}

TEST(RoutesPins, AreLeftWhileALinkIsDownAndTakenAgainAfterwards) {
    graph g = make_leaf_spine(2, 1, 2, 1, 100);
    const node_id a = g.hosts()[0], b = g.hosts()[1];
    routes r(g, {balance::pinned, 1});
    const std::vector<path> all = r.all(a, b, 2);
    for (const size_t i : {size_t(0), size_t(1)}) {
        ASSERT_TRUE(r.pin(a, b, 0, all[i]).ok());
        g.set_up(all[i][1], false);
        r.refresh();
        EXPECT_EQ(way(r, a, b), all[1 - i]);
        g.set_up(all[i][1], true);
        r.refresh();
        EXPECT_EQ(way(r, a, b), all[i]) << "refresh keeps pins";
    }
}

TEST(RoutesPins, AreRefusedWithTheFirstLinkThatDoesNotFit) {
    graph g = make_leaf_spine(2, 2, 2, 1, 100);
    const node_id a = g.find("leaf0p0"), b = g.find("leaf1p0");
    routes r(g, {balance::pinned, 1});
    const auto links = [&](std::initializer_list<const char*> names) {
        path p;
        for (const char* n : names) {
            p.push_back(g.find_link(n));
            EXPECT_NE(p.back(), none) << n;
        }
        return p;
    };
    const auto why = [&](path p) {
        const status s = r.pin(a, b, 0, std::move(p));
        EXPECT_EQ(s.code(), EF_INVALID);
        return std::string(s.text());
    };
    const std::string pair = "a path from leaf0p0 to leaf1p0";
    const path before = way(r, a, b);
    EXPECT_EQ(why({}), pair + " ends at leaf0p0");
    EXPECT_EQ(why(links({"leaf0p0-leaf0", "leaf0-spine0"})), pair + " ends at spine0");
    EXPECT_EQ(why(links({"leaf0p0-leaf0", "spine0-leaf1", "leaf1-leaf1p0"})),
              pair + ": link spine0-leaf1 does not begin where the one before ends");
    EXPECT_EQ(why(links({"leaf0-spine0"})),
              pair + ": link leaf0-spine0 does not begin where the one before ends");
    EXPECT_EQ(why({g.find_link("leaf0p0-leaf0"), 9999}), pair + ": link 9999 does not exist");
    EXPECT_EQ(why(links({"leaf0p0-leaf0", "leaf0-leaf0p1", "leaf0p1-leaf0", "leaf0-spine0",
                         "spine0-leaf1", "leaf1-leaf1p0"})),
              pair + ": link leaf0p1-leaf0 begins at a host");
    g.set_up(g.find_link("spine1-leaf1"), false);
    EXPECT_EQ(why(links({"leaf0p0-leaf0", "leaf0-spine1", "spine1-leaf1", "leaf1-leaf1p0"})),
              pair + ": link spine1-leaf1 is down");
    g.set_up(g.find_link("spine1-leaf1"), true);
    EXPECT_EQ(way(r, a, b), before) << "what is refused changes nothing";
}

}  // namespace
}  // namespace ef::fabric
