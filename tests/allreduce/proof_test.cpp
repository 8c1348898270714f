// Loads of links: small fabrics with their loads counted by hand, and what HDRM promises.
#include "allreduce/proof.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace ef {
namespace {

using fabric::balance;
using fabric::graph;
using fabric::routes;

mapping::placement one_each(const graph& g) {
    mapping::placement p(g.hosts().size());
    std::iota(p.begin(), p.end(), 0);
    return p;
}

// Two switches with two hosts each and one cable between them: h0 h1 - a - b - h2 h3.
graph dumbbell() {
    graph g;
    const auto a = g.add_switch("a", 1), b = g.add_switch("b", 1);
    for (int i = 0; i < 4; ++i) {
        const auto h = g.add_host("h" + std::to_string(i));
        g.add_cable(h, i < 2 ? a : b, 100);
    }
    g.add_cable(a, b, 100);
    return g;
}

TEST(Proof, CountsTheFlowsOfARoundOnEachLink) {
    const graph g = dumbbell();
    const routes r(g, {balance::hash, 1});
    // Round 0: both hosts of `a` send to those of `b`, one of them half a vector; one answers.
    // Rounds 1 and 2: neighbours.
    const std::vector<flow_round> flows = {
        {0, 1, {{0, 2, 1.0}, {1, 3, 0.5}, {2, 0, 0.25}}},
        {1, 2, {{0, 1, 0.5}, {1, 0, 0.5}}},
    };
    const load_report l = load_of(flows, r, one_each(g));
    ASSERT_TRUE(l.unreachable.ok());
    EXPECT_EQ(l.rounds, 3u);
    EXPECT_EQ(l.most, 2);
    EXPECT_EQ(l.by_round, (std::vector<double>{2, 1, 1}));
    EXPECT_FALSE(l.congestion_free());
    ASSERT_EQ(l.worst.size(), 1u);
    EXPECT_EQ(g.text_of(l.worst[0].link), "a-b");
    EXPECT_EQ(l.worst[0].round, 0u);
    EXPECT_EQ(l.worst[0].load, 2);
    EXPECT_EQ(l.worst[0].pairs, (std::vector<std::pair<rank_t, rank_t>>{{0, 2}, {1, 3}}));
    const auto bytes = [&](const char* link) { return l.bytes_on_link[g.find_link(link)]; };
    EXPECT_DOUBLE_EQ(bytes("h0-a"), 1.0 + 2 * 0.5);
    EXPECT_DOUBLE_EQ(bytes("h1-a"), 0.5 + 2 * 0.5);
    EXPECT_DOUBLE_EQ(bytes("a-b"), 1.5);
    EXPECT_DOUBLE_EQ(bytes("b-a"), 0.25);
    EXPECT_DOUBLE_EQ(bytes("a-h0"), 0.25 + 2 * 0.5);
    EXPECT_DOUBLE_EQ(bytes("b-h2"), 1.0);
    EXPECT_DOUBLE_EQ(bytes("h3-b"), 0.0);
}

TEST(Proof, SaysWhichRanksMeetOnWhichLink) {
    const graph g = dumbbell();
    const routes r(g, {balance::hash, 1});
    const std::vector<flow_round> crossing = {{3, 1, {{0, 2, 1}, {1, 3, 1}}}};
    EXPECT_EQ(text_of(load_of(crossing, r, one_each(g)), g),
              "congested: up to 2 flows per link\n"
              "  round 3: a-b carries 2 flows: 0 -> 2, 1 -> 3");
    const std::vector<flow_round> beside = {{0, 6, {{0, 1, 1}, {2, 3, 1}}}};
    EXPECT_EQ(text_of(load_of(beside, r, one_each(g)), g),
              "congestion-free: at most 1 flow per link in each of 6 rounds");
    EXPECT_EQ(text_of(load_of({}, r, one_each(g)), g), "congestion-free: nothing leaves a host");
}

TEST(Proof, LaysNothingForRanksOfOneHostOrOneServer) {
    graph g;
    const auto a = g.add_switch("a", 1);
    for (const char* name : {"s/0", "s/1", "t"})
        g.add_cable(g.add_host(name, name[0] == 's' ? "s" : "", 0), a, 100);
    const routes r(g, {balance::hash, 1});
    // Ranks 0 and 1 share NIC s/0, rank 2 has the other one of that server.
    const mapping::placement where = {0, 0, 1, 2};
    const std::vector<flow_round> inside = {{0, 1, {{0, 1, 1}, {1, 2, 1}, {2, 0, 1}}}};
    EXPECT_EQ(load_of(inside, r, where).rounds, 0u);
    EXPECT_EQ(load_of(inside, r, where).most, 0);
    const std::vector<flow_round> out = {{0, 1, {{0, 3, 1}, {1, 3, 1}, {2, 3, 1}}}};
    const load_report l = load_of(out, r, where);
    EXPECT_EQ(l.most, 3);
    ASSERT_EQ(l.worst.size(), 2u);
    EXPECT_EQ(g.text_of(l.worst[0].link), "a-t");
    EXPECT_EQ(g.text_of(l.worst[1].link), "s/0-a");
    EXPECT_EQ(l.worst[1].load, 2);
}

TEST(Proof, NamesThePairThatHasNoPath) {
    graph g = dumbbell();
    g.set_up(g.find_link("a-b"), false);
    const routes r(g, {balance::hash, 1});
    const std::vector<flow_round> flows = {{0, 1, {{0, 1, 1}, {1, 3, 1}}}};
    const load_report l = load_of(flows, r, one_each(g));
    EXPECT_FALSE(l.congestion_free());
    EXPECT_EQ(text_of(l, g), "no path from h1 (rank 1) to h3 (rank 3)");
}

TEST(Proof, SplitsAFlowOverItsSubflows) {
    // Two leaves, one host each, four spines; the subflows are pinned to spines 0 0 1 2.
    const graph g = fabric::make_leaf_spine(2, 1, 4, 1, 100);
    routes r(g, {balance::pinned, 1});
    const auto h0 = g.hosts()[0], h1 = g.hosts()[1];
    const std::vector<fabric::path> ways = r.all(h0, h1, 4);
    ASSERT_EQ(ways.size(), 4u);
    const size_t way[] = {0, 0, 1, 2};
    for (uint32_t s = 0; s < 4; ++s) ASSERT_TRUE(r.pin(h0, h1, s, ways[way[s]]).ok());
    const std::vector<flow_round> flows = {{0, 1, {{0, 1, 1}}}};
    const load_report l = load_of(flows, r, one_each(g), 4);
    EXPECT_TRUE(l.congestion_free());
    EXPECT_DOUBLE_EQ(l.bytes_on_link[ways[0][0]], 1);  // the host's own link
    EXPECT_DOUBLE_EQ(l.bytes_on_link[ways[0][1]], 0.5);
    EXPECT_DOUBLE_EQ(l.bytes_on_link[ways[1][1]], 0.25);
    EXPECT_DOUBLE_EQ(l.bytes_on_link[ways[2][1]], 0.25);
    EXPECT_DOUBLE_EQ(l.bytes_on_link[ways[3][1]], 0);
}

TEST(Proof, KeepsTheFullestLinksOfAllRounds) {
    const graph g = fabric::make_single(5, 100);
    const routes r(g, {balance::hash, 1});
    const std::vector<flow_round> flows = {
        {0, 1, {{1, 0, 1}, {2, 0, 1}}},
        {1, 1, {{0, 1, 1}, {2, 1, 1}, {3, 1, 1}, {4, 1, 1}}},
        {2, 1, {{0, 2, 1}, {1, 2, 1}, {3, 2, 1}}},
    };
    const load_report l = load_of(flows, r, one_each(g), 1, 2);
    ASSERT_EQ(l.worst.size(), 2u);
    EXPECT_EQ(l.worst[0].round, 1u);
    EXPECT_EQ(l.worst[0].load, 4);
    EXPECT_EQ(l.worst[0].pairs.size(), 4u);
    EXPECT_EQ(l.worst[1].round, 2u);
    EXPECT_EQ(l.worst[1].load, 3);
}

// ------------------------------------------------------------------ what the paper promises

struct job {
    graph g;
    mapping::placement where;
    rank_maps maps;
    explicit job(graph net) : g(std::move(net)), where(one_each(g)) {
        maps = mapping::make_maps(g, where);
    }
    load_report load(std::string_view name, balance how = balance::by_destination) const {
        plan_request like;
        like.nranks = rank_t(where.size());
        like.maps = &maps;
        const algorithm& a = *find_algorithm(name);
        const auto build = [&](rank_t r) {
            plan_request mine = like;
            mine.rank = r;
            return a.build(mine);
        };
        return load_of(flows_read(like.nranks, build), routes(g, {how, 1}), where);
    }
};

TEST(Proof, FindsHdrmAndTheEulerianRingFreeOfCongestion) {
    for (const auto& [s, h, l] : {std::tuple(2u, 2u, 1u),
                                  {4u, 2u, 1u},
                                  {4u, 4u, 1u},
                                  {2u, 4u, 2u},
                                  {8u, 4u, 1u},
                                  {4u, 8u, 2u},
                                  {16u, 16u, 1u}}) {
        const job j(fabric::make_bigraph({s, h, l, 1}, 100));
        const load_report hdrm = j.load("hdrm");
        EXPECT_TRUE(hdrm.congestion_free()) << text_of(hdrm, j.g);
        uint32_t lg = 0;
        while ((1u << lg) < 2 * s * h) ++lg;
        EXPECT_EQ(hdrm.rounds, 2 * lg);
        const load_report ring = j.load("eulerian_ring");
        EXPECT_TRUE(ring.congestion_free()) << text_of(ring, j.g);
        EXPECT_EQ(ring.rounds, 2 * (2 * s * h - 1));
    }
}

TEST(Proof, FindsTheBlockOrderToPutHFlowsOnEachLinkBetweenTheSides) {
    // The step of the top bit: U a port p with L a port p, one link per a, no choice of path.
    const job j(fabric::make_bigraph({4, 4, 1, 1}, 100));
    const load_report r = j.load("halving_doubling", balance::hash);
    EXPECT_EQ(r.rounds, 10u);
    // Near bits first: rounds 4 and 5 are those of bit 4.
    EXPECT_EQ(r.by_round[4], 4);
    EXPECT_EQ(r.by_round[5], 4);
    // Bits 0 and 1 stay inside a switch.
    EXPECT_EQ(r.by_round[0], 1);
    EXPECT_EQ(r.by_round[1], 1);
    EXPECT_FALSE(r.congestion_free());
    bool found = false;
    for (const crowded_link& c : r.worst)
        if (j.g.text_of(c.link) == "U0-L0" && c.round == 4) {
            found = true;
            EXPECT_EQ(c.pairs,
                      (std::vector<std::pair<rank_t, rank_t>>{{0, 16}, {1, 17}, {2, 18}, {3, 19}}));
        }
    EXPECT_TRUE(found) << text_of(r, j.g);
}

}  // namespace
}  // namespace ef
