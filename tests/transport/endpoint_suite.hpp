// The rules of transport/endpoint.hpp as tests, for any implementation that can make a connected
// pair in one process. Loops give up after ten seconds.
#pragma once

#include "transport/base/clock.hpp"
#include "transport/endpoint.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace ef::rdma {

class pair_factory {
public:
    virtual ~pair_factory() = default;
    /// Two connected ends; a short RNR time (100 ms or less). Whatever they need lives as long as
    /// the factory.
    virtual void open(std::unique_ptr<endpoint> (&ends)[2]) = 0;
    virtual std::string name() const = 0;
};

class EndpointSuite : public testing::TestWithParam<std::shared_ptr<pair_factory>> {
protected:
    static constexpr size_t memory_bytes = 1 << 20;

    void SetUp() override {
        GetParam()->open(end_);
        for (int side = 0; side < 2; ++side) {
            ASSERT_TRUE(end_[side]);
            memory_[side].assign(memory_bytes / 8, 0);
            const auto r = end_[side]->enrol(at(side), memory_bytes);
            ASSERT_TRUE(r.ok()) << r.why().text();
            region_[side] = *r;
        }
    }
    void TearDown() override {
        for (auto& e : end_) e.reset();
    }

    std::byte* at(int side, size_t offset = 0) {
        return reinterpret_cast<std::byte*>(memory_[side].data()) + offset;
    }

    /// A work of side 0 on [offset, offset + bytes) of both sides' memory.
    work make(op what, uint64_t id, size_t local, size_t remote, size_t bytes) {
        work w;
        w.id = id;
        w.what = what;
        w.local = at(0, local);
        w.bytes = bytes;
        w.lkey = region_[0].lkey;
        w.remote_address = region_[1].address + remote;
        w.rkey = region_[1].rkey;
        return w;
    }
    receive room(int side, uint64_t id, size_t offset, size_t bytes) {
        return {id, at(side, offset), bytes, region_[side].lkey};
    }

    void collect() {
        for (int side = 0; side < 2; ++side) {
            end_[side]->progress();
            completion c[8];
            const size_t n = end_[side]->poll(c);
            done_[side].insert(done_[side].end(), c, c + n);
        }
    }
    template <class F>
    bool until(F&& ready) {
        for (const deadline d = deadline::in_ms(10'000); !ready(); collect())
            if (d.passed()) return false;
        return true;
    }
    bool post(const work& w) {
        return until([&] { return end_[0]->post({&w, 1}) == 1; });
    }
    /// Side `side` has `n` completions in all.
    bool completed(int side, size_t n) {
        return until([&] { return done_[side].size() >= n; });
    }
    void fill(int side, uint64_t seed) {
        for (size_t i = 0; i < memory_[side].size(); ++i)
            memory_[side][i] = (seed + i) * 0x9e3779b97f4a7c15;
    }
    bool failed(int side) {
        return until([&] { return !end_[side]->error().ok(); });
    }
    void expect_refused(outcome how) {
        ASSERT_TRUE(completed(0, 1));
        EXPECT_EQ(done_[0][0].how, how) << outcome_name(done_[0][0].how);
        EXPECT_TRUE(failed(0));
        EXPECT_NE(end_[0]->error().text().find(outcome_name(how)), std::string::npos)
            << end_[0]->error().text();
        work later = make(op::write, 99, 0, 0, 8);
        EXPECT_EQ(end_[0]->post({&later, 1}), 0u) << "a broken endpoint takes nothing";
    }

    std::unique_ptr<endpoint> end_[2];
    std::vector<uint64_t> memory_[2];
    region region_[2];
    std::vector<completion> done_[2];
};

TEST_P(EndpointSuite, WritesOfAnySizeLandWhereTheySay) {
    fill(0, 1);
    const size_t sizes[] = {1, 8, 104, 105, 4096, 70'000, 300'000};
    uint64_t id = 0;
    for (const size_t n : sizes) {
        ASSERT_TRUE(post(make(op::write, ++id, 0, 13, n)));
        ASSERT_TRUE(completed(0, id));
        EXPECT_EQ(done_[0].back().id, id);
        EXPECT_EQ(done_[0].back().how, outcome::ok);
        EXPECT_EQ(memcmp(at(0), at(1, 13), n), 0) << n << " bytes";
        EXPECT_EQ(*at(1, 13 + n), std::byte{0}) << "written behind the end of " << n << " bytes";
        memset(at(1), 0, memory_bytes);
    }
    EXPECT_TRUE(done_[1].empty()) << "a write is not seen by the target's poll";
}

TEST_P(EndpointSuite, WriteWithImmediateComesAfterTheWritesBeforeIt) {
    fill(0, 2);
    const receive r = room(1, 7, 0, 0);
    ASSERT_EQ(end_[1]->post_receive({&r, 1}), 1u);
    ASSERT_TRUE(post(make(op::write, 1, 0, 0, 200'000)));
    work last = make(op::write_imm, 2, 200'000, 200'000, 5000);
    last.imm = 0xfeedbeef;
    ASSERT_TRUE(post(last));
    ASSERT_TRUE(completed(1, 1));
    EXPECT_EQ(memcmp(at(0), at(1), 205'000), 0);
    EXPECT_EQ(done_[1][0].id, 7u);
    EXPECT_EQ(done_[1][0].what, op::receive_imm);
    EXPECT_EQ(done_[1][0].imm, 0xfeedbeefu);
    EXPECT_EQ(done_[1][0].bytes, 5000u);
    ASSERT_TRUE(completed(0, 2));
    EXPECT_EQ(done_[0][0].id, 1u);
    EXPECT_EQ(done_[0][1].id, 2u);
}

TEST_P(EndpointSuite, ReadsWhatWasWritten) {
    fill(0, 3);
    ASSERT_TRUE(post(make(op::write, 1, 0, 64, 300'000)));
    ASSERT_TRUE(post(make(op::read, 2, 400'000, 64, 300'000)));
    ASSERT_TRUE(completed(0, 2));
    EXPECT_EQ(done_[0][1].what, op::read);
    EXPECT_EQ(memcmp(at(0), at(0, 400'000), 300'000), 0);
}

TEST_P(EndpointSuite, SendsFillReceivesInOrder) {
    fill(0, 4);
    const receive two[] = {room(1, 1, 0, 200'000), room(1, 2, 200'000, 200'000)};
    ASSERT_EQ(end_[1]->post_receive(two), 2u);
    ASSERT_TRUE(post(make(op::send, 1, 0, 0, 150'000)));
    ASSERT_TRUE(post(make(op::send, 2, 150'000, 0, 3)));
    ASSERT_TRUE(completed(1, 2));
    EXPECT_EQ(done_[1][0].bytes, 150'000u);
    EXPECT_EQ(done_[1][1].bytes, 3u);
    EXPECT_EQ(done_[1][1].what, op::receive);
    EXPECT_EQ(memcmp(at(0), at(1), 150'000), 0);
    EXPECT_EQ(memcmp(at(0, 150'000), at(1, 200'000), 3), 0);
}

TEST_P(EndpointSuite, AtomicsReturnTheOldValueAndChangeTheCell) {
    memory_[1][3] = 40;
    work add = make(op::fetch_add, 1, 0, 24, 8);
    add.operand = 2;
    ASSERT_TRUE(post(add));
    work swap = make(op::compare_swap, 2, 8, 24, 8);
    swap.compare = 42;
    swap.operand = 7;
    ASSERT_TRUE(post(swap));
    swap.id = 3, swap.local = at(0, 16), swap.compare = 1000;  // does not match
    ASSERT_TRUE(post(swap));
    ASSERT_TRUE(completed(0, 3));
    EXPECT_EQ(memory_[0][0], 40u);
    EXPECT_EQ(memory_[0][1], 42u);
    EXPECT_EQ(memory_[0][2], 7u);
    EXPECT_EQ(memory_[1][3], 7u);
}

TEST_P(EndpointSuite, ZeroBytesAreAWorkLikeAnyOther) {
    const receive r[] = {room(1, 1, 0, 0), room(1, 2, 0, 0)};
    ASSERT_EQ(end_[1]->post_receive(r), 2u);
    ASSERT_TRUE(post(make(op::write, 1, 0, 0, 0)));
    ASSERT_TRUE(post(make(op::write_imm, 2, 0, 0, 0)));
    ASSERT_TRUE(post(make(op::send, 3, 0, 0, 0)));
    ASSERT_TRUE(post(make(op::read, 4, 0, 0, 0)));
    ASSERT_TRUE(completed(0, 4));
    ASSERT_TRUE(completed(1, 2));
    for (const completion& c : done_[0]) EXPECT_EQ(c.how, outcome::ok);
}

TEST_P(EndpointSuite, InlinedDataMayChangeAsSoonAsPostReturns) {
    fill(0, 5);
    std::byte data[64];
    memcpy(data, at(0), 64);
    work w = make(op::write, 1, 0, 0, 64);
    w.local = data;
    w.lkey = 0;
    w.inlined = true;
    ASSERT_GE(end_[0]->bounds().max_inline, 64u);
    ASSERT_EQ(end_[0]->post({&w, 1}), 1u);
    memset(data, 0, sizeof data);
    ASSERT_TRUE(completed(0, 1));
    EXPECT_EQ(memcmp(at(0), at(1), 64), 0);
}

TEST_P(EndpointSuite, UnsignalledWorksMakeNoCompletionsAndNeverFillTheQueue) {
    work w = make(op::write, 0, 0, 0, 8);
    w.signalled = false;
    const size_t many = 5 * end_[0]->bounds().max_outstanding;
    for (size_t i = 0; i < many; ++i) {
        w.id = i;
        w.signalled = i % 64 == 63;  // as a native queue needs it
        ASSERT_TRUE(post(w)) << i;
    }
    ASSERT_TRUE(completed(0, many / 64));
    EXPECT_EQ(done_[0].size(), many / 64);
    EXPECT_EQ(done_[0].back().id, many / 64 * 64 - 1);
}

TEST_P(EndpointSuite, AFullQueueTakesNoMoreUntilItIsPolled) {
    const size_t room_for = end_[0]->bounds().max_outstanding;
    const std::vector<work> many(room_for + 10, make(op::write, 1, 0, 0, 8));
    EXPECT_EQ(end_[0]->post(many), room_for);
    EXPECT_EQ(end_[0]->post(many), 0u);
    ASSERT_TRUE(completed(0, room_for));
    EXPECT_EQ(end_[0]->post({many.data(), 10}), 10u);
    ASSERT_TRUE(completed(0, room_for + 10));
}

TEST_P(EndpointSuite, MoreReadsThanMayBeUnderWayAreAllAnswered) {
    fill(1, 6);
    const size_t n = 3 * end_[0]->bounds().max_reads;
    for (size_t i = 0; i < n; ++i) ASSERT_TRUE(post(make(op::read, i, i * 64, i * 64, 64)));
    ASSERT_TRUE(completed(0, n));
    EXPECT_EQ(memcmp(at(0), at(1), n * 64), 0);
}

TEST_P(EndpointSuite, ABadKeyIsRefusedByTheTarget) {
    work w = make(op::write, 1, 0, 0, 64);
    w.rkey += 1;
    ASSERT_TRUE(post(w));
    ASSERT_TRUE(post(make(op::write, 2, 0, 0, 64)));
    expect_refused(outcome::remote_access);
    ASSERT_TRUE(completed(0, 2));
    EXPECT_EQ(done_[0][1].how, outcome::flushed);
}

TEST_P(EndpointSuite, AStaleKeyIsRefusedByTheTarget) {
    const region old = region_[1];
    end_[1]->withdraw(old);
    const auto again = end_[1]->enrol(at(1), memory_bytes);
    ASSERT_TRUE(again.ok());
    EXPECT_NE(again->rkey, old.rkey);
    ASSERT_TRUE(post(make(op::read, 1, 0, 0, 64)));
    expect_refused(outcome::remote_access);
}

TEST_P(EndpointSuite, OutOfBoundsIsRefusedByTheTarget) {
    ASSERT_TRUE(post(make(op::write, 1, 0, memory_bytes - 8, 9)));
    expect_refused(outcome::remote_access);
}

TEST_P(EndpointSuite, AReadOutOfBoundsIsRefusedByTheTarget) {
    ASSERT_TRUE(post(make(op::read, 1, 0, memory_bytes, 1)));
    expect_refused(outcome::remote_access);
}

TEST_P(EndpointSuite, LocalMemoryOutsideOfItsRegionIsRefusedHere) {
    ASSERT_TRUE(post(make(op::write, 1, memory_bytes - 8, 0, 9)));
    expect_refused(outcome::local_protection);
}

TEST_P(EndpointSuite, AReceiveThatIsTooSmallFailsOnBothSides) {
    const receive r = room(1, 1, 0, 99);
    ASSERT_EQ(end_[1]->post_receive({&r, 1}), 1u);
    ASSERT_TRUE(post(make(op::send, 1, 0, 0, 100)));
    expect_refused(outcome::remote_invalid);
    ASSERT_TRUE(completed(1, 1));
    EXPECT_EQ(done_[1][0].how, outcome::local_length);
    EXPECT_TRUE(failed(1));
}

TEST_P(EndpointSuite, ASendWithoutAReceiveWaitsForOne) {
    ASSERT_TRUE(post(make(op::send, 1, 0, 0, 8)));
    for (int i = 0; i < 100; ++i) collect();
    EXPECT_TRUE(done_[0].empty());
    const receive r = room(1, 1, 0, 8);
    ASSERT_EQ(end_[1]->post_receive({&r, 1}), 1u);
    ASSERT_TRUE(completed(1, 1));
    ASSERT_TRUE(completed(0, 1));
    EXPECT_EQ(done_[0][0].how, outcome::ok);
}

TEST_P(EndpointSuite, ASendWithoutAReceiveIsRefusedInTheEnd) {
    ASSERT_TRUE(post(make(op::send, 1, 0, 0, 8)));
    expect_refused(outcome::rnr_exceeded);
}

TEST_P(EndpointSuite, AnUnalignedAtomicIsRefused) {
    ASSERT_TRUE(post(make(op::fetch_add, 1, 0, 4, 8)));
    expect_refused(outcome::remote_invalid);
}

TEST_P(EndpointSuite, APeerThatGoesBreaksTheOtherEnd) {
    const receive r = room(0, 5, 0, 8);
    ASSERT_EQ(end_[0]->post_receive({&r, 1}), 1u);
    end_[1].reset();
    const auto one_side = [&](auto&& ready) {
        for (const deadline d = deadline::in_ms(10'000); !ready();) {
            if (d.passed()) return false;
            end_[0]->progress();
            completion c[8];
            const size_t n = end_[0]->poll(c);
            done_[0].insert(done_[0].end(), c, c + n);
        }
        return true;
    };
    ASSERT_TRUE(one_side([&] { return !end_[0]->error().ok(); }));
    ASSERT_TRUE(one_side([&] { return done_[0].size() == 1; }));
    EXPECT_EQ(done_[0][0].id, 5u);
    EXPECT_NE(done_[0][0].how, outcome::ok);
}

}  // namespace ef::rdma
