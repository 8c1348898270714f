// Maps of whole fabrics and of any placement; what algorithms that run in them put on the links, by
// the fabric's own routes. arrange_test has what the orders of units are made of, rails_test several
// NICs per server.
#include "allreduce/mapping/maps.hpp"

#include "allreduce/mapping/arrange.hpp"
#include "allreduce/mapping/hdrm.hpp"
#include "tests/allreduce/mapping/link_loads.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ef::mapping {
namespace {

using fabric::balance;
using fabric::make_bigraph;
using test::arrangement;
using test::expect_right_plans;
using test::is_permutation;
using test::loads;

// ---------------------------------------------------------------- full BiGraphs

TEST(Maps, OfAFullBiGraphAreTheNamedHdrmMaps) {
    const arrangement two(make_bigraph({2, 2, 1, 1}, 100));
    EXPECT_EQ(two.hosts(two.maps.halving), "U0p0 L0p0 L1p0 U1p0 L0p1 U1p1 U0p1 L1p1");
    EXPECT_EQ(two.maps.halving_says, "HDRM on BiGraph S=2 H=2 L=1");
    const arrangement four(make_bigraph({4, 4, 1, 1}, 100));
    EXPECT_EQ(four.hosts(four.maps.halving).substr(0, 39),
              "U0p0 L0p0 L1p0 U1p0 L2p0 U2p0 U3p0 L3p0");
    for (rank_t p = 0; p < 32; ++p) {
        const bigraph_place at = hdrm_place(uint32_t(p), 4);
        const fabric::node& host =
            four.g.at(four.g.hosts()[four.where[size_t(four.maps.halving.order[size_t(p)])]]);
        EXPECT_EQ(host.name,
                  (at.side ? "L" : "U") + std::to_string(at.sw) + "p" + std::to_string(at.port));
        EXPECT_EQ(four.maps.halving.position_of(four.maps.halving.order[size_t(p)]), p);
    }
    expect_right_plans(four);
}

TEST(Maps, OfFullBiGraphsLoadEachLinkByRoutesAsTheFormulaSays) {
    for (const fabric::bigraph_shape& s :
         {fabric::bigraph_shape{1, 1, 1, 1}, fabric::bigraph_shape{2, 2, 1, 1},
          fabric::bigraph_shape{4, 2, 1, 1}, fabric::bigraph_shape{8, 4, 1, 1},
          fabric::bigraph_shape{4, 8, 2, 1}, fabric::bigraph_shape{2, 8, 4, 1},
          fabric::bigraph_shape{16, 16, 1, 1}, fabric::bigraph_shape{1, 4, 4, 1}}) {
        const arrangement a(make_bigraph(s, 100));
        ASSERT_EQ(hdrm_load(s), 1u);
        const loads l = a.load("hdrm");
        ASSERT_TRUE(l.reachable());
        for (size_t t = 0; t < l.by_round.size(); ++t) {
            EXPECT_EQ(l.by_round[t].most, 1u) << text_of(s) << ", round " << t;
            EXPECT_EQ(l.by_round[t].switches, 1u) << text_of(s) << ", round " << t;
        }
        EXPECT_NEAR(l.bytes(), 2 * (1 - 1.0 / s.endpoints()), 1e-9);
        EXPECT_EQ(a.load("eulerian_ring").most(), 1u) << text_of(s);
    }
}

TEST(Maps, NeedTheLaneRule) {
    const arrangement a(make_bigraph({4, 8, 2, 1}, 100));
    EXPECT_EQ(a.load("hdrm").most(), 1u);
    for (uint64_t seed = 1; seed <= 5; ++seed)
        EXPECT_EQ(a.load("hdrm", {balance::hash, seed}).most(), 2u);
}

TEST(BlockOrder, LoadsALinkWithAllHostsOfASwitchInTheStepBetweenTheSides) {
    for (const uint32_t h : {2u, 4u, 16u}) {
        const arrangement a(make_bigraph({4, h, 1, 1}, 100));
        EXPECT_EQ(a.load("halving_doubling:far").by_round[0].switches, h);
        EXPECT_EQ(a.load("hdrm").most(), std::max(1u, h / 4));
    }
}

// ---------------------------------------------------------------- any placement

TEST(Maps, AreRightWhereverTheRanksSit) {
    const fabric::graph nets[] = {
        make_bigraph({4, 4, 1, 1}, 100), make_bigraph({3, 5, 2, 1}, 100),
        make_bigraph({2, 3, 1, 2}, 100), fabric::make_leaf_spine(4, 4, 4, 1, 100),
        fabric::make_fat_tree(4, 100),   fabric::make_single(9, 100)};
    std::mt19937 random(1);
    for (int turn = 0; turn < 150; ++turn) {
        const fabric::graph& g = nets[size_t(turn) % std::size(nets)];
        placement where(1 + random() % 40);
        for (uint32_t& h : where) h = uint32_t(random() % g.hosts().size());
        // With the fabric's servers, and with numbers of the caller's.
        arrangement a(g, where);
        std::vector<std::string> names;
        for (const uint32_t h : where) {
            const fabric::node& n = g.at(g.hosts()[h]);
            names.push_back(n.server.empty() ? n.name : n.server);
        }
        std::set<std::string> sorted(names.begin(), names.end());
        for (const std::string& name : names)
            a.host_of.push_back(int(std::distance(sorted.begin(), sorted.find(name))));
        a.maps = make_maps(g, where, a.host_of);
        SCOPED_TRACE(g.name + ", turn " + std::to_string(turn) + ": " + a.maps.halving_says);
        ASSERT_TRUE(is_permutation(a.maps.halving, where.size()));
        ASSERT_TRUE(is_permutation(a.maps.server_halving, sorted.size()));
        ASSERT_TRUE(is_permutation(a.maps.server_ring, sorted.size()));
        if (!a.maps.ring.empty()) {
            ASSERT_TRUE(is_permutation(a.maps.ring, where.size()));
        }
        ASSERT_TRUE(find_algorithm("hdrm")->accepts(a.request()));
        ASSERT_EQ(find_algorithm("hierarchical:hdrm")->accepts(a.request()),
                  sorted.size() > 1 && sorted.size() < where.size());
        expect_right_plans(a);
    }
}

TEST(Maps, KeepRanksOfOneHostTogether) {
    const fabric::graph g = make_bigraph({2, 2, 1, 1}, 100);
    placement where;
    for (uint32_t i = 0; i < 16; ++i) where.push_back(i % 8);
    const arrangement a(g, where);
    EXPECT_EQ(a.maps.halving_says, "HDRM on BiGraph S=2 H=2 L=1, 2 of a server first");
    EXPECT_EQ(a.hosts(a.maps.halving).substr(0, 29), "U0p0 U0p0 L0p0 L0p0 L1p0 L1p0");
    const loads l = a.load("hdrm");
    EXPECT_EQ(l.by_round.front().most, 0u);
    EXPECT_NEAR(l.bytes(), 2 * (1 - 2.0 / 16), 1e-9);
    expect_right_plans(a);
}

TEST(Maps, OrderServersByTheCallersNumbers) {
    const fabric::graph g = make_bigraph({2, 2, 1, 1}, 100);
    placement where;
    std::vector<int> host_of;
    for (uint32_t i = 0; i < 16; ++i) {
        where.push_back(i / 2);
        host_of.push_back(7 - int(i / 2));
    }
    const arrangement a(g, where, host_of);
    // U0p0 L0p0 L1p0 U1p0 .. are hosts 0 4 6 2 ..
    EXPECT_EQ(a.maps.server_halving.order, (std::vector<rank_t>{7, 3, 1, 5, 2, 4, 6, 0}));
    EXPECT_NEAR(a.load("hierarchical:hdrm").bytes(), 2 * (1 - 1.0 / 8), 1e-9);
    expect_right_plans(a);
}

TEST(Maps, AreEmptyWhereThereIsNothingToArrange) {
    const fabric::graph g = make_bigraph({2, 2, 1, 1}, 100);
    const auto empty = [](const rank_maps& m) {
        return m.halving.empty() && m.ring.empty() && m.server_halving.empty() &&
               m.server_ring.empty();
    };
    EXPECT_TRUE(empty(make_maps(g, {})));
    EXPECT_TRUE(empty(make_maps(g, {0, 1, 8})));
    const std::vector<int> gap = {0, 2}, few = {0};
    EXPECT_TRUE(empty(make_maps(g, {0, 1}, gap)));
    EXPECT_TRUE(empty(make_maps(g, {0, 1}, few)));
    EXPECT_FALSE(empty(make_maps(g, {0, 1})));
}

TEST(Maps, Of8192EndpointsAreMadeAtOnce) {
    const arrangement a(make_bigraph({64, 64, 1, 1}, 100));
    EXPECT_TRUE(is_permutation(a.maps.halving, 8192));
    EXPECT_TRUE(is_permutation(a.maps.ring, 8192));
}

// ---------------------------------------------------------------- orders

TEST(RandomOrder, IsAPermutationAndTheSameForTheSameSeed) {
    for (const rank_t n : {1, 2, 7, 64, 1000}) {
        const rank_order a = random_order(n, 3);
        EXPECT_TRUE(is_permutation(a, size_t(n)));
        EXPECT_EQ(a.order, random_order(n, 3).order);
        for (rank_t p = 0; p < n; ++p) ASSERT_EQ(a.position_of(a.order[size_t(p)]), p);
    }
    EXPECT_NE(random_order(64, 3).order, random_order(64, 4).order);
    EXPECT_EQ(random_order(12, 1).core, 8);
}

TEST(PlacedBy, PutsRankPWhereTheRankAtPositionPWas) {
    const arrangement a(make_bigraph({4, 2, 1, 1}, 100));
    const arrangement b(a.g, placed_by(a.maps.halving, a.where));
    EXPECT_EQ(b.load("halving_doubling").most(), 1u);
    EXPECT_EQ(b.load("halving_doubling:far").most(), 1u);
    EXPECT_GT(a.load("halving_doubling").most(), 1u);
}

}  // namespace
}  // namespace ef::mapping
