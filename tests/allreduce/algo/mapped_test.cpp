// The algorithms that run in an order of the fabric, on numbers: plans of all ranks carried out in one
// thread by the dullest interpreter that can be right, for 2 to 64 ranks and odd counts. (That they
// are right for any operation and free of deadlock is plan_check_test's.)
#include "allreduce/algo/algorithm.hpp"
#include "tests/support/orders.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace ef {
namespace {

// One rank. Every buffer spans the whole vector here; what a rank may touch is plan_check's business.
template <class T>
struct actor {
    plan p;
    std::vector<T> memory[3];  // by buffer
    size_t at = 0;             // next move
};

template <class T>
class interpreter {
public:
    interpreter(const algorithm& a, plan_request r, size_t count) : count_(count) {
        for (r.rank = 0; r.rank < r.nranks; ++r.rank) {
            actors_.emplace_back();
            actors_.back().p = a.build(r);
            for (auto& m : actors_.back().memory) m.assign(count, T(-1));
        }
    }

    std::vector<T>& in(rank_t r) { return actors_[size_t(r)].memory[size_t(buffer::in)]; }
    const std::vector<T>& out(rank_t r) { return actors_[size_t(r)].memory[size_t(buffer::out)]; }
    size_t begin(uint32_t block) const {
        return block_begin(actors_[0].p, count_, sizeof(T), block);
    }

    /// Moves in the order of each rank's list; sends are copied. False: nobody can go on.
    bool run() {
        for (bool moved = true; moved;) {
            moved = false;
            for (actor<T>& a : actors_)
                while (a.at < a.p.moves.size() && step(a, a.p.moves[a.at])) {
                    ++a.at;
                    moved = true;
                }
        }
        return std::all_of(actors_.begin(), actors_.end(),
                           [](const actor<T>& a) { return a.at == a.p.moves.size(); });
    }

private:
    bool step(actor<T>& a, const move& m) {
        const size_t from = begin(m.what.first), n = begin(m.what.end()) - from;
        T* dst = a.memory[size_t(m.dst)].data() + from;
        const T* src = a.memory[size_t(m.src)].data() + from;
        if (m.kind == move_kind::send) {
            wire_[{a.p.rank, m.peer}].emplace_back(src, src + n);
            return true;
        }
        std::vector<T> message(src, src + n);
        if (m.peer >= 0) {
            auto& queue = wire_[{m.peer, a.p.rank}];
            if (queue.empty()) return false;
            message = std::move(queue.front());
            queue.pop_front();
        }
        EXPECT_EQ(message.size(), n);
        const bool reduces = m.kind == move_kind::recv_reduce || m.kind == move_kind::reduce;
        const T* own = m.kind == move_kind::reduce ? dst : src;
        for (size_t i = 0; i < n; ++i) dst[i] = reduces ? own[i] + message[i] : message[i];
        return true;
    }

    size_t count_;
    std::vector<actor<T>> actors_;
    std::map<std::pair<rank_t, rank_t>, std::deque<std::vector<T>>> wire_;
};

int64_t contribution(rank_t r, size_t i) { return int64_t(i + 1) * 1000 + r * r + 1; }

const char* const mapped[] = {"hdrm", "eulerian_ring", "halving_doubling:far"};

std::string describe(const char* name, const plan_request& r, size_t count) {
    return std::string(name) + ", collective " + std::to_string(r.coll) + ", " +
           std::to_string(r.nranks) + " ranks, " + std::to_string(count) + " elements";
}

TEST(Mapped, AllreducesAreExactOnIntegersForUpTo64RanksAndOddCounts) {
    for (const char* name : mapped)
        for (rank_t n = 2; n <= 64; ++n) {
            const rank_maps maps = test::any_maps(n);
            plan_request r;
            r.nranks = n;
            r.maps = &maps;
            ASSERT_TRUE(find_algorithm(name)->accepts(r)) << describe(name, r, 0);
            for (const size_t count : {size_t(1), size_t(n) - 1, size_t(n) + 1, size_t(1009)}) {
                interpreter<int64_t> job(*find_algorithm(name), r, count);
                std::vector<int64_t> sum(count, 0);
                for (rank_t v = 0; v < n; ++v)
                    for (size_t i = 0; i < count; ++i) sum[i] += job.in(v)[i] = contribution(v, i);
                ASSERT_TRUE(job.run()) << describe(name, r, count);
                for (rank_t v = 0; v < n; ++v)
                    ASSERT_EQ(job.out(v), sum) << describe(name, r, count) << ", rank " << v;
            }
        }
}

TEST(Mapped, AllreducesOfFloatsHaveTheSameBitsOnAllRanks) {
    for (const char* name : mapped)
        for (const rank_t n : {2, 3, 7, 12, 16, 33, 64}) {
            const rank_maps maps = test::any_maps(n);
            plan_request r;
            r.nranks = n;
            r.maps = &maps;
            const size_t count = 777;
            interpreter<float> job(*find_algorithm(name), r, count);
            std::vector<double> sum(count, 0);
            for (rank_t v = 0; v < n; ++v)
                for (size_t i = 0; i < count; ++i)
                    sum[i] += job.in(v)[i] = 1.0f / float(contribution(v, i));
            ASSERT_TRUE(job.run());
            for (rank_t v = 0; v < n; ++v) {
                ASSERT_EQ(std::memcmp(job.out(v).data(), job.out(0).data(), count * sizeof(float)),
                          0)
                    << describe(name, r, count) << ", rank " << v;
                for (size_t i = 0; i < count; ++i)
                    ASSERT_NEAR(job.out(v)[i], sum[i], sum[i] * 1e-5);
            }
        }
}

TEST(Mapped, HalvesLeaveEachRankWithItsOwnBlockWhateverTheOrder) {
    int served = 0;
    for (const char* name : mapped)
        for (const ef_collective_t coll : {EF_REDUCE_SCATTER, EF_ALLGATHER})
            for (rank_t n = 2; n <= 64; ++n) {
                const rank_maps maps = test::any_maps(n);
                plan_request r;
                r.coll = coll;
                r.nranks = n;
                r.maps = &maps;
                if (!find_algorithm(name)->accepts(r)) continue;
                ++served;
                const size_t each = 3, count = each * size_t(n);
                interpreter<int64_t> job(*find_algorithm(name), r, count);
                for (rank_t v = 0; v < n; ++v)
                    for (size_t i = 0; i < count; ++i)
                        if (coll == EF_REDUCE_SCATTER || i / each == size_t(v))
                            job.in(v)[i] = contribution(v, i);
                ASSERT_TRUE(job.run()) << describe(name, r, count);
                for (rank_t v = 0; v < n; ++v)
                    for (size_t i = 0; i < count; ++i) {
                        if (coll == EF_REDUCE_SCATTER && i / each != size_t(v)) continue;
                        int64_t expected = contribution(rank_t(i / each), i);
                        if (coll == EF_REDUCE_SCATTER) {
                            expected = 0;
                            for (rank_t w = 0; w < n; ++w) expected += contribution(w, i);
                        }
                        ASSERT_EQ(job.out(v)[i], expected)
                            << describe(name, r, count) << ", rank " << v << ", element " << i;
                    }
            }
    EXPECT_GT(served, 2 * 63);
}

TEST(Mapped, ExtrasTakeTurnsAtACorePositionThatHasSeveral) {
    rank_maps maps;
    maps.halving.order = {6, 5, 4, 3, 2, 1, 0};
    maps.halving.core = 4;
    maps.halving.fold = {1, 1, 1};
    plan_request r;
    r.nranks = 7;
    r.maps = &maps;
    const algorithm& hdrm = *find_algorithm("hdrm");
    const auto rounds_with = [&](rank_t rank, rank_t peer) {
        r.rank = rank;
        std::vector<uint32_t> rounds;
        for (const move& m : hdrm.build(r).moves)
            if (m.peer == peer) rounds.push_back(m.round);
        return rounds;
    };
    // Rank 5 is position 1; its extras are ranks 2, 1 and 0.
    EXPECT_EQ(rounds_with(5, 2), (std::vector<uint32_t>{0, 7}));
    EXPECT_EQ(rounds_with(5, 1), (std::vector<uint32_t>{1, 8}));
    EXPECT_EQ(rounds_with(0, 5), (std::vector<uint32_t>{2, 9}));
    r.rank = 6;
    EXPECT_EQ(hdrm.build(r).moves.front().round, 3u);
    EXPECT_EQ(hdrm.build(r).all_rounds, 10u);
}

TEST(Mapped, AlgorithmsServeNobodyWithoutAnOrder) {
    const rank_maps none;
    const std::vector<int> hosts = {0, 0, 1, 1};
    for (const char* name :
         {"hdrm", "eulerian_ring", "hierarchical:hdrm", "hierarchical:eulerian_ring"})
        for (const rank_maps* maps : {static_cast<const rank_maps*>(nullptr), &none})
            for (int coll = EF_ALLREDUCE; coll <= EF_BROADCAST; ++coll) {
                plan_request r;
                r.coll = ef_collective_t(coll);
                r.nranks = 4;
                r.host_of = hosts;
                r.maps = maps;
                EXPECT_FALSE(find_algorithm(name)->accepts(r)) << name;
            }
}

}  // namespace
}  // namespace ef
