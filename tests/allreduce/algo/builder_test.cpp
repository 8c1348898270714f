#include "allreduce/algo/builder.hpp"

#include "allreduce/algo/algorithm.hpp"
#include "tests/support/orders.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <random>

namespace ef::algo {
namespace {

TEST(BlockPlaces, AgreeWithAByteForEachBlock) {
    for (unsigned seed = 1; seed <= 200; ++seed) {
        std::mt19937 random(seed);
        const uint32_t n = 1 + uint32_t(random() % 40);
        std::vector<buffer> dull(n, buffer::in);
        block_places places(n, buffer::in);
        for (int step = 0; step < 60; ++step) {
            const uint32_t first = uint32_t(random() % n);
            const block_range b{first, uint32_t(random() % (n - first + 1))};
            const buffer to = buffer(random() % 3);
            places.set(b, to);
            std::fill_n(dull.begin() + b.first, b.count, to);
            for (uint32_t i = 0; i < n; ++i) {
                ASSERT_EQ(places.at(i), dull[i]) << "seed " << seed << ", block " << i;
                const uint32_t end = i + 1 + uint32_t(random() % (n - i));
                uint32_t same = 1;
                while (i + same < end && dull[i + same] == dull[i]) ++same;
                const block_range run = places.run(i, end);
                ASSERT_EQ(run.first, i);
                ASSERT_EQ(run.count, same) << "seed " << seed << ", blocks " << i << " .. " << end;
            }
        }
    }
}

// What costs time in a plan is its moves: 4 lg P of them, and not its P blocks.
TEST(Plans, OfEveryOneOf65536RanksAreBuiltOneAfterAnother) {
    constexpr rank_t n = 65'536;
    std::mt19937 random(1);
    rank_maps maps;
    maps.halving = test::any_order(n, false, random);
    maps.halving.core = n;
    maps.halving.index();
    const algorithm& hdrm = *find_algorithm("hdrm");
    plan_request r;
    r.nranks = n;
    r.maps = &maps;
    ASSERT_TRUE(hdrm.accepts(r));
    uint64_t blocks = 0;
    for (r.rank = 0; r.rank < n; ++r.rank) {
        const plan p = hdrm.build(r);
        ASSERT_EQ(p.moves.size(), 64u);
        ASSERT_EQ(p.rounds, 32u);
        for (const move& m : p.moves)
            if (m.kind == move_kind::send) {
                blocks += m.what.count;
                const auto distance =
                    unsigned(maps.halving.position_of(r.rank) ^ maps.halving.position_of(m.peer));
                ASSERT_TRUE(std::has_single_bit(distance)) << "rank " << r.rank;
            }
    }
    EXPECT_EQ(blocks, uint64_t(n) * 2 * (n - 1));
}

TEST(Plans, OfALongRingAreBuiltInTheTimeOfTheirMoves) {
    plan_request r;
    r.nranks = 65'536;
    r.rank = 40'000;
    const plan p = find_algorithm("ring")->build(r);
    EXPECT_EQ(p.moves.size(), size_t(4) * 65'535);
    EXPECT_EQ(p.rounds, 2u * 65'535);
}

}  // namespace
}  // namespace ef::algo
