// Rounds kept apart, held against a network that delivers when it likes: all ranks in one thread,
// moved in random order, over queues that record who sent what while what was still on its way.
#include "allreduce/sync.hpp"

#include "allreduce/algo/algorithm.hpp"
#include "allreduce/exec.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <random>

namespace ef {
namespace {

constexpr size_t block = 1024;  // bytes of a message of data; tokens are shorter

struct parcel {
    uint64_t tag;
    std::vector<std::byte> data;
    bool arrived = false;
};

// What the rule is about: data that has been sent and not yet consumed, by sender and receiver.
struct network {
    std::mt19937 random;
    std::vector<std::vector<int>> on_its_way;  // [from][to]: messages of data
    std::vector<int> entered;                  // by rank: rounds in which it has sent data
    int most_out_of_round = 0;
    std::function<void(int from, int to)> on_send;
    explicit network(int n, unsigned seed)
        : random(seed), on_its_way(size_t(n), std::vector<int>(size_t(n))), entered(size_t(n)) {}
};

class queue_channel : public channel {
public:
    queue_channel(network& n, int me, int peer) : net_(n), me_(me), peer_(peer) {}
    void pair_with(queue_channel& other) { other_ = &other; }

    bool send(uint64_t tag, const std::byte* data, size_t bytes, ownership) noexcept override {
        if (other_->queue_.size() >= 3) return false;
        parcel p{tag, std::vector<std::byte>(data, data + bytes)};
        if (bytes > token_bytes) {
            net_.on_send(me_, peer_);
            ++net_.on_its_way[size_t(me_)][size_t(peer_)];
        }
        other_->queue_.push_back(std::move(p));
        ++sent_;
        return true;
    }
    uint64_t sent() const noexcept override { return sent_; }
    uint64_t completed() noexcept override { return sent_; }  // as a socket: the kernel has it
    bool peek(message& m) noexcept override {
        if (queue_.empty()) return false;
        parcel& p = queue_.front();
        if (!p.arrived && net_.random() % 4) return false;
        p.arrived = true;
        m = {p.tag, p.data.size(), p.data.data()};
        return true;
    }
    size_t fetch(std::byte*) noexcept override { return 0; }
    void release() noexcept override {
        if (queue_.front().data.size() > token_bytes) --net_.on_its_way[size_t(peer_)][size_t(me_)];
        queue_.pop_front();
    }
    bool progress() noexcept override { return false; }
    const status& error() const noexcept override { return fine_; }
    size_t max_message() const noexcept override { return block; }
    size_t max_copy() const noexcept override { return block; }
    const std::string& medium() const noexcept override { return medium_; }

private:
    network& net_;
    int me_, peer_;
    queue_channel* other_ = nullptr;
    std::deque<parcel> queue_;
    uint64_t sent_ = 0;
    status fine_;
    std::string medium_ = "queue";
};

void add(void* d, const void* a, const void* b, size_t n) noexcept {
    for (size_t i = 0; i < n; ++i)
        static_cast<int64_t*>(d)[i] =
            static_cast<const int64_t*>(a)[i] + static_cast<const int64_t*>(b)[i];
}

// One allreduce of n ranks over such a network. Returns how often a rank sent data while data of
// its own was on its way to somebody else, and while anybody's data was on its way between two
// others.
struct overlaps {
    int of_own = 0, of_others = 0;
};

overlaps run(std::string_view algorithm, int n, sync_policy sync, unsigned seed) {
    network net(n, seed);
    overlaps seen;
    std::vector<std::vector<std::unique_ptr<queue_channel>>> channels(static_cast<size_t>(n));
    for (auto& row : channels) row.resize(size_t(n));
    for (int a = 0; a < n; ++a)
        for (int b = 0; b < n; ++b)
            if (a != b) channels[size_t(a)][size_t(b)] = std::make_unique<queue_channel>(net, a, b);
    for (int a = 0; a < n; ++a)
        for (int b = 0; b < n; ++b)
            if (a != b) channels[size_t(a)][size_t(b)]->pair_with(*channels[size_t(b)][size_t(a)]);

    const size_t count = size_t(n) * 4 * block / sizeof(int64_t);
    std::vector<program> programs;
    std::vector<std::vector<channel*>> rows(static_cast<size_t>(n));
    std::vector<std::vector<int64_t>> in(static_cast<size_t>(n)), out(static_cast<size_t>(n));
    std::vector<std::unique_ptr<exec>> engines;
    std::vector<plan> plans;
    for (int r = 0; r < n; ++r) {
        plan_request request;
        request.rank = r;
        request.nranks = n;
        plans.push_back(find_algorithm(algorithm)->build(request));
        plans.back().sync = sync;
        programs.push_back(compile(plans.back(), count, sizeof(int64_t), false, block));
        in[size_t(r)].assign(count, 1 << r);
        out[size_t(r)].resize(count);
        for (auto& c : channels[size_t(r)]) rows[size_t(r)].push_back(c.get());
    }
    for (int r = 0; r < n; ++r) {
        exec_call c;
        c.prog = &programs[size_t(r)];
        c.in = reinterpret_cast<std::byte*>(in[size_t(r)].data());
        c.out = reinterpret_cast<std::byte*>(out[size_t(r)].data());
        c.element_bytes = sizeof(int64_t);
        c.reduce = add;
        c.rank = r;
        c.nranks = uint32_t(n);
        c.chunk_bytes = block;
        c.tag = 5;
        engines.push_back(std::make_unique<exec>(rows[size_t(r)]));
        engines.back()->start(c);
    }
    net.on_send = [&](int from, int to) {
        for (int a = 0; a < n; ++a)
            for (int b = 0; b < n; ++b) {
                if (!net.on_its_way[size_t(a)][size_t(b)]) continue;
                if (a == from && b != to) ++seen.of_own;
                // In a round of exchanges every other pair is either this one or disjoint from it.
                if (a != from && b != to && (a == to) != (b == from)) ++seen.of_others;
            }
    };
    const auto all_done = [&] {
        for (auto& e : engines)
            if (!e->done()) return false;
        return true;
    };
    for (int turns = 0; !all_done(); ++turns) {
        exec& e = *engines[net.random() % size_t(n)];
        e.advance();
        EXPECT_TRUE(e.error().ok()) << e.error().text();
        if (!e.error().ok() || turns > 5'000'000) {
            ADD_FAILURE() << algorithm << " on " << n << " ranks comes to no end, seed " << seed;
            return seen;
        }
    }
    for (int r = 0; r < n; ++r)
        for (int64_t v : out[size_t(r)])
            if (v != (int64_t(1) << n) - 1) {
                ADD_FAILURE() << "rank " << r << ": a wrong sum " << v;
                return seen;
            }
    return seen;
}

TEST(Sync, WithoutItARankThatRunsAheadHasDataOfTwoRoundsOnTheWay) {
    overlaps all;
    for (unsigned seed = 1; seed <= 10; ++seed) {
        const overlaps o = run("halving_doubling", 8, sync_policy::none, seed);
        all.of_own += o.of_own;
        all.of_others += o.of_others;
    }
    EXPECT_GT(all.of_own, 0);
    EXPECT_GT(all.of_others, 0);
}

TEST(Sync, InPairsARankNeverHasDataOfTwoRoundsOnTheWayNorIsItsPartnerBusyElsewhere) {
    for (unsigned seed = 1; seed <= 10; ++seed)
        for (int n : {2, 4, 8, 16}) {
            const overlaps o = run("halving_doubling", n, sync_policy::pair, seed);
            EXPECT_EQ(o.of_own, 0) << n << " ranks, seed " << seed;
            EXPECT_EQ(o.of_others, 0) << n << " ranks, seed " << seed;
        }
}

TEST(Sync, BehindABarrierNothingOfAnEarlierRoundIsOnItsWay) {
    for (unsigned seed = 1; seed <= 10; ++seed)
        for (int n : {2, 4, 8}) {
            const overlaps o = run("halving_doubling", n, sync_policy::barrier, seed);
            EXPECT_EQ(o.of_own + o.of_others, 0) << n << " ranks, seed " << seed;
        }
}

TEST(Sync, ComesToAnEndForAnyNumberOfRanksAndAnyPlan) {
    for (const algorithm& a : algorithms())
        for (int n : {2, 3, 5, 6, 7, 9}) {
            plan_request request;
            request.nranks = n;
            if (!a.accepts(request) || a.build(request).eager) continue;
            for (sync_policy s : {sync_policy::pair, sync_policy::barrier})
                run(a.name, n, s, unsigned(n));
        }
}

TEST(Sync, AddsTwoTokensEachWayPerPairAndRoundAndNothingWhereItIsNotAskedFor) {
    plan_request request;
    request.nranks = 8;
    plan p = find_algorithm("halving_doubling")->build(request);
    const size_t bare = compile(p, 8192, 4, false, 65536).steps.size();
    p.sync = sync_policy::pair;
    EXPECT_EQ(compile(p, 8192, 4, false, 65536).steps.size(), bare + 6 * 4);
    p.sync = sync_policy::barrier;
    EXPECT_EQ(compile(p, 8192, 4, false, 65536).steps.size(), bare + 6 * 3 * 2);
}

}  // namespace
}  // namespace ef
