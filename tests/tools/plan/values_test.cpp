// The run on random numbers: every algorithm passes, and a plan with one wrong move does not.
#include "tools/plan/values.hpp"

#include "allreduce/algo/algorithm.hpp"

#include <gtest/gtest.h>

namespace ef::planning {
namespace {

plan_request request(ef_collective_t coll, rank_t n, rank_t root = 0) {
    plan_request r;
    r.coll = coll;
    r.nranks = n;
    r.root = root;
    return r;
}

numbers_run run_all(const algorithm& a, const plan_request& like,
                    const std::function<void(plan&)>& spoil = {}) {
    return check_numbers(like, [&](rank_t r) {
        plan_request mine = like;
        mine.rank = r;
        plan p = a.build(mine);
        if (spoil) spoil(p);
        return p;
    });
}

status run(const algorithm& a, const plan_request& like,
           const std::function<void(plan&)>& spoil = {}) {
    return run_all(a, like, spoil).outcome;
}

TEST(CheckNumbers, PassesEveryAlgorithmAndCollective) {
    size_t ran = 0;
    for (const ef_collective_t coll : {EF_ALLREDUCE, EF_REDUCE_SCATTER, EF_ALLGATHER, EF_BROADCAST})
        for (const rank_t n : {1, 2, 3, 8, 13, 70, 128})
            for (const algorithm& a : algorithms()) {
                const plan_request r = request(coll, n, n - 1);
                if (!a.accepts(r)) continue;
                const numbers_run all = run_all(a, r);
                EXPECT_TRUE(all.outcome.ok())
                    << a.name << " on " << n << ": " << all.outcome.text();
                EXPECT_EQ(all.blocks, all.of);
                ++ran;
            }
    EXPECT_GT(ran, 100u);
}

TEST(CheckNumbers, FindsAContributionThatCountsTwice) {
    const algorithm& ring = *find_algorithm("ring");
    const status s = run(ring, request(EF_ALLREDUCE, 70), [](plan& p) {
        if (p.rank != 3) return;
        for (move& m : p.moves) {
            if (m.kind != move_kind::recv_reduce) continue;
            p.moves.push_back({move_kind::reduce, buffer::out, buffer::in, false, false, -1,
                               p.rounds - 1, m.what});
            return;
        }
    });
    EXPECT_EQ(s.code(), EF_INVALID);
    EXPECT_NE(s.text().find("rank 3: block "), std::string_view::npos) << s.text();
    EXPECT_NE(s.text().find(" is not what the ranks gave"), std::string_view::npos) << s.text();
}

TEST(CheckNumbers, FindsAValueThatWasNeverReceived) {
    const algorithm& tree = *find_algorithm("double_tree");
    const status s = run(tree, request(EF_BROADCAST, 9), [](plan& p) {
        if (p.rank != 5) return;
        for (move& m : p.moves)
            if (m.kind == move_kind::recv && m.dst == buffer::out) {
                m.dst = buffer::tmp;
                return;
            }
    });
    EXPECT_EQ(s.code(), EF_INVALID) << s.text();
}

TEST(CheckNumbers, NamesTheRankThatWaitsForAMessageThatNobodySends) {
    const algorithm& ring = *find_algorithm("ring");
    const status s = run(ring, request(EF_ALLREDUCE, 4), [](plan& p) {
        if (p.rank != 1) return;
        std::erase_if(p.moves, [](const move& m) { return m.kind == move_kind::send; });
    });
    EXPECT_EQ(s.code(), EF_INVALID);
    EXPECT_NE(s.text().find("the message never comes"), std::string_view::npos) << s.text();
}

TEST(CheckNumbers, FindsAMessageOfOtherBlocks) {
    const algorithm& hd = *find_algorithm("halving_doubling");
    const status s = run(hd, request(EF_ALLREDUCE, 8), [](plan& p) {
        if (p.rank == 2) std::swap(p.moves[0].what, p.moves[1].what);
    });
    EXPECT_EQ(s.code(), EF_INVALID);
    EXPECT_NE(s.text().find("the message has other blocks"), std::string_view::npos) << s.text();
}

TEST(CheckNumbers, TakesASampleOfTheBlocksFromFirstToLastWhereAllWouldTakeLong) {
    const algorithm& hd = *find_algorithm("halving_doubling");
    const plan_request like = request(EF_ALLREDUCE, 16384);
    const numbers_run sample = run_all(hd, like, [](plan& p) {
        if (p.rank == 77)
            p.moves.push_back({move_kind::reduce,
                               buffer::out,
                               buffer::in,
                               false,
                               false,
                               -1,
                               p.rounds - 1,
                               {p.nblocks - 1, 1}});
    });
    EXPECT_EQ(sample.outcome.text(), "rank 77: block 16383 is not what the ranks gave");
    EXPECT_GT(sample.blocks, 100u);
    EXPECT_LT(sample.blocks, sample.of);
}

TEST(CheckNumbers, RefusesWhatWouldTakeMinutes) {
    const status s = run(*find_algorithm("ring"), request(EF_ALLREDUCE, 20'000));
    EXPECT_EQ(s.code(), EF_UNSUPPORTED);
    EXPECT_EQ(s.text(), "20000 ranks are too many for a run on numbers");
}

}  // namespace
}  // namespace ef::planning
