// Orders where HDRM does not fit as it is: more hosts than links, counts that are no powers of two,
// some ports of some switches, no BiGraph at all.
#include "allreduce/mapping/improve.hpp"

#include "tests/allreduce/mapping/link_loads.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace ef::mapping {
namespace {

using fabric::make_bigraph;
using test::arrangement;
using test::expect_right_plans;
using test::is_permutation;
using test::loads;

// ---------------------------------------------------------------- oversubscribed

TEST(Maps, StayInsideASwitchFirstWhereItHasMoreHostsThanLinks) {
    for (const fabric::bigraph_shape& s :
         {fabric::bigraph_shape{4, 16, 1, 1}, fabric::bigraph_shape{2, 8, 1, 1},
          fabric::bigraph_shape{2, 8, 2, 1}, fabric::bigraph_shape{1, 8, 2, 1},
          fabric::bigraph_shape{2, 8, 3, 1}}) {
        const arrangement a(make_bigraph(s, 100));
        uint32_t o = 1;
        while (s.hosts / o > s.switches * s.lanes) o *= 2;
        const loads l = a.load("hdrm");
        const double n = s.endpoints();
        EXPECT_NEAR(l.bytes(), 2 * (2 - 1.0 / o - o / n), 1e-9) << text_of(s);
        uint32_t bit = 0;
        for (; 1u << bit < o; ++bit) {
            EXPECT_EQ(l.by_round[bit].switches, 0u) << text_of(s) << ", round " << bit;
            EXPECT_EQ(l.by_round[bit].most, 1u);
        }
        for (; 1u << bit < s.endpoints(); ++bit)
            EXPECT_LE(l.by_round[bit].switches, o) << text_of(s) << ", round " << bit;
        expect_right_plans(a);
    }
    const arrangement four(make_bigraph({4, 16, 1, 1}, 100));
    EXPECT_NEAR(four.load("hdrm").bytes(), 3.44, 0.01);
    EXPECT_EQ(four.maps.halving_says, "HDRM on BiGraph S=4 H=16 L=1, 4 of a switch first");
}

TEST(Maps, OfOversubscribedBiGraphsHaveARingThatCrossesFromSwitchToSwitch) {
    const arrangement a(make_bigraph({2, 8, 1, 1}, 100));
    EXPECT_EQ(a.maps.ring_says, "switch by switch");
    EXPECT_EQ(a.load("eulerian_ring").most(), 1u);
    const fabric::bigraph_shape fits{4, 4, 1, 1};
    EXPECT_EQ(arrangement(make_bigraph(fits, 100)).maps.ring_says,
              "Eulerian circuit of BiGraph S=4 H=4 L=1");
}

// ---------------------------------------------------------------- folds

TEST(Maps, FoldExtrasInsideTheirSwitchWhereTheyCan) {
    // N = 12 and 48: a third host on each switch.
    for (const uint32_t s : {2u, 8u}) {
        const arrangement a(make_bigraph({s, 3, 1, 1}, 100));
        EXPECT_EQ(a.maps.halving.core, rank_t(4 * s));
        EXPECT_TRUE(is_permutation(a.maps.halving, 6 * s));
        const loads l = a.load("hdrm");
        EXPECT_EQ(l.by_round.front().switches, 0u);
        EXPECT_EQ(l.by_round.back().switches, 0u);
        EXPECT_EQ(l.most(), 1u);
        EXPECT_NEAR(l.bytes(), 2 * (1 + 1 - 1.0 / (4 * s)), 1e-9);
        expect_right_plans(a);
    }
    const arrangement a(make_bigraph({8, 3, 1, 1}, 100));
    EXPECT_EQ(a.maps.halving_says,
              "HDRM on S=8 H=2 of BiGraph S=8 H=3 L=1, 16 extra ranks folded in");
}

TEST(Maps, FoldAWholeSwitchStraightAcrossOverLinksThatNobodyElseUses) {
    const arrangement a(make_bigraph({3, 2, 1, 1}, 100));
    EXPECT_EQ(a.maps.halving.core, 8);
    const loads l = a.load("hdrm");
    EXPECT_EQ(l.by_round.front().switches, 1u);
    EXPECT_EQ(l.most(), 1u);
    EXPECT_NEAR(l.bytes(), 2 * (1 + 7.0 / 8), 1e-9);
    expect_right_plans(a);
}

/// Of what halving-doubling in this order puts on links, counted by the test.
double bytes_in(const arrangement& like, std::span<const unit> units, const halving_order& h) {
    arrangement a = like;
    a.maps.halving = {};
    a.maps.halving.core = rank_t(h.core.size());
    for (const uint32_t u : h.core) a.maps.halving.order.push_back(units[u].members[0]);
    for (const auto& [to, u] : h.extras) {
        a.maps.halving.fold.push_back(rank_t(to));
        a.maps.halving.order.push_back(units[u].members[0]);
    }
    return a.load("hdrm").bytes();
}

// Where little of a BiGraph's regular core is in use, a larger core with some shared links is faster.
TEST(Maps, TakeTheFastestOfFoldedHdrmSwitchBySwitchAndSearch) {
    std::mt19937 random(1);
    int hdrm = 0, found = 0;
    for (const fabric::bigraph_shape& s :
         {fabric::bigraph_shape{4, 4, 1, 1}, fabric::bigraph_shape{3, 3, 1, 1},
          fabric::bigraph_shape{4, 8, 2, 1}, fabric::bigraph_shape{6, 4, 1, 1}})
        for (int turn = 0; turn < 20; ++turn) {
            const fabric::graph g = make_bigraph(s, 100);
            placement some(g.hosts().size());
            std::iota(some.begin(), some.end(), 0);
            std::shuffle(some.begin(), some.end(), random);
            some.resize(g.hosts().size() * (2 + size_t(turn) % 3) / 4);
            SCOPED_TRACE(text_of(s) + ", turn " + std::to_string(turn));
            const arrangement a(g, some);
            const std::vector<unit> units = units_of(g, some, {});
            const std::vector<station> stations = stations_of(g, units);
            const halving_order h = hdrm_core(g, units, stations),
                                p = switch_core(in_a_line(g, stations));
            const double plain = bytes_in(a, units, p), taken = a.load("hdrm").bytes();
            EXPECT_NEAR(in_step_time(g, units, p) * 100, plain, 1e-6);
            EXPECT_LE(taken, plain + 1e-6);
            if (!h.core.empty()) {
                const double with_hdrm = bytes_in(a, units, h);
                EXPECT_NEAR(in_step_time(g, units, h) * 100, with_hdrm, 1e-6);
                EXPECT_LE(taken, with_hdrm + 1e-6);
            }
            hdrm += a.maps.halving_says.starts_with("HDRM");
            found += a.maps.halving_says.starts_with("order found by search");
            expect_right_plans(a);
        }
    EXPECT_GT(hdrm, 10);
    EXPECT_GT(found, 10);
}

TEST(Search, TakesMostSharedLinksOutOfAnOrderOfScatteredRanks) {
    // Half of the hosts of a BiGraph, no two jobs alike.
    std::mt19937 random(7);
    double before = 0, after = 0;
    for (int turn = 0; turn < 20; ++turn) {
        const fabric::graph g = make_bigraph({8, 4, 1, 1}, 100);
        placement some(g.hosts().size());
        std::iota(some.begin(), some.end(), 0);
        std::shuffle(some.begin(), some.end(), random);
        some.resize(32);
        const std::vector<unit> units = units_of(g, some, {});
        const halving_order plain = switch_core(in_a_line(g, stations_of(g, units)));
        const halving_order better = improved(g, units, plain);
        EXPECT_EQ(better.core, improved(g, units, plain).core);
        EXPECT_EQ(std::set<uint32_t>(better.core.begin(), better.core.end()).size(), 32u);
        before += in_step_time(g, units, plain) * 100 / 20;
        after += in_step_time(g, units, better) * 100 / 20;
    }
    const double ideal = 2 * (1 - 1.0 / 32);
    EXPECT_GT(before, 1.5 * ideal);
    EXPECT_LT(after, 1.05 * ideal);
}

// ---------------------------------------------------------------- irregular placement

placement on(const fabric::graph& g, std::initializer_list<const char*> hosts) {
    placement where;
    for (const char* name : hosts)
        where.push_back(uint32_t(std::find(g.hosts().begin(), g.hosts().end(), g.find(name)) -
                                 g.hosts().begin()));
    return where;
}

TEST(Maps, UseAVirtualBiGraphWhereRanksFillThePortsOfSomeSwitches) {
    const fabric::graph g = make_bigraph({4, 4, 1, 1}, 100);
    const arrangement a(g, on(g, {"L3p1", "U0p1", "U0p2", "U2p1", "L1p2", "U2p2", "L1p1", "L3p2"}));
    EXPECT_EQ(a.maps.halving_says, "HDRM on S=2 H=2 of BiGraph S=4 H=4 L=1");
    EXPECT_EQ(a.hosts(a.maps.halving), "U0p1 L1p1 L3p1 U2p1 L1p2 U2p2 U0p2 L3p2");
    EXPECT_EQ(a.load("hdrm").most(), 1u);
    EXPECT_NEAR(a.load("hdrm").bytes(), 2 * 7.0 / 8, 1e-9);
    EXPECT_EQ(a.load("eulerian_ring").most(), 1u);
    EXPECT_EQ(a.maps.ring_says.substr(0, 8), "Eulerian");
    expect_right_plans(a);
}

// ---------------------------------------------------------------- other fabrics

TEST(Maps, OfOtherFabricsGoSwitchBySwitch) {
    const fabric::graph g = fabric::make_leaf_spine(4, 4, 4, 1, 100);
    placement shuffled(16);
    std::iota(shuffled.begin(), shuffled.end(), 0);
    std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(7));
    const arrangement a(g, shuffled);
    EXPECT_EQ(a.maps.halving_says, "switch by switch");
    const loads l = a.load("hdrm");
    EXPECT_EQ(l.by_round[0].switches, 0u);
    EXPECT_EQ(l.by_round[1].switches, 0u);
    EXPECT_EQ(a.load("eulerian_ring").most(), 1u);
    expect_right_plans(a);
    EXPECT_EQ(arrangement(fabric::make_fat_tree(4, 100)).load("eulerian_ring").most(), 1u);
}

TEST(Maps, OfOtherFabricsFoldInsideASwitchWhereTheCountsAllow) {
    const arrangement a(fabric::make_leaf_spine(4, 3, 2, 1, 100));
    EXPECT_EQ(a.maps.halving.core, 8);
    const loads l = a.load("hdrm");
    EXPECT_EQ(l.by_round[0].switches, 0u);
    EXPECT_EQ(l.by_round[1].switches, 0u);
    expect_right_plans(a);
}

TEST(Maps, OfABiGraphWithRanksOnOneSideOnlyGoSwitchBySwitch) {
    const fabric::graph g = make_bigraph({2, 4, 1, 1}, 100);
    const arrangement a(g, on(g, {"U0p0", "U1p0", "U0p1", "U1p1"}));
    EXPECT_EQ(a.maps.halving_says, "switch by switch");
    EXPECT_EQ(a.hosts(a.maps.halving), "U0p0 U0p1 U1p0 U1p1");
    expect_right_plans(a);
}

}  // namespace
}  // namespace ef::mapping
