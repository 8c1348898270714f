// The check of plans above 64 ranks, where contributions are sums of drawn numbers and no longer sets
// of bits.
#include "allreduce/plan_check.hpp"

#include "allreduce/algo/algorithm.hpp"
#include "tests/support/orders.hpp"

#include <gtest/gtest.h>

#include <string>

namespace ef {
namespace {

status check(std::string_view name, rank_t n, const std::function<void(plan&)>& spoil = {}) {
    const rank_maps maps = test::any_maps(n);
    plan_request r;
    r.nranks = n;
    r.maps = &maps;
    const algorithm& a = *find_algorithm(name);
    EXPECT_TRUE(a.accepts(r)) << name;
    return check_plans(r, [&](rank_t rank) {
        plan_request mine = r;
        mine.rank = rank;
        plan p = a.build(mine);
        if (spoil) spoil(p);
        return p;
    });
}

TEST(plan_check_of_many, proves_every_algorithm_on_both_sides_of_64_ranks) {
    for (const char* name : {"direct", "pairwise", "ring", "eulerian_ring", "halving_doubling",
                             "halving_doubling:far", "hdrm", "doubling", "double_tree", "tree"})
        for (const rank_t n : {63, 64, 65, 96, 128}) {
            if (std::string_view(name) == "doubling" && (n & (n - 1))) continue;
            const status s = check(name, n);
            EXPECT_TRUE(s.ok()) << name << ", " << n << " ranks: " << s.text();
        }
}

TEST(plan_check_of_many, proves_hdrm_on_512_ranks) {
    const status s = check("hdrm", 512);
    EXPECT_TRUE(s.ok()) << s.text();
}

// Rank 0 takes in the vectors of 1, 2, .. one by one and sends the sum to all.
constexpr rank_t star_ranks = 80;

plan star(rank_t rank) {
    plan p;
    p.rank = rank;
    p.nranks = star_ranks;
    p.nblocks = 1;
    p.rounds = 2;
    const block_range all{0, 1};
    if (rank) {
        p.moves = {{move_kind::send, buffer::out, buffer::in, false, false, 0, 0, all},
                   {move_kind::recv, buffer::out, buffer::in, false, false, 0, 1, all}};
        return p;
    }
    for (rank_t r = 1; r < star_ranks; ++r)
        p.moves.push_back({move_kind::recv_reduce, buffer::out, r == 1 ? buffer::in : buffer::out,
                           false, r == star_ranks - 1, r, 0, all});
    for (rank_t r = 1; r < star_ranks; ++r)
        p.moves.push_back({move_kind::send, buffer::out, buffer::out, false, false, r, 1, all});
    return p;
}

status check_star(const std::function<void(plan&)>& spoil) {
    plan_request r;
    r.nranks = star_ranks;
    return check_plans(r, [&](rank_t rank) {
        plan p = star(rank);
        if (rank == 0) spoil(p);
        return p;
    });
}

void expect_fault(const status& s, const char* words) {
    ASSERT_FALSE(s.ok()) << "the fault was not seen";
    EXPECT_EQ(s.code(), EF_INVALID);
    EXPECT_NE(std::string(s.text()).find(words), std::string::npos) << s.text();
}

// After the 40th message, of rank 41.
move own_again() {
    return {move_kind::reduce, buffer::out, buffer::in, false, false, -1, 0, {0, 1}};
}

TEST(plan_check_of_many, sees_a_contribution_that_is_missing) {
    const status good = check_star([](plan&) {});
    EXPECT_TRUE(good.ok()) << good.text();
    expect_fault(check_star([](plan& p) {
                     p.moves[40].kind = move_kind::recv;
                     p.moves[40].dst = buffer::tmp;
                 }),
                 "not complete");
}

TEST(plan_check_of_many, sees_a_contribution_that_counts_twice) {
    expect_fault(check_star([](plan& p) { p.moves.insert(p.moves.begin() + 41, own_again()); }),
                 "not complete");
}

TEST(plan_check_of_many, sees_one_that_counts_twice_in_place_of_one_that_is_missing) {
    expect_fault(check_star([](plan& p) {
                     p.moves[40].kind = move_kind::recv;
                     p.moves[40].dst = buffer::tmp;
                     p.moves.insert(p.moves.begin() + 41, own_again());
                 }),
                 "not complete");
}

TEST(plan_check_of_many, sees_a_value_that_is_complete_and_does_not_say_so) {
    expect_fault(check_star([](plan& p) { p.moves[star_ranks - 2].last = false; }),
                 "without saying so");
}

TEST(plan_check_of_many, sees_that_one_rank_combines_in_another_order) {
    expect_fault(check("direct", 80,
                       [](plan& p) {
                           if (p.rank != 70) return;
                           for (move& m : p.moves)
                               if (m.kind == move_kind::recv_reduce && m.peer == 50)
                                   m.message_first ^= true;
                       }),
                 "another order");
}

TEST(plan_check_of_many, refuses_more_than_1024_ranks) {
    plan_request r;
    r.nranks = 1025;
    const status s = check_plans(r, star);
    EXPECT_EQ(s.code(), EF_UNSUPPORTED);
    EXPECT_EQ(s.text(), "1025 ranks: the check is for 1 to 1024");
}

}  // namespace
}  // namespace ef
