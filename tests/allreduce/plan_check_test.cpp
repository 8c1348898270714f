// Every plan that the library can build for up to 64 ranks is proved, and the proof is shown to see
// every kind of fault.
#include "allreduce/plan_check.hpp"

#include "allreduce/algo/algorithm.hpp"
#include "tests/support/orders.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ef {
namespace {

std::string describe(std::string_view name, const plan_request& r) {
    return std::string(name) + ", collective " + std::to_string(r.coll) + ", " +
           std::to_string(r.nranks) + " ranks, root " + std::to_string(r.root) +
           (r.in_place ? ", in place" : "");
}

status check(const algorithm& a, plan_request r) {
    return check_plans(r, [&](rank_t rank) {
        r.rank = rank;
        return a.build(r);
    });
}

class every_plan : public testing::TestWithParam<std::string_view> {};

TEST_P(every_plan, is_complete_reproducible_and_free_of_deadlock_for_up_to_64_ranks) {
    const algorithm& a = *find_algorithm(GetParam());
    int proved = 0;
    for (rank_t n = 1; n <= 64; ++n) {
        const rank_maps maps = test::any_maps(n);
        for (int coll = EF_ALLREDUCE; coll <= EF_BROADCAST; ++coll)
            for (bool in_place : {false, true}) {
                plan_request r;
                r.maps = &maps;
                r.coll = ef_collective_t(coll);
                r.nranks = n;
                r.in_place = in_place;
                const std::vector<rank_t> roots = coll == EF_BROADCAST
                                                      ? std::vector<rank_t>{0, n / 2, n - 1}
                                                      : std::vector<rank_t>{0};
                for (rank_t root : roots) {
                    r.root = root;
                    if (!a.accepts(r)) continue;
                    const status s = check(a, r);
                    ASSERT_TRUE(s.ok()) << describe(a.name, r) << ": " << s.text();
                    ++proved;
                }
            }
    }
    // One host only: nothing for a hierarchy to do.
    EXPECT_GE(proved, a.name.starts_with("hierarchical") ? 0 : 60);
}

// Equal hosts, unequal ones, ranks dealt to hosts like cards, and a host for each rank.
std::vector<std::vector<int>> layouts() {
    std::vector<std::vector<int>> all;
    for (int hosts : {2, 3, 4, 8})
        for (int each : {1, 2, 3, 4, 8}) {
            std::vector<int> blocked, dealt;
            for (int i = 0; i < hosts * each; ++i) {
                blocked.push_back(i / each);
                dealt.push_back(i % hosts);
            }
            all.push_back(blocked);
            all.push_back(dealt);
        }
    all.push_back({0, 0, 0, 1});
    all.push_back({0, 1, 1, 1, 2, 2});
    all.push_back({2, 0, 1, 0, 2, 1, 0});
    all.push_back({0, 0, 0, 0, 0, 1, 2, 3, 3});
    return all;
}

TEST_P(every_plan, is_right_wherever_the_ranks_sit) {
    const algorithm& a = *find_algorithm(GetParam());
    int proved = 0;
    for (const std::vector<int>& layout : layouts()) {
        const rank_maps maps = test::any_maps(rank_t(layout.size()), layout);
        for (int coll = EF_ALLREDUCE; coll <= EF_BROADCAST; ++coll)
            for (bool in_place : {false, true}) {
                plan_request r;
                r.coll = ef_collective_t(coll);
                r.nranks = rank_t(layout.size());
                r.root = r.nranks / 2;
                r.in_place = in_place;
                r.host_of = layout;
                r.maps = &maps;
                if (!a.accepts(r)) continue;
                const status s = check(a, r);
                ASSERT_TRUE(s.ok()) << describe(a.name, r) << ": " << s.text();
                ++proved;
            }
    }
    EXPECT_GT(proved, 10);
}

// Ranks of one call may differ in it, so what they send each other must not.
TEST_P(every_plan, sends_the_same_whether_in_place_or_not) {
    const algorithm& a = *find_algorithm(GetParam());
    std::vector<std::vector<int>> hosts = layouts();
    for (size_t n = 1; n <= 17; ++n) hosts.emplace_back(n, 0);
    for (const std::vector<int>& layout : hosts) {
        const rank_maps maps = test::any_maps(rank_t(layout.size()), layout);
        for (int coll = EF_ALLREDUCE; coll <= EF_BROADCAST; ++coll)
            for (rank_t rank = 0; rank < rank_t(layout.size()); ++rank) {
                plan_request r;
                r.maps = &maps;
                r.coll = ef_collective_t(coll);
                r.nranks = rank_t(layout.size());
                r.rank = rank;
                r.host_of = layout;
                if (!a.accepts(r)) continue;
                const plan apart = a.build(r);
                r.in_place = true;
                const plan in_place = a.build(r);
                EXPECT_EQ(apart.turn, in_place.turn);
                EXPECT_EQ(apart.eager, in_place.eager);
                EXPECT_EQ(apart.all_rounds, in_place.all_rounds);
                EXPECT_EQ(apart.nblocks, in_place.nblocks);
                const auto messages = [](const plan& p) {
                    std::string all;
                    for (const move& m : p.moves) {
                        move bare = m;
                        bare.src = bare.dst = buffer::out;
                        bare.message_first = false;
                        if (m.peer >= 0) all += text_of(bare) + "\n";
                    }
                    return all;
                };
                ASSERT_EQ(messages(apart), messages(in_place))
                    << describe(a.name, r) << ", rank " << rank;
            }
    }
}

std::vector<std::string_view> names() {
    std::vector<std::string_view> out;
    for (const algorithm& a : algorithms()) out.push_back(a.name);
    return out;
}

INSTANTIATE_TEST_SUITE_P(algorithms, every_plan, testing::ValuesIn(names()), [](const auto& of) {
    std::string name(of.param);
    std::replace_if(
        name.begin(), name.end(), [](char c) { return !isalnum(static_cast<unsigned char>(c)); },
        '_');
    return name;
});

// ---------------------------------------------------------------- faults

// Four ranks of `algorithm` after `spoil` has had rank 2's plan.
status check_spoiled(std::string_view algorithm_name, const std::function<void(plan&)>& spoil,
                     ef_collective_t coll = EF_ALLREDUCE) {
    const algorithm& a = *find_algorithm(algorithm_name);
    plan_request r;
    r.coll = coll;
    r.nranks = 4;
    return check_plans(r, [&](rank_t rank) {
        plan_request mine = r;
        mine.rank = rank;
        plan p = a.build(mine);
        if (rank == 2) spoil(p);
        return p;
    });
}

size_t first(const plan& p, move_kind k) {
    return size_t(
        std::find_if(p.moves.begin(), p.moves.end(), [&](const move& m) { return m.kind == k; }) -
        p.moves.begin());
}

void expect_fault(const status& s, const char* word) {
    ASSERT_FALSE(s.ok()) << "the fault was not seen";
    EXPECT_EQ(s.code(), EF_INVALID);
    const std::string text(s.text());
    EXPECT_NE(text.find("rank"), std::string::npos) << text;
    EXPECT_NE(text.find(word), std::string::npos) << text;
}

TEST(plan_check, sees_a_send_that_is_missing) {
    expect_fault(check_spoiled("ring",
                               [](plan& p) {
                                   p.moves.erase(p.moves.begin() + long(first(p, move_kind::send)));
                               }),
                 "rank 2");
}

TEST(plan_check, sees_a_receive_that_is_missing) {
    expect_fault(check_spoiled("ring",
                               [](plan& p) {
                                   p.moves.erase(p.moves.begin() + long(first(p, move_kind::recv)));
                               }),
                 "rank 2");
}

TEST(plan_check, sees_a_wrong_block) {
    expect_fault(check_spoiled("ring",
                               [](plan& p) {
                                   move& m = p.moves[first(p, move_kind::send)];
                                   m.what.first = (m.what.first + 1) % p.nblocks;
                               }),
                 "meets rank");
}

TEST(plan_check, sees_a_contribution_that_counts_twice) {
    expect_fault(check_spoiled("halving_doubling",
                               [](plan& p) {
                                   move again = p.moves[first(p, move_kind::recv_reduce)];
                                   again.kind = move_kind::reduce;
                                   again.src = buffer::in;
                                   again.peer = -1;
                                   again.last = false;
                                   p.moves.insert(
                                       p.moves.begin() + long(first(p, move_kind::recv_reduce)) + 1,
                                       again);
                               }),
                 "twice");
}

TEST(plan_check, sees_a_read_of_what_nobody_has_written) {
    expect_fault(check_spoiled(
                     "ring", [](plan& p) { p.moves[first(p, move_kind::send)].src = buffer::tmp; }),
                 "no value");
}

TEST(plan_check, sees_an_average_that_is_forgotten_or_taken_too_early) {
    expect_fault(check_spoiled("ring",
                               [](plan& p) {
                                   for (move& m : p.moves) m.last = false;
                               }),
                 "without saying so");
    expect_fault(
        check_spoiled("ring",
                      [](plan& p) { p.moves[first(p, move_kind::recv_reduce)].last = true; }),
        "not complete");
}

TEST(plan_check, sees_that_ranks_combine_in_different_orders) {
    expect_fault(check_spoiled("direct",
                               [](plan& p) {
                                   p.moves[first(p, move_kind::recv_reduce)].message_first ^= true;
                               }),
                 "another order");
}

TEST(plan_check, sees_a_block_that_the_callers_buffer_does_not_hold) {
    const auto partials_into_out = [](plan& p) {
        for (move& m : p.moves) {
            if (m.dst == buffer::tmp) m.dst = buffer::out;
            if (m.src == buffer::tmp) m.src = buffer::out;
        }
    };
    expect_fault(check_spoiled("ring", partials_into_out, EF_REDUCE_SCATTER), "out does not hold");
    const auto from_in = [](plan& p) {
        for (move& m : p.moves)
            if (m.kind == move_kind::send) m.src = buffer::in;
    };
    expect_fault(check_spoiled("ring", from_in, EF_ALLGATHER), "in does not hold");
}

TEST(plan_check, sees_a_write_to_the_callers_send_buffer) {
    expect_fault(
        check_spoiled("ring", [](plan& p) { p.moves[first(p, move_kind::recv)].dst = buffer::in; }),
        "writes to in");
}

TEST(plan_check, sees_a_result_that_is_never_written) {
    expect_fault(check_spoiled("pairwise",
                               [](plan& p) {
                                   for (move& m : p.moves)
                                       if (m.kind == move_kind::recv) m.dst = buffer::tmp;
                               }),
                 "missing");
}

TEST(plan_check, sees_that_an_exchange_in_place_needs_a_buffer) {
    // Each sends its block and overwrites it with the other's: without a copy neither can begin.
    const auto build = [](bool eager) {
        return [eager](rank_t rank) {
            plan p;
            p.rank = rank;
            p.nranks = 2;
            p.nblocks = 1;
            p.rounds = 1;
            p.eager = eager;
            p.moves = {
                {move_kind::send, buffer::out, buffer::in, false, false, 1 - rank, 0, {0, 1}},
                {move_kind::recv_reduce,
                 buffer::out,
                 buffer::in,
                 rank == 1,
                 true,
                 1 - rank,
                 0,
                 {0, 1}}};
            return p;
        };
    };
    plan_request r;
    r.nranks = 2;
    r.in_place = true;
    EXPECT_TRUE(check_plans(r, build(true)).ok()) << check_plans(r, build(true)).text();
    const status s = check_plans(r, build(false));
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.text().find("deadlock"), std::string::npos) << s.text();
    r.in_place = false;
    EXPECT_TRUE(check_plans(r, build(false)).ok());
}

}  // namespace
}  // namespace ef
