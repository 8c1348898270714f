// Flows of plans: hand-made plans with their flows beside them, and every algorithm of the registry
// against the dullest way of counting.
#include "allreduce/flows.hpp"

#include "tests/support/orders.hpp"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <string>
#include <tuple>
#include <vector>

namespace ef {

bool operator==(const flow& a, const flow& b) {
    return std::tie(a.from, a.to, a.part) == std::tie(b.from, b.to, b.part);
}
void PrintTo(const flow& f, std::ostream* out) {
    *out << f.from << " -> " << f.to << " (" << f.part << ")";
}

namespace {

move send(uint32_t round, rank_t to, block_range b) {
    return {.kind = move_kind::send, .peer = to, .round = round, .what = b};
}
move recv(uint32_t round, rank_t from, block_range b) {
    return {.kind = move_kind::recv, .peer = from, .round = round, .what = b};
}
plan plan_of(rank_t rank, rank_t nranks, uint32_t nblocks, std::vector<move> moves) {
    plan p;
    p.rank = rank;
    p.nranks = nranks;
    p.nblocks = nblocks;
    p.moves = std::move(moves);
    return p;
}

std::vector<flow_round> read(std::vector<plan> plans) {
    return flows_read(rank_t(plans.size()), [&](rank_t r) { return plans[size_t(r)]; });
}

TEST(Flows, AddUpTheMessagesOfARoundToOnePeer) {
    const auto sets = read(
        {plan_of(0, 3, 8,
                 {send(0, 2, {0, 1}), send(0, 1, {4, 2}), recv(0, 1, {0, 8}), send(0, 2, {6, 2})}),
         plan_of(1, 3, 8, {send(0, 0, {0, 8})}), plan_of(2, 3, 8, {})});
    ASSERT_EQ(sets.size(), 1u);
    EXPECT_EQ(sets[0].round, 0u);
    EXPECT_EQ(sets[0].repeat, 1u);
    EXPECT_EQ(sets[0].flows, (std::vector<flow>{{0, 1, 0.25}, {0, 2, 0.375}, {1, 0, 1.0}}));
}

TEST(Flows, StoreEqualRoundsOnceAndBeginANewSetWhereAnyRankChanges) {
    // Rank 0 sends the same in rounds 1 .. 4; rank 1 joins in rounds 3 and 4 and is alone in 6.
    const auto sets = read(
        {plan_of(0, 3, 2,
                 {send(1, 1, {0, 1}), send(2, 1, {1, 1}), send(3, 1, {0, 1}), send(4, 1, {1, 1})}),
         plan_of(1, 3, 2, {send(3, 2, {0, 2}), send(4, 2, {0, 2}), send(6, 2, {0, 2})}),
         plan_of(2, 3, 2, {recv(3, 1, {0, 2}), recv(4, 1, {0, 2}), recv(6, 1, {0, 2})})});
    ASSERT_EQ(sets.size(), 3u);
    const std::vector<std::tuple<uint32_t, uint32_t>> when = {{1, 2}, {3, 2}, {6, 1}};
    for (size_t s = 0; s < 3; ++s)
        EXPECT_EQ(std::tie(sets[s].round, sets[s].repeat), when[s]) << "set " << s;
    EXPECT_EQ(sets[0].flows, (std::vector<flow>{{0, 1, 0.5}}));
    EXPECT_EQ(sets[1].flows, (std::vector<flow>{{0, 1, 0.5}, {1, 2, 1}}));
    EXPECT_EQ(sets[2].flows, (std::vector<flow>{{1, 2, 1}}));
}

TEST(Flows, OfPlansThatSendNothingAreNone) {
    EXPECT_TRUE(read({plan_of(0, 2, 1, {}), plan_of(1, 2, 1, {})}).empty());
    EXPECT_TRUE(flows_read(0, [](rank_t) { return plan(); }).empty());
}

TEST(Flows, OfARingAreOneSet) {
    plan_request r;
    r.nranks = 5;
    const auto sets = flows_of(*find_algorithm("ring"), r);
    ASSERT_EQ(sets.size(), 1u);
    EXPECT_EQ(sets[0].repeat, 8u);  // 2 (p-1)
    EXPECT_EQ(sets[0].flows,
              (std::vector<flow>{{0, 1, 0.2}, {1, 2, 0.2}, {2, 3, 0.2}, {3, 4, 0.2}, {4, 0, 0.2}}));
}

TEST(Flows, OfHalvingDoublingOnFourRanksHaveTheMiddleRoundsInOneSet) {
    plan_request r;
    r.nranks = 4;
    const auto sets = flows_of(*find_algorithm("halving_doubling"), r);
    const std::vector<flow> near = {{0, 1, 0.5}, {1, 0, 0.5}, {2, 3, 0.5}, {3, 2, 0.5}};
    const std::vector<flow> far = {{0, 2, 0.25}, {1, 3, 0.25}, {2, 0, 0.25}, {3, 1, 0.25}};
    ASSERT_EQ(sets.size(), 3u);
    EXPECT_EQ(sets[0].flows, near);
    EXPECT_EQ(sets[1].flows, far);
    EXPECT_EQ(sets[1].round, 1u);
    EXPECT_EQ(sets[1].repeat, 2u);
    EXPECT_EQ(sets[2].flows, near);
    EXPECT_EQ(sets[2].round, 3u);
}

// Round by round, every message of every plan, added up by pair in blocks.
using dull = std::map<std::tuple<uint32_t, rank_t, rank_t>, double>;

dull count_dully(const algorithm& a, plan_request r) {
    dull out;
    for (r.rank = 0; r.rank < r.nranks; ++r.rank) {
        const plan p = a.build(r);
        for (const move& m : p.moves)
            if (m.kind == move_kind::send)
                out[{m.round, r.rank, m.peer}] += double(m.what.count) / double(p.nblocks);
    }
    return out;
}

dull unroll(const std::vector<flow_round>& sets) {
    dull out;
    for (const flow_round& s : sets)
        for (uint32_t i = 0; i < s.repeat; ++i)
            for (const flow& f : s.flows) {
                const bool is_new = out.try_emplace({s.round + i, f.from, f.to}, f.part).second;
                EXPECT_TRUE(is_new)
                    << "round " << s.round + i << ": " << f.from << " -> " << f.to << " twice";
            }
    return out;
}

void expect_equal(const dull& got, const dull& want, const std::string& what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    for (auto g = got.begin(), w = want.begin(); g != got.end(); ++g, ++w) {
        ASSERT_EQ(g->first, w->first) << what;
        ASSERT_NEAR(g->second, w->second, 1e-12) << what;
    }
}

class flows_of_every : public testing::TestWithParam<std::string_view> {};

TEST_P(flows_of_every, are_those_of_its_plans) {
    const algorithm& a = *find_algorithm(GetParam());
    int seen = 0;
    for (const rank_t n : {1, 2, 3, 4, 6, 7, 8, 12, 16, 31, 32}) {
        std::vector<int> pairs(static_cast<size_t>(n));  // two ranks on each server
        for (rank_t v = 0; v < n; ++v) pairs[size_t(v)] = v / 2;
        const rank_maps maps = test::any_maps(n, pairs);
        for (int coll = EF_ALLREDUCE; coll <= EF_BROADCAST; ++coll) {
            plan_request r;
            r.coll = ef_collective_t(coll);
            r.nranks = n;
            r.host_of = pairs;
            r.maps = &maps;
            if (!a.accepts(r)) continue;
            const std::string what = std::string(a.name) + ", collective " + std::to_string(coll) +
                                     ", " + std::to_string(n) + " ranks";
            const dull want = count_dully(a, r);
            expect_equal(unroll(flows_of(a, r)), want, what);
            const auto build = [&](rank_t v) {
                plan_request mine = r;
                mine.rank = v;
                return a.build(mine);
            };
            expect_equal(unroll(flows_read(n, build)), want, what + ", read");
            for (const flow_round& s : flows_of(a, r))
                EXPECT_TRUE(
                    std::is_sorted(s.flows.begin(), s.flows.end(),
                                   [](const flow& x, const flow& y) { return x.from < y.from; }))
                    << what;
            ++seen;
        }
    }
    EXPECT_GE(seen, 5);
}

std::vector<std::string_view> names() {
    std::vector<std::string_view> all;
    for (const algorithm& a : algorithms()) all.push_back(a.name);
    return all;
}
INSTANTIATE_TEST_SUITE_P(algorithms, flows_of_every, testing::ValuesIn(names()), [](const auto& p) {
    std::string s(p.param);
    for (char& c : s)
        if (!isalnum(c)) c = '_';
    return s;
});

}  // namespace
}  // namespace ef
