// Ways chosen so that flows do not meet, on fabrics whose answer is known.
#include "transport/path/assign.hpp"

#include "transport/base/clock.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace ef::path {
namespace {

/// A leaf-spine fabric's links: host up, leaf to spine, spine to leaf, host down.
struct leaf_spine {
    uint32_t leaves, hosts, spines;

    uint32_t leaf(int32_t h) const { return uint32_t(h) / hosts; }
    way over(int32_t a, int32_t b, uint32_t spine) const {
        const uint32_t n = leaves * hosts, trunk = leaves * spines;
        if (leaf(a) == leaf(b)) return {{uint32_t(a), n + 2 * trunk + uint32_t(b)}};
        return {{uint32_t(a), n + leaf(a) * spines + spine, n + trunk + leaf(b) * spines + spine,
                 n + 2 * trunk + uint32_t(b)}};
    }
    flow_ways flow(int32_t a, int32_t b, std::vector<uint32_t> rounds) const {
        flow_ways f{a, b, std::move(rounds), {}};
        for (uint32_t s = 0; s < (leaf(a) == leaf(b) ? 1 : spines); ++s)
            f.ways.push_back(over(a, b, s));
        return f;
    }
};

/// The dullest count: flows on each link in each round.
std::map<std::pair<uint32_t, link_number>, std::vector<uint32_t>> count(
    const std::vector<flow_ways>& flows, const assignment& a) {
    std::map<std::pair<uint32_t, link_number>, std::vector<uint32_t>> on;
    for (uint32_t f = 0; f < flows.size(); ++f)
        for (const uint32_t r : flows[f].rounds)
            for (const link_number l : flows[f].ways[a.way[f]].links) on[{r, l}].push_back(f);
    return on;
}

/// worst and meetings say what the count says. (Rounds with the same flows are named once.)
void expect_honest(const std::vector<flow_ways>& flows, const assignment& a) {
    uint32_t worst = 0;
    bool any = false;
    const auto on = count(flows, a);
    for (const auto& [where, who] : on) {
        worst = std::max(worst, uint32_t(who.size()));
        any |= who.size() > 1;
    }
    EXPECT_EQ(a.worst, worst);
    EXPECT_EQ(a.meetings.empty(), !any);
    for (const meeting& m : a.meetings) EXPECT_EQ(on.at({m.round, m.link}), m.flows);
}

std::vector<flow_ways> halving_doubling(const leaf_spine& net, uint32_t seed = 0,
                                        size_t ways = ~size_t(0)) {
    const auto p = int32_t(net.leaves * net.hosts);
    std::mt19937 random(seed);
    std::vector<flow_ways> flows;
    uint32_t steps = 0;
    for (int32_t d = 1; d < p; d *= 2) ++steps;
    for (uint32_t k = 0; k < steps; ++k)
        for (int32_t r = 0; r < p; ++r) {
            flow_ways f = net.flow(r, r ^ (1 << k), {k, 2 * steps - 1 - k});
            std::shuffle(f.ways.begin(), f.ways.end(), random);
            if (f.ways.size() > ways) f.ways.resize(ways);
            flows.push_back(std::move(f));
        }
    return flows;
}

TEST(Assign, KeepsTheFlowsOfHalvingDoublingApartOnANonBlockingFabric) {
    const std::vector<flow_ways> flows = halving_doubling({4, 4, 4});
    const assignment a = assign(flows);
    EXPECT_EQ(a.worst, 1u);
    EXPECT_TRUE(a.meetings.empty());
    expect_honest(flows, a);
}

TEST(Assign, FindsAMatchingWhenRandomPermutationsFillTheFabric) {
    for (uint32_t seed = 0; seed < 20; ++seed) {
        const leaf_spine net{8, 8, 8};
        std::mt19937 random(seed);
        std::vector<int32_t> to(64);
        for (int32_t i = 0; i < 64; ++i) to[size_t(i)] = i;
        std::shuffle(to.begin(), to.end(), random);
        std::vector<flow_ways> flows;
        for (int32_t i = 0; i < 64; ++i) flows.push_back(net.flow(i, to[size_t(i)], {0}));
        const assignment a = assign(flows);
        expect_honest(flows, a);
        // Rearrangeably non-blocking [Slepian 1952; Duguid 1959]: spines >= hosts of a leaf.
        EXPECT_EQ(a.worst, 1u) << "seed " << seed;
    }
}

TEST(Assign, LetsFlowsOfDifferentRoundsShareALink) {
    const std::vector<flow_ways> flows = {{0, 1, {0}, {{{7}}}}, {2, 3, {1}, {{{7}}}}};
    const assignment a = assign(flows);
    EXPECT_EQ(a.worst, 1u);
    EXPECT_TRUE(a.meetings.empty());
}

TEST(Assign, NamesTheLinkTheRoundAndTheFlowsThatMustMeet) {
    // Three flows over two spines in round 5.
    const leaf_spine net{2, 3, 2};
    std::vector<flow_ways> flows;
    for (int32_t i = 0; i < 3; ++i) flows.push_back(net.flow(i, 3 + i, {5}));
    const assignment a = assign(flows);
    expect_honest(flows, a);
    EXPECT_EQ(a.worst, 2u);
    ASSERT_EQ(a.meetings.size(), 2u) << "up to and down from one spine";
    EXPECT_EQ(a.meetings[0].round, 5u);
    EXPECT_EQ(a.meetings[0].flows, a.meetings[1].flows);
    EXPECT_EQ(a.meetings[0].flows.size(), 2u);
}

TEST(Assign, SpreadsEvenlyWhatCannotBeKeptApart) {
    const leaf_spine net{2, 12, 4};
    std::vector<flow_ways> flows;
    for (int32_t i = 0; i < 12; ++i) flows.push_back(net.flow(i, 12 + i, {0}));
    EXPECT_EQ(assign(flows).worst, 3u);
}

TEST(Assign, KeepsFreeLinksApartThoughAnotherLinkMustBeShared) {
    // Two flows into one host must meet on its link, and need not meet anywhere else.
    const leaf_spine net{3, 1, 2};
    const std::vector<flow_ways> flows = {net.flow(0, 2, {0}), net.flow(1, 2, {0})};
    const assignment a = assign(flows);
    EXPECT_EQ(a.worst, 2u);
    EXPECT_EQ(a.meetings.size(), 1u);
}

TEST(Assign, ComesToTheSameAnswerEachTime) {
    const std::vector<flow_ways> flows = halving_doubling({4, 4, 3}, 9);
    EXPECT_EQ(assign(flows).way, assign(flows).way);
}

TEST(Assign, TakesFlowsWithoutARoundOrAWay) {
    const std::vector<flow_ways> flows = {{0, 1, {}, {{{1}}}}, {1, 0, {0}, {}}};
    const assignment a = assign(flows);
    EXPECT_EQ(a.way.size(), 2u);
    EXPECT_EQ(a.worst, 0u);
    EXPECT_EQ(assign({}).worst, 0u);
}

TEST(Assign, IsDoneWellUnderASecondFor512RanksWithNinePeers) {
    // As if probing had found 12 of the 16 paths.
    const std::vector<flow_ways> flows = halving_doubling({32, 16, 16}, 1, 12);
    const uint64_t since = now_ns();
    const assignment a = assign(flows);
    const double ms = double(now_ns() - since) / 1e6;
    RecordProperty("milliseconds", std::to_string(ms));
    expect_honest(flows, a);
    EXPECT_EQ(a.worst, 1u);
    EXPECT_LT(ms, 5000) << "though sanitizers and a busy machine are slow";
}

}  // namespace
}  // namespace ef::path
