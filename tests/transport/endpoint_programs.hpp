// Random programs: both sides post works of all kinds at the same time, and a reference executes
// them one after the other. Each side has its own part of the other's memory, so the order between
// the sides does not matter; after reads and atomics a side waits before it goes on, since only
// then is what they return certain.
//
//   memory of each side    [ written by side 0 | written by side 1 | what its own works use ]
#pragma once

#include "tests/transport/endpoint_suite.hpp"

#include <deque>
#include <random>

namespace ef::rdma {

class EndpointPrograms : public EndpointSuite {
protected:
    static constexpr size_t area = 256 * 1024;
    using bytes = std::vector<std::byte>;

    struct expectation {
        uint64_t id;
        op what;
        uint64_t bytes;
        uint32_t imm;
    };

    std::mt19937_64 random_;
    bytes model_[2];
    std::deque<expectation> works_[2], receives_[2];
    uint64_t next_id_ = 0;

    size_t pick(size_t n) { return size_t(random_() % n); }
    size_t length(size_t most) {
        const size_t n = pick(8) == 0 ? pick(200'000) : pick(4) == 0 ? 0 : pick(3000);
        return std::min(n, most);
    }

    void take(int side, const completion& c) {
        auto& queue =
            c.what == op::receive || c.what == op::receive_imm ? receives_[side] : works_[side];
        ASSERT_FALSE(queue.empty());
        const expectation e = queue.front();
        queue.pop_front();
        ASSERT_EQ(c.how, outcome::ok) << end_[side]->error().text();
        EXPECT_EQ(c.id, e.id);
        EXPECT_EQ(c.what, e.what);
        EXPECT_EQ(c.bytes, e.bytes);
        EXPECT_EQ(c.imm, e.imm);
    }
    void turn() {
        for (int side = 0; side < 2; ++side) {
            end_[side]->progress();
            completion c[16];
            const size_t n = end_[side]->poll({c, 1 + pick(16)});
            for (size_t i = 0; i < n; ++i) take(side, c[i]);
        }
    }
    template <class F>
    void wait_for(F&& ready) {
        for (const deadline d = deadline::in_ms(10'000); !ready() && !HasFatalFailure(); turn())
            ASSERT_FALSE(d.passed()) << end_[0]->error().text() << end_[1]->error().text();
    }

    /// One random work of `side`, on the model at once.
    void step(int side) {
        const int peer = 1 - side;
        const op kinds[] = {op::write, op::write_imm, op::read,
                            op::send,  op::fetch_add, op::compare_swap};
        work w;
        w.what = kinds[pick(6)];
        w.id = ++next_id_;
        w.imm = w.what == op::write_imm ? uint32_t(random_()) : 0;
        w.lkey = region_[side].lkey;
        w.rkey = region_[peer].rkey;
        const bool atomic = w.what == op::fetch_add || w.what == op::compare_swap;
        const bool returns = atomic || w.what == op::read;
        const size_t mine = size_t(side) * area, landing = 2 * area;
        size_t remote = pick(area), local = pick(area);
        w.bytes = atomic ? 8 : length(area - std::max(remote, local));
        if (atomic) remote = remote / 8 * 8, local = std::min(local, area - 8) / 8 * 8;
        w.local = at(side, landing + local);
        w.remote_address = region_[peer].address + mine + remote;
        w.signalled = returns || pick(4) > 0;
        w.inlined = !returns && w.bytes <= 64 && pick(2);
        std::byte* there = model_[peer].data() + mine + remote;
        std::byte* here = model_[side].data() + (w.local - at(side));
        if (w.what == op::send || w.what == op::write_imm) {
            // Its receive has a place of its own in the area that `side` writes.
            const receive r{next_id_ + 1'000'000, at(peer, mine + remote), w.bytes,
                            region_[peer].lkey};
            wait_for([&] { return end_[peer]->post_receive({&r, 1}) == 1; });
            receives_[peer].push_back(
                {r.id, w.what == op::send ? op::receive : op::receive_imm, w.bytes, w.imm});
        }
        uint64_t cell = 0;
        switch (w.what) {
        case op::read:
            memcpy(here, there, w.bytes);
            break;
        case op::fetch_add:
        case op::compare_swap:
            memcpy(&cell, there, 8);
            memcpy(here, &cell, 8);
            w.operand = random_();
            w.compare = pick(2) ? cell : random_();
            if (w.what == op::fetch_add) cell += w.operand;
            else if (cell == w.compare) cell = w.operand;
            memcpy(there, &cell, 8);
            break;
        default:
            memcpy(there, here, w.bytes);
        }
        if (w.signalled) works_[side].push_back({w.id, w.what, w.bytes, 0});
        wait_for([&] { return end_[side]->post({&w, 1}) == 1; });
        if (returns) wait_for([&] { return works_[side].empty(); });
    }
};

TEST_P(EndpointPrograms, TwoHundredRandomProgramsLeaveTheMemoryOfTheReference) {
    const uint64_t seed = testing::UnitTest::GetInstance()->random_seed();
    for (uint64_t program = 0; program < 200 && !HasFailure(); ++program) {
        SCOPED_TRACE("--gtest_random_seed=" + std::to_string(seed) + ", program " +
                     std::to_string(program));
        random_.seed(seed * 1000 + program);
        for (int side = 0; side < 2; ++side) {
            fill(side, random_());
            model_[side].assign(at(side), at(side) + memory_bytes);
        }
        const size_t steps = 5 + pick(40);
        for (size_t i = 0; i < steps && !HasFatalFailure(); ++i) step(int(pick(2)));
        // A signalled write at the end of each side says that all before it are executed.
        for (int side = 0; side < 2; ++side) {
            work w;
            w.id = ++next_id_;
            w.rkey = region_[1 - side].rkey;
            works_[side].push_back({w.id, op::write, 0, 0});
            wait_for([&] { return end_[side]->post({&w, 1}) == 1; });
        }
        wait_for([&] {
            return works_[0].empty() && works_[1].empty() && receives_[0].empty() &&
                   receives_[1].empty();
        });
        for (int side = 0; side < 2; ++side)
            ASSERT_EQ(memcmp(at(side), model_[side].data(), memory_bytes), 0) << "side " << side;
    }
}

}  // namespace ef::rdma
