// Simulation: small cases with their times worked out by hand, fair shares against the dullest model,
// and published figures. 100 Gb/s are 12,500 bytes per us: 1,250,000 bytes take 100 us.
#include "allreduce/cost/simulate.hpp"

#include "allreduce/cost/simulate_share.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace ef::cost {
namespace {

using fabric::balance;
using fabric::graph;
using fabric::link_id;
using fabric::routes;

constexpr uint64_t vector_bytes = 1'250'000;

mapping::placement one_each(const graph& g) {
    mapping::placement p(g.hosts().size());
    std::iota(p.begin(), p.end(), 0);
    return p;
}

// h0 h1 - a - b - h2 h3, all links 100 Gb/s.
graph dumbbell() {
    graph g;
    const auto a = g.add_switch("a", 1), b = g.add_switch("b", 1);
    for (int i = 0; i < 4; ++i)
        g.add_cable(g.add_host("h" + std::to_string(i)), i < 2 ? a : b, 100);
    g.add_cable(a, b, 100);
    return g;
}

simulation_result run(const graph& g, const std::vector<flow_round>& flows,
                      const simulation_options& o = {}) {
    const routes r(g, {balance::hash, 1});
    const auto where = one_each(g);
    const auto out = simulate(flows, rank_t(where.size()), r, where, vector_bytes, o);
    EXPECT_TRUE(out.ok()) << out.why().text();
    return out.ok() ? *out : simulation_result();
}

// ------------------------------------------------------------------ fair shares

TEST(FairShare, GivesWhatTheTextbookGives) {
    // x over both links, y and z over one each.
    graph g;
    const auto a = g.add_switch("a", 1), b = g.add_switch("b", 1), c = g.add_switch("c", 1);
    const link_id ab = g.add_cable(a, b, 8), bc = g.add_cable(b, c, 16);  // 1000, 2000 bytes/us
    fair_share shares(g, 1);
    const std::vector<link_id> both = {ab, bc}, first = {ab}, second = {bc};
    const auto x = shares.begin(0, both, 1e6), y = shares.begin(0, first, 1e6),
               z = shares.begin(0, second, 1e6);
    EXPECT_EQ(shares.settle(0).size(), 3u);
    EXPECT_DOUBLE_EQ(shares.rate(x), 500);
    EXPECT_DOUBLE_EQ(shares.rate(y), 500);
    EXPECT_DOUBLE_EQ(shares.rate(z), 1500);
    // z ends after 666.7 us; nothing changes for the others, whose bottleneck is a-b.
    EXPECT_NEAR(shares.finish(z), 1e6 / 1500, 1e-9);
    shares.end(z);
    EXPECT_TRUE(shares.settle(1e6 / 1500).empty());
    // y ends at 1000 us: x, of which half is left, gets all of a-b.
    shares.end(y);
    ASSERT_EQ(shares.settle(1000).size(), 1u);
    EXPECT_DOUBLE_EQ(shares.rate(x), 1000);
    EXPECT_NEAR(shares.finish(x), 1000 + 500, 1e-9);
}

// All streams anew, one bottleneck at a time.
std::vector<double> dull_rates(const graph& g, const std::vector<std::vector<link_id>>& paths) {
    std::vector<double> rate(paths.size(), -1), room;
    for (const auto& l : g.links()) room.push_back(l.gbps * 125);
    for (size_t left = paths.size(); left > 0;) {
        double least = 1e300;
        link_id tight = 0;
        for (link_id l = 0; l < room.size(); ++l) {
            int n = 0;
            for (size_t s = 0; s < paths.size(); ++s)
                n += rate[s] < 0 && std::count(paths[s].begin(), paths[s].end(), l);
            if (n && room[l] / n < least) least = room[l] / n, tight = l;
        }
        for (size_t s = 0; s < paths.size(); ++s) {
            if (rate[s] >= 0 || !std::count(paths[s].begin(), paths[s].end(), tight)) continue;
            rate[s] = least;
            for (const link_id l : paths[s]) room[l] -= least;
            --left;
        }
    }
    return rate;
}

TEST(FairShare, IsThatOfFillingAllAnewAfterEveryChange) {
    const graph g = fabric::make_leaf_spine(4, 4, 3, 1, 100, 70);
    const routes r(g, {balance::hash, 7});
    std::mt19937 random(11);
    SCOPED_TRACE("seed 11");
    fair_share shares(g, 1);
    std::vector<std::vector<link_id>> paths(60);
    std::vector<fair_share::stream_id> id(paths.size());
    std::vector<bool> live(paths.size(), false);
    int compared = 0;
    for (int step = 0; step < 600; ++step) {
        // One to four changes at a time.
        for (unsigned n = random() % 4 + 1; n > 0; --n) {
            const size_t s = random() % paths.size();
            if (live[s]) {
                shares.end(id[s]);
            } else {
                const auto hosts = g.hosts();
                const auto a = hosts[random() % 16], b = hosts[random() % 16];
                if (a == b) continue;
                paths[s].clear();
                ASSERT_TRUE(r.append(a, b, 0, paths[s]));
                id[s] = shares.begin(step, paths[s], 1e12);
            }
            live[s] = !live[s];
        }
        shares.settle(step);
        std::vector<std::vector<link_id>> now;
        std::vector<double> got;
        for (size_t s = 0; s < paths.size(); ++s)
            if (live[s]) now.push_back(paths[s]), got.push_back(shares.rate(id[s]));
        const std::vector<double> want = dull_rates(g, now);
        for (size_t i = 0; i < want.size(); ++i, ++compared)
            ASSERT_NEAR(got[i], want[i], 1e-6 * want[i]) << "step " << step << ", stream " << i;
    }
    EXPECT_GT(compared, 10'000);
}

// ------------------------------------------------------------------ one round

TEST(Simulation, OfOneFlowIsAlphaPlusBytesOverRate) {
    const auto r = run(dumbbell(), {{0, 1, {{0, 2, 1}}}});
    EXPECT_NEAR(r.us, 5 + 100, 1e-6);
    ASSERT_EQ(r.round_us.size(), 1u);
    EXPECT_NEAR(r.round_us[0], 105, 1e-6);
    EXPECT_NEAR(r.mean_us, 105.0 / 2, 1e-6);  // ranks 1 and 3 have nothing to do
    EXPECT_NEAR(r.busiest_use, 100.0 / 105, 1e-9);
}

TEST(Simulation, GivesWhatOneFlowLeavesToTheOther) {
    // Both over a-b: half each until the short one ends at 105, then the long one alone.
    const auto r = run(dumbbell(), {{0, 1, {{0, 2, 1}, {1, 3, 0.5}}}});
    EXPECT_NEAR(r.us, 5 + 150, 1e-6);
    EXPECT_NEAR(r.mean_us, (155.0 + 105 + 155 + 105) / 4, 1e-6);
    EXPECT_EQ(dumbbell().text_of(r.busiest), "a-b");
    EXPECT_NEAR(r.busiest_use, 150.0 / 155, 1e-9);
}

TEST(Simulation, KnowsGoodput) {
    simulation_options o;
    o.efficiency = 0.5;
    EXPECT_NEAR(run(dumbbell(), {{0, 1, {{0, 2, 1}}}}, o).us, 5 + 200, 1e-6);
}

TEST(Simulation, ReducesBeforeTheNextRoundAndOnlyBeforeTheTurn) {
    simulation_options o;
    o.gamma_ns_per_byte = 0.1;  // 125 us per vector
    const std::vector<flow_round> twice = {{0, 2, {{0, 1, 1}, {1, 0, 1}}}};
    EXPECT_NEAR(run(dumbbell(), twice, o).us, 2 * (5 + 100 + 125), 1e-6);
    o.turn = 1;
    EXPECT_NEAR(run(dumbbell(), twice, o).us, 2 * (5 + 100) + 125, 1e-6);
    // Two messages to one rank come together (200 us each) and are reduced one after the other.
    o.turn = plan::never;
    EXPECT_NEAR(run(dumbbell(), {{0, 1, {{1, 0, 1}, {2, 0, 1}}}}, o).us, 5 + 200 + 250, 1e-6);
}

TEST(Simulation, SharesAFlowAmongItsSubflows) {
    // Two spines with links of 50 Gb/s.
    const graph g = fabric::make_leaf_spine(2, 1, 2, 1, 100, 50);
    routes r(g, {balance::pinned, 1});
    const auto a = g.hosts()[0], b = g.hosts()[1];
    const auto ways = r.all(a, b, 2);
    ASSERT_EQ(ways.size(), 2u);
    const std::vector<flow_round> flows = {{0, 1, {{0, 1, 1}}}};
    simulation_options o;
    o.subflows = 2;
    const auto us = [&] {
        const auto s = simulate(flows, 2, r, one_each(g), vector_bytes, o);
        EXPECT_TRUE(s.ok());
        return s->us;
    };
    for (uint32_t s = 0; s < 2; ++s) ASSERT_TRUE(r.pin(a, b, s, ways[s]).ok());
    EXPECT_NEAR(us(), 5 + 100, 1e-6);
    for (uint32_t s = 0; s < 2; ++s) ASSERT_TRUE(r.pin(a, b, s, ways[0]).ok());
    EXPECT_NEAR(us(), 5 + 200, 1e-6);
}

TEST(Simulation, TakesAlphaInsideAServer) {
    const graph g = fabric::make_single(1, 100);
    const auto r = simulate(std::vector<flow_round>{{0, 3, {{0, 1, 1}, {1, 0, 1}}}}, 2,
                            routes(g, {}), {0, 0}, vector_bytes, {});
    ASSERT_TRUE(r.ok());
    EXPECT_NEAR(r->us, 3 * 5, 1e-9);
    EXPECT_EQ(r->busiest, fabric::none);
}

// ------------------------------------------------------------------ policies

double us(policy how, const std::vector<flow_round>& flows) {
    simulation_options o;
    o.how = how;
    return run(fabric::make_single(6, 100), flows, o).us;
}

TEST(Policies, DifferInWhatARankMayDoBeforeItsOwnSendIsThrough) {
    // Rank 0 passes nothing on: eager, both share its link; else one after the other.
    const std::vector<flow_round> flows = {{0, 1, {{0, 1, 1}}}, {1, 1, {{0, 2, 1}}}};
    EXPECT_NEAR(us(policy::eager, flows), 5 + 200, 1e-6);
    EXPECT_NEAR(us(policy::in_order, flows), 105 + 105, 1e-6);
    EXPECT_NEAR(us(policy::pair, flows), 105 + 105, 1e-6);
    EXPECT_NEAR(us(policy::barrier, flows), 105 + 105, 1e-6);
}

TEST(Policies, DifferInWhetherTheReceiverIsWaitedFor) {
    // Rank 2 is through with round 0 at 55 us, rank 1, to which it sends next, at 105 us.
    const std::vector<flow_round> flows = {{0, 1, {{0, 1, 1}, {2, 3, 0.5}}}, {1, 1, {{2, 1, 0.5}}}};
    // From 60 us on both share rank 1's link. 0 -> 1 has 45 us of its 100 left and takes 90; then
    // 2 -> 1 has 5 us left.
    EXPECT_NEAR(us(policy::in_order, flows), 155, 1e-6);
    EXPECT_NEAR(us(policy::pair, flows), 105 + 5 + 50, 1e-6);
    EXPECT_NEAR(us(policy::barrier, flows), 105 + 5 + 50, 1e-6);
}

TEST(Policies, DifferInWhetherAllRanksAreWaitedFor) {
    const std::vector<flow_round> flows = {{0, 1, {{0, 1, 1}, {4, 5, 0.25}}},
                                           {1, 1, {{4, 5, 0.25}}}};
    EXPECT_NEAR(us(policy::pair, flows), 105, 1e-6);  // 4 -> 5 twice: 60
    EXPECT_NEAR(us(policy::barrier, flows), 105 + 5 + 25, 1e-6);
}

TEST(Policies, ReceiveWhatComesBeforeTheRankDoes) {
    // Rank 1 gets round 1's message (at 30) before round 0's (at 67.5), and goes on after both.
    const std::vector<flow_round> flows = {
        {0, 1, {{0, 1, 0.5}}}, {1, 1, {{2, 1, 0.125}}}, {2, 1, {{1, 3, 1}}}};
    // Both share its link from 5 on; when the short one ends, the long one has 37.5 of 50 left.
    EXPECT_NEAR(us(policy::eager, flows), 67.5 + 105, 1e-6);
}

TEST(Policies, WithRepeatedRoundsAreThoseOfTheRoundsOneByOne) {
    const std::vector<flow> ring = {{0, 1, 0.25}, {1, 2, 0.25}, {2, 0, 0.25}, {3, 4, 0.5}};
    const std::vector<flow_round> once = {{0, 3, ring}},
                                  apart = {{0, 1, ring}, {1, 1, ring}, {2, 1, ring}};
    for (const policy p : {policy::eager, policy::in_order, policy::pair, policy::barrier}) {
        simulation_options o;
        o.how = p;
        o.skew_us = 50;
        o.jitter_us = 10;
        const graph g = fabric::make_single(6, 100);
        const auto a = run(g, once, o), b = run(g, apart, o);
        EXPECT_DOUBLE_EQ(a.us, b.us);
        EXPECT_EQ(a.round_us, b.round_us);
        EXPECT_GT(a.round_us[2], a.round_us[1]);
    }
}

TEST(Policies, DelayRanksByTheSeed) {
    const std::vector<flow_round> flows = {{0, 4, {{0, 2, 0.5}, {2, 0, 0.5}, {1, 3, 0.5}}}};
    simulation_options o;
    o.skew_us = 50;
    o.jitter_us = 10;
    const double first = run(dumbbell(), flows, o).us;
    EXPECT_DOUBLE_EQ(run(dumbbell(), flows, o).us, first);
    o.seed = 2;
    EXPECT_NE(run(dumbbell(), flows, o).us, first);
    // A single flow: the later of both starts; skews are even in 0 .. 50.
    o.jitter_us = 0;
    double sum = 0, most = 0;
    constexpr int seeds = 400;
    for (o.seed = 1; o.seed <= seeds; ++o.seed) {
        const double late = run(dumbbell(), {{0, 1, {{0, 2, 1}}}}, o).us - 105;
        EXPECT_GE(late, 0);
        EXPECT_LE(late, 50);
        sum += late;
        most = std::max(most, late);
    }
    EXPECT_NEAR(sum / seeds, 50.0 * 2 / 3, 2.5);  // mean of the larger of two
    EXPECT_GT(most, 45);
}

// ------------------------------------------------------------------ errors

TEST(Simulation, SaysWhatCannotBeSimulated) {
    graph g = dumbbell();
    const auto why = [&](const std::vector<flow_round>& flows, rank_t n = 4) {
        const routes r(g, {});
        const auto s = simulate(flows, n, r, one_each(g), vector_bytes, {});
        EXPECT_FALSE(s.ok());
        return std::string(s.why().text());
    };
    EXPECT_EQ(why({{2, 1, {{0, 4, 1}}}}), "round 2: no flow can be from rank 0 to 4");
    EXPECT_EQ(why({{2, 1, {{1, 1, 1}}}}), "round 2: no flow can be from rank 1 to 1");
    EXPECT_EQ(why({{1, 2, {{0, 1, 1}}}, {2, 1, {{0, 1, 1}}}}),
              "the flows of round 2 do not come after those before");
    EXPECT_EQ(why({}, 5), "4 ranks are placed, the plan has 5");
    EXPECT_EQ(why({{0, 20'000'001, {{0, 1, 1}}}}).substr(0, 11), "2e+07 flows");
    g.set_up(g.find_link("a-b"), false);
    EXPECT_EQ(why({{0, 1, {{0, 1, 1}}}, {1, 1, {{1, 2, 1}}}}),
              "no path from h1 (rank 1) to h2 (rank 2)");
}

// ------------------------------------------------------------------ closed form

struct job {
    graph g;
    mapping::placement where = one_each(g);
    rank_maps maps = mapping::make_maps(g, where);
    explicit job(graph net) : g(std::move(net)) {}
    plan_request request() const {
        plan_request r;
        r.nranks = rank_t(where.size());
        r.maps = &maps;
        return r;
    }
    std::vector<flow_round> flows(std::string_view name) const {
        return flows_of(*find_algorithm(name), request());
    }
};

TEST(InStep, IsTheSumOverRoundsOfAlphaAndTheFullestLink) {
    const graph g = dumbbell();
    const routes r(g, {});
    simulation_options o;
    // Round 0: a-b has 1.5 vectors. Rounds 1 to 3: half a vector beside each other.
    const std::vector<flow_round> flows = {{0, 1, {{0, 2, 1}, {1, 3, 0.5}}},
                                           {1, 3, {{0, 1, 0.5}, {2, 3, 0.5}}}};
    EXPECT_NEAR(price_in_step_us(flows, r, one_each(g), vector_bytes, o), 155 + 3 * 55, 1e-9);
    o.efficiency = 0.5;
    EXPECT_NEAR(price_in_step_us(flows, r, one_each(g), vector_bytes, o), 305 + 3 * 105, 1e-9);
    o.gamma_ns_per_byte = 0.1;
    o.turn = 2;  // rounds 0 and 1 reduce: 125 us and 62.5 us
    EXPECT_NEAR(price_in_step_us(flows, r, one_each(g), vector_bytes, o),
                305 + 3 * 105 + 125 + 62.5, 1e-9);
}

TEST(InStep, IsTheSimulationWithABarrierWhereFlowsAreEqual) {
    const job j(fabric::make_bigraph({4, 4, 1, 1}, 100));
    for (const char* name : {"hdrm", "eulerian_ring", "halving_doubling", "halving_doubling:far",
                             "doubling", "ring"}) {
        const auto flows = j.flows(name);
        simulation_options o;
        o.how = policy::barrier;
        o.gamma_ns_per_byte = 0.01;
        o.turn = flows.back().round;
        const routes r(j.g, {balance::by_destination, 1});
        const auto s = simulate(flows, rank_t(j.where.size()), r, j.where, vector_bytes, o);
        ASSERT_TRUE(s.ok());
        const double in_step = price_in_step_us(flows, r, j.where, vector_bytes, o);
        EXPECT_NEAR(s->us, in_step, 1e-6 * in_step) << name;
    }
}

TEST(InStep, OfHdrmIsItsFormula) {
    for (const auto& [s, h, l] : {std::tuple(8u, 4u, 1u), {4u, 8u, 2u}, {16u, 16u, 1u}}) {
        const job j(fabric::make_bigraph({s, h, l, 1}, 25));
        const double n = 2.0 * s * h, bytes = 1e6;
        const double formula = 2 * std::log2(n) * 5 + 2 * bytes * (1 - 1 / n) / (25 * 125);
        const routes r(j.g, {balance::by_destination, 1});
        EXPECT_NEAR(price_in_step_us(j.flows("hdrm"), r, j.where, 1'000'000, {}), formula,
                    1e-6 * formula);
    }
}

// ------------------------------------------------------------------ ranks out of step

// Mean over seeds of the time by HDRM, over the time in step.
double slowdown(const job& j, policy how, double jitter_us) {
    const auto flows = j.flows("hdrm");
    const routes r(j.g, {balance::by_destination, 1});
    simulation_options o;
    o.how = how;
    o.skew_us = 50;
    o.jitter_us = jitter_us;
    constexpr uint64_t bytes = 100'000'000, seeds = 100;
    double sum = 0;
    for (o.seed = 1; o.seed <= seeds; ++o.seed)
        sum += simulate(flows, rank_t(j.where.size()), r, j.where, bytes, o)->us / seeds;
    return sum / price_in_step_us(flows, r, j.where, bytes, o);
}

TEST(OutOfStep, HdrmNeedsItsPairsToMeet) {
    // Published: +27 %, +5 %, +0.8 %; with jitter +31 %, +15 %, +3.5 %. Single seeds scatter by a third
    // of that; the means of 200 were 26.7, 4.9, 0.9 and 31.9, 12.8, 3.5 %.
    const job j(fabric::make_bigraph({8, 4, 1, 1}, 100));
    EXPECT_NEAR(slowdown(j, policy::eager, 0), 1.27, 0.02);
    EXPECT_NEAR(slowdown(j, policy::in_order, 0), 1.05, 0.015);
    EXPECT_NEAR(slowdown(j, policy::pair, 0), 1.008, 0.004);
    EXPECT_NEAR(slowdown(j, policy::eager, 10), 1.31, 0.02);
    EXPECT_NEAR(slowdown(j, policy::in_order, 10), 1.15, 0.035);
    EXPECT_NEAR(slowdown(j, policy::pair, 10), 1.035, 0.01);
    EXPECT_LT(slowdown(j, policy::barrier, 0), 1.005);  // the skew, once
}

TEST(OutOfStep, Hdrm512TakesSecondsAndKeepsTheOrderOfThePolicies) {
    const job j(fabric::make_bigraph({16, 16, 1, 1}, 100));
    const auto flows = j.flows("hdrm");
    const routes r(j.g, {balance::by_destination, 1});
    double last = 1e300;
    for (const policy p : {policy::eager, policy::in_order, policy::pair, policy::barrier}) {
        simulation_options o;
        o.how = p;
        o.skew_us = 50;
        const auto s = simulate(flows, 512, r, j.where, 100'000'000, o);
        ASSERT_TRUE(s.ok());
        EXPECT_LT(s->us, last);
        last = s->us;
    }
    EXPECT_NEAR(last, 16058.8 + 50, 1);  // all wait for the last to start
}

}  // namespace
}  // namespace ef::cost
