// HDRM's mapping and the Eulerian ring against what the paper claims, counted flow by flow. Links are
// counted here by (side, switches, lane), without a fabric; maps_test does some of it again through
// the fabric's own routes.
#include "allreduce/mapping/hdrm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace ef::mapping {
namespace {

using fabric::bigraph_shape;

std::string text(const bigraph_shape& s) {
    return "S=" + std::to_string(s.switches) + " H=" + std::to_string(s.hosts) +
           " L=" + std::to_string(s.lanes);
}

// S and H in 1 .. 64, powers of two; L in 1, 2, 4, 8.
std::vector<bigraph_shape> powers_of_two() {
    std::vector<bigraph_shape> all;
    for (uint32_t s = 1; s <= 64; s *= 2)
        for (uint32_t h = 1; h <= 64; h *= 2)
            for (uint32_t l = 1; l <= 8; l *= 2) all.push_back({s, h, l, 1});
    return all;
}

// Flows on the directed links between switches.
class link_counts {
public:
    explicit link_counts(const bigraph_shape& s)
        : s_(s), count_(size_t(2) * s.switches * s.switches * s.lanes, 0) {}

    void add(const bigraph_place& from, const bigraph_place& to, uint32_t lane) {
        uint32_t& n =
            count_[((from.side * s_.switches + from.sw) * s_.switches + to.sw) * s_.lanes + lane];
        most_ = std::max(most_, ++n);
    }
    uint32_t most() const { return most_; }

private:
    const bigraph_shape& s_;
    std::vector<uint32_t> count_;
    uint32_t most_ = 0;
};

template <class Lane>
uint32_t load_of_step(const bigraph_shape& s, uint32_t bit, Lane lane) {
    link_counts links(s);
    for (uint32_t r = 0; r < s.endpoints(); ++r) {
        const bigraph_place a = hdrm_place(r, s.switches), b = hdrm_place(r ^ bit, s.switches);
        links.add(a, b, lane(a, b));
    }
    return links.most();
}

TEST(Hdrm, IsABijectionBetweenPositionsAndEndpointsAndTheInverseUndoesIt) {
    for (const bigraph_shape& s : powers_of_two()) {
        if (s.lanes != 1) continue;
        std::vector<bool> taken(s.endpoints(), false);
        for (uint32_t r = 0; r < s.endpoints(); ++r) {
            const bigraph_place at = hdrm_place(r, s.switches);
            ASSERT_LT(at.side, 2u);
            ASSERT_LT(at.sw, s.switches);
            ASSERT_LT(at.port, s.hosts);
            const size_t i = (at.side * s.switches + at.sw) * s.hosts + at.port;
            ASSERT_FALSE(taken[i]) << text(s) << ", position " << r;
            taken[i] = true;
            ASSERT_EQ(hdrm_position(at, s.switches), r) << text(s);
        }
    }
}

TEST(Hdrm, HasEveryPartnerOnTheOtherSide) {
    for (const bigraph_shape& s : powers_of_two()) {
        if (s.lanes != 1) continue;
        for (uint32_t bit = 1; bit < s.endpoints(); bit *= 2)
            for (uint32_t r = 0; r < s.endpoints(); ++r)
                ASSERT_NE(hdrm_place(r, s.switches).side, hdrm_place(r ^ bit, s.switches).side)
                    << text(s) << ", positions " << r << " and " << (r ^ bit);
    }
}

// As it was worked out by hand in the description of the mapping.
TEST(Hdrm, GivesTheNamedMaps) {
    const auto names = [](uint32_t switches, uint32_t n) {
        std::string all;
        for (uint32_t r = 0; r < n; ++r) {
            const bigraph_place at = hdrm_place(r, switches);
            all += (r ? " " : "") + std::string(at.side ? "L" : "U") + std::to_string(at.sw) +
                   ".p" + std::to_string(at.port);
        }
        return all;
    };
    EXPECT_EQ(names(2, 8), "U0.p0 L0.p0 L1.p0 U1.p0 L0.p1 U1.p1 U0.p1 L1.p1");
    EXPECT_EQ(names(4, 8), "U0.p0 L0.p0 L1.p0 U1.p0 L2.p0 U2.p0 U3.p0 L3.p0");
}

TEST(Hdrm, PutsTheSmallestPossibleNumberOfFlowsOnEachLinkInEveryStep) {
    size_t cases = 0;
    for (const bigraph_shape& s : powers_of_two()) {
        ASSERT_LE(s.endpoints(), 8192u);
        const uint32_t links = s.switches * s.lanes;
        const uint32_t expected = std::max(1u, (s.hosts + links - 1) / links);
        EXPECT_EQ(hdrm_load(s), expected) << text(s);
        const auto by_rule = [&](const bigraph_place&, const bigraph_place& to) {
            return to.port / s.switches % s.lanes;
        };
        for (uint32_t bit = 1; bit < s.endpoints(); bit *= 2)
            ASSERT_EQ(load_of_step(s, bit, by_rule), expected) << text(s) << ", bit " << bit;
        ++cases;
    }
    EXPECT_EQ(cases, 196u);
}

// With as many flows as lanes between two switches a hash puts some of them together.
TEST(Hdrm, CollidesWhenLanesAreHashedInsteadOfChosenByTheLaneRule) {
    for (const bigraph_shape& s : {bigraph_shape{4, 8, 2, 1}, bigraph_shape{8, 16, 2, 1},
                                   bigraph_shape{4, 16, 4, 1}, bigraph_shape{8, 32, 4, 1}}) {
        EXPECT_EQ(hdrm_load(s), 1u);
        uint32_t most = 0;
        for (uint64_t seed = 1; seed <= 5; ++seed)
            for (uint32_t bit = 1; bit < s.endpoints(); bit *= 2)
                most = std::max(
                    most, load_of_step(s, bit, [&](const auto& from, const auto& to) {
                        uint64_t z = seed + (uint64_t(from.port) << 40 | uint64_t(from.sw) << 30 |
                                             uint64_t(to.port) << 20 | to.sw << 1 | from.side) *
                                                0x9e37'79b9'7f4a'7c15;
                        z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
                        return uint32_t((z ^ (z >> 31)) % s.lanes);
                    }));
        EXPECT_EQ(most, s.lanes) << text(s);
    }
}

// Rank == index of the host: the step over the top bit takes all H hosts of a switch to the same
// switch of the other side.
TEST(BlockOrder, PutsAllFlowsOfASwitchOnOneLinkInTheStepBetweenTheSides) {
    for (const bigraph_shape& s : powers_of_two()) {
        if (s.lanes != 1) continue;
        const auto place = [&](uint32_t r) {
            const uint32_t per_side = s.switches * s.hosts;
            return bigraph_place{r / per_side, r % per_side / s.hosts, r % s.hosts};
        };
        link_counts links(s);
        for (uint32_t r = 0; r < s.endpoints(); ++r)
            links.add(place(r), place(r ^ (s.endpoints() / 2)), 0);
        EXPECT_EQ(links.most(), s.hosts) << text(s);
    }
}

TEST(EulerianRing, VisitsEveryHostOnceCrossesAtEveryHopAndUsesNoDirectedLaneTwice) {
    size_t cases = 0;
    for (uint32_t S = 1; S <= 12; ++S)
        for (uint32_t H = 1; H <= 12; ++H)
            for (uint32_t L = 1; L <= 12; ++L) {
                const bigraph_shape s{S, H, L, 1};
                const std::vector<uint32_t> order = eulerian_order(s);
                if (H > S * L) {
                    EXPECT_TRUE(order.empty()) << text(s);
                    continue;
                }
                ++cases;
                ASSERT_EQ(order.size(), s.endpoints()) << text(s);
                EXPECT_EQ(std::set<uint32_t>(order.begin(), order.end()).size(), order.size());
                const auto place = [&](uint32_t i) {
                    const uint32_t sw = i / H;
                    return bigraph_place{sw / S, sw % S, i % H};
                };
                link_counts links(s);
                for (size_t i = 0; i < order.size(); ++i) {
                    const bigraph_place a = place(order[i]),
                                        b = place(order[(i + 1) % order.size()]);
                    ASSERT_NE(a.side, b.side) << text(s) << ", hop " << i;
                    links.add(a, b, b.port / S % L);
                }
                ASSERT_EQ(links.most(), 1u) << text(s);
            }
    EXPECT_EQ(cases, 1572u);
}

}  // namespace
}  // namespace ef::mapping
