// What an algorithm declares of its plans (symmetry, order, rounds of all ranks) is held to the plans.
#include "allreduce/algo/algorithm.hpp"
#include "tests/support/orders.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace ef {
namespace {

// By round and offset of the peer's position: blocks sent.
using sends = std::map<std::pair<uint32_t, rank_t>, uint32_t>;

sends sends_of(const plan& p, const rank_order* order, symmetry s) {
    const auto position = [&](rank_t r) { return order ? order->position_of(r) : r; };
    sends out;
    const rank_t v = position(p.rank);
    for (const move& m : p.moves) {
        if (m.kind != move_kind::send) continue;
        const rank_t w = position(m.peer);
        const rank_t d = s == symmetry::rotation ? (w - v + p.nranks) % p.nranks : w ^ v;
        out[{m.round, d}] += m.what.count;
    }
    return out;
}

std::vector<rank_t> some_counts() {
    std::vector<rank_t> all;
    for (rank_t n = 1; n <= 33; ++n) all.push_back(n);
    all.push_back(64);
    all.push_back(128);
    return all;
}

TEST(Symmetry, IsThatOfThePlansWhereverItIsDeclared) {
    std::map<std::string_view, int> seen;
    for (const algorithm& a : algorithms())
        for (const rank_t n : some_counts())
            for (int coll = EF_ALLREDUCE; coll <= EF_BROADCAST; ++coll) {
                const rank_maps maps = test::any_maps(n);
                plan_request r;
                r.coll = ef_collective_t(coll);
                r.nranks = n;
                r.maps = &maps;
                if (!a.accepts(r) || !a.symmetric) continue;
                const symmetry s = a.symmetric(r);
                if (s == symmetry::none) continue;
                const rank_order* order = a.order ? a.order(r) : nullptr;
                const sends first = sends_of(a.build(r), order, s);
                for (r.rank = 1; r.rank < n; ++r.rank)
                    ASSERT_EQ(sends_of(a.build(r), order, s), first)
                        << a.name << ", collective " << coll << ", rank " << r.rank << " of " << n;
                ++seen[a.name];
            }
    for (const char* name : {"ring", "pairwise", "direct", "halving_doubling",
                             "halving_doubling:far", "doubling", "hdrm", "eulerian_ring"})
        EXPECT_GE(seen[name], 3) << name << " declares none";
}

TEST(Symmetry, IsNotDeclaredWhereExtrasFold) {
    const rank_maps maps = test::any_maps(12);
    plan_request r;
    r.nranks = 12;
    r.maps = &maps;
    for (const char* name : {"halving_doubling", "halving_doubling:far", "doubling", "hdrm"}) {
        ASSERT_TRUE(find_algorithm(name)->accepts(r)) << name;
        EXPECT_EQ(find_algorithm(name)->symmetric(r), symmetry::none) << name;
    }
}

// A barrier between rounds hangs if one rank counts more rounds than another.
TEST(Plans, ThatKeepTheirRoundsApartCountTheSameRoundsOnAllRanks) {
    std::vector<std::vector<int>> layouts = {{0, 0, 0, 1},          {0, 1, 1, 1, 2, 2},
                                             {2, 0, 1, 0, 2, 1, 0}, {0, 0, 0, 0, 0, 1, 2, 3, 3},
                                             {0, 0, 1, 1, 2, 2},    {0, 1, 2, 3, 0, 1, 2, 3}};
    for (int n = 1; n <= 33; ++n) layouts.emplace_back(size_t(n), 0);
    std::map<std::string_view, int> seen;
    for (const algorithm& a : algorithms())
        for (const std::vector<int>& layout : layouts)
            for (int coll = EF_ALLREDUCE; coll <= EF_BROADCAST; ++coll)
                for (sync_policy sync : {sync_policy::pair, sync_policy::barrier}) {
                    const rank_maps maps = test::any_maps(rank_t(layout.size()), layout);
                    plan_request r;
                    r.coll = ef_collective_t(coll);
                    r.nranks = rank_t(layout.size());
                    r.host_of = layout;
                    r.maps = &maps;
                    r.sync = sync;
                    if (!a.accepts(r)) continue;
                    const plan first = a.build(r);
                    if (first.sync == sync_policy::none) continue;
                    ASSERT_EQ(first.sync, sync);
                    for (r.rank = 0; r.rank < r.nranks; ++r.rank)
                        for (const bool in_place : {false, true}) {
                            r.in_place = in_place;
                            const plan p = a.build(r);
                            ASSERT_EQ(p.sync, sync) << a.name;
                            ASSERT_EQ(p.all_rounds, first.all_rounds)
                                << a.name << ", rank " << r.rank << " of " << r.nranks;
                        }
                    ++seen[a.name];
                }
    for (const char* name :
         {"halving_doubling", "halving_doubling:far", "hdrm", "eulerian_ring",
          "hierarchical:halving_doubling", "hierarchical:hdrm", "hierarchical:eulerian_ring"})
        EXPECT_GE(seen[name], 6) << name << " does not keep its rounds apart";
}

}  // namespace
}  // namespace ef
