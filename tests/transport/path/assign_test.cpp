// Ways chosen so that flows do not meet, on fabrics whose answer is known.
#include "transport/path/assign.hpp"

#include "transport/base/clock.hpp"

#include <gtest/gtest.h>

#include <algorithm>
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

std::vector<int32_t> random_order(uint32_t n, std::mt19937& random) {
    std::vector<int32_t> to(n);
    for (uint32_t i = 0; i < n; ++i) to[i] = int32_t(i);
    std::shuffle(to.begin(), to.end(), random);
    return to;
}

/// Ports that the switches hash onto spines as they please: several lead the same way, and some
/// ways may have none.
flow_ways hashed(const leaf_spine& net, int32_t a, int32_t b, uint32_t ports,
                 std::mt19937& random) {
    flow_ways f{a, b, {0}, {}};
    for (uint32_t i = 0; i < ports; ++i) f.ways.push_back(net.over(a, b, random() % net.spines));
    return f;
}

/// The dullest search: every choice of those that are left, the flow with the fewest first.
class every_choice {
public:
    explicit every_choice(const std::vector<flow_ways>& flows) : placed_(flows.size()) {
        for (const flow_ways& f : flows) {
            choices_.emplace_back();
            for (const way& w : f.ways) {
                std::vector<place> c;
                for (const uint32_t r : f.rounds)
                    for (const link_number l : w.links) c.emplace_back(r, l);
                std::sort(c.begin(), c.end());
                if (std::count(choices_.back().begin(), choices_.back().end(), c) == 0)
                    choices_.back().push_back(c);
            }
        }
    }

    /// Whether all can be placed with at most `most` flows on any link of any round.
    bool fits(uint32_t most) {
        most_ = most;
        return fits_the_rest();
    }
    uint32_t least_worst() {
        uint32_t w = 1;
        while (!fits(w)) ++w;
        return w;
    }

private:
    using place = std::pair<uint32_t, link_number>;

    bool free(const std::vector<place>& c) {
        return std::all_of(c.begin(), c.end(), [&](const place& p) { return on_[p] < most_; });
    }
    bool fits_the_rest() {
        size_t next = choices_.size();
        long fewest = 0;
        for (size_t f = 0; f < choices_.size(); ++f) {
            if (placed_[f]) continue;
            const long n = std::count_if(choices_[f].begin(), choices_[f].end(),
                                         [&](const auto& c) { return free(c); });
            if (next == choices_.size() || n < fewest) next = f, fewest = n;
        }
        if (next == choices_.size()) return true;
        bool good = false;
        placed_[next] = true;
        for (const std::vector<place>& c : choices_[next]) {
            if (good || !free(c)) continue;
            for (const place& p : c) ++on_[p];
            good = fits_the_rest();
            for (const place& p : c) --on_[p];
        }
        placed_[next] = false;
        return good;
    }

    std::vector<std::vector<std::vector<place>>> choices_;  // by flow
    std::vector<bool> placed_;
    std::map<place, uint32_t> on_;
    uint32_t most_ = 1;
};

TEST(Assign, FindsTheLeastWorstLoadOfSmallTanglesAsEveryChoiceDoes) {
    for (uint32_t seed = 0; seed < 1500; ++seed) {
        std::mt19937 random(seed);
        const uint32_t many = 2 + random() % 6, rounds = 1 + random() % 3, links = 4 + random() % 6;
        std::vector<flow_ways> flows;
        for (uint32_t i = 0; i < many; ++i) {
            flow_ways f{int32_t(i), int32_t(i + 1), {uint32_t(random() % rounds)}, {}};
            for (uint32_t r = f.rounds[0] + 1; r < rounds; ++r)
                if (random() % 2) f.rounds.push_back(r);
            f.ways.resize(1 + random() % 4);
            for (way& w : f.ways) {
                for (uint32_t l = 0; l < links; ++l)
                    if (random() % 4 == 0) w.links.push_back(l);
                if (w.links.empty()) w.links.push_back(uint32_t(random() % links));
            }
            flows.push_back(std::move(f));
        }
        const assignment a = assign(flows);
        expect_honest(flows, a);
        EXPECT_EQ(a.worst, every_choice(flows).least_worst()) << "seed " << seed;
    }
}

TEST(Assign, SolvesPermutationsOverHashedPortsWheneverEveryChoiceDoes) {
    const leaf_spine net{4, 4, 4};
    uint32_t solved = 0, impossible = 0;
    for (uint32_t seed = 0; seed < 200; ++seed)
        for (const uint32_t ports : {3u, 6u, 24u}) {
            std::mt19937 random(seed);
            const std::vector<int32_t> to = random_order(16, random);
            std::vector<flow_ways> flows;
            for (int32_t i = 0; i < 16; ++i)
                flows.push_back(hashed(net, i, to[size_t(i)], ports, random));
            const assignment a = assign(flows);
            expect_honest(flows, a);
            const bool possible = every_choice(flows).fits(1);
            EXPECT_EQ(a.worst == 1, possible) << "seed " << seed << ", " << ports << " ports";
            EXPECT_EQ(a.meetings.empty(), possible);
            ++(possible ? solved : impossible);
        }
    EXPECT_GT(solved, 200u) << "or the cases show little";
    EXPECT_GT(impossible, 20u);
}

TEST(Assign, ColoursLeafSpinesThatAreFullToTheLastLink) {
    // Chains of many moves are needed: no spine has a link to spare anywhere.
    for (const leaf_spine net : {leaf_spine{16, 16, 16}, leaf_spine{32, 16, 16}})
        for (uint32_t seed = 0; seed < 10; ++seed) {
            std::mt19937 random(seed);
            const uint32_t n = net.leaves * net.hosts;
            const std::vector<int32_t> to = random_order(n, random);
            std::vector<flow_ways> flows;
            for (uint32_t i = 0; i < n; ++i) flows.push_back(net.flow(int32_t(i), to[i], {0}));
            const assignment a = assign(flows);
            expect_honest(flows, a);
            EXPECT_EQ(a.worst, 1u) << net.leaves << " leaves, seed " << seed;
        }
}

TEST(Assign, KeepsNineRandomPermutationsOf512RanksApart) {
    const leaf_spine net{32, 16, 16};
    std::mt19937 random(5);
    std::vector<flow_ways> flows;
    for (uint32_t round = 0; round < 9; ++round) {
        const std::vector<int32_t> to = random_order(512, random);
        for (int32_t i = 0; i < 512; ++i) flows.push_back(net.flow(i, to[size_t(i)], {round}));
    }
    const uint64_t since = now_ns();
    const assignment a = assign(flows);
    RecordProperty("milliseconds", std::to_string(double(now_ns() - since) / 1e6));
    expect_honest(flows, a);
    EXPECT_EQ(a.worst, 1u);
}

TEST(Assign, SolvesHalvingDoublingOf256Ranks) {
    const std::vector<flow_ways> flows = halving_doubling({16, 16, 16}, 3);
    const assignment a = assign(flows);
    expect_honest(flows, a);
    EXPECT_EQ(a.worst, 1u);
    EXPECT_TRUE(a.meetings.empty());
}

TEST(Assign, HasOneWayForAFlowThatSendsInSeveralRounds) {
    // Flow 0 meets flow 1 in round 0 on link 1 and flow 2 in round 1 on link 2: only link 3 is left.
    const std::vector<flow_ways> flows = {
        {0, 1, {0, 1}, {{{1}}, {{2}}, {{3}}}}, {2, 1, {0}, {{{1}}}}, {3, 1, {1}, {{{2}}}}};
    const assignment a = assign(flows);
    EXPECT_EQ(a.way[0], 2u);
    EXPECT_EQ(a.worst, 1u);
}

TEST(Assign, MovesAWholeChainWhenTheLastOneHasTheOnlyFreeLink) {
    // Flow i may take link i or i + 1; the last one only the last but one: all move up.
    constexpr uint32_t n = 300;
    std::vector<flow_ways> flows;
    for (uint32_t i = 0; i < n; ++i)
        flows.push_back({int32_t(i), int32_t(n), {0}, {{{i}}, {{i + 1}}}});
    flows.push_back({int32_t(n + 1), int32_t(n), {0}, {{{0}}}});
    const assignment a = assign(flows);
    EXPECT_EQ(a.worst, 1u);
    for (uint32_t i = 0; i < n; ++i) EXPECT_EQ(a.way[i], 1u) << "flow " << i;
}

TEST(Assign, FillsOversubscribedSpinesNoMoreThanEvenly) {
    // 16 hosts of a leaf over 8 and 4 spines: two and four on a link at least, and no more.
    for (const uint32_t spines : {8u, 4u}) {
        const leaf_spine net{8, 16, spines};
        std::mt19937 random(spines);
        const std::vector<int32_t> to = random_order(128, random);
        std::vector<flow_ways> flows;
        for (int32_t i = 0; i < 128; ++i) flows.push_back(net.flow(i, to[size_t(i)], {0}));
        const assignment a = assign(flows);
        expect_honest(flows, a);
        EXPECT_LE(a.worst, 16 / spines);
        EXPECT_GT(a.worst, 1u);
    }
}

}  // namespace
}  // namespace ef::path
