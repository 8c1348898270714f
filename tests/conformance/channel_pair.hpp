// What the rules of transport.hpp are tested with: two ends of a channel in one process, payloads
// that tell where each byte belongs, and loops that give up after a while.
#pragma once

#include "transport/base/clock.hpp"
#include "transport/transport.hpp"
#include "transport/waiter.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace ef::conformance {

/// How a transport makes two connected ends, side 0 (rank 0) and side 1 (rank 1). open() makes what
/// they are made of, without ef::fd, so that a fork in between leaves it to both processes.
class pair_factory {
public:
    virtual ~pair_factory() = default;
    virtual void open() = 0;
    /// The end of `side`; its peer runs in process `peer_pid`.
    virtual std::unique_ptr<channel> end(int side, int peer_pid, waiter& w) = 0;
    /// This process does not need the end of `side`.
    virtual void drop(int side) = 0;
    virtual std::string name() const = 0;
    /// False: both ends must be in this process.
    virtual bool across_processes() const { return true; }
};

using bytes = std::vector<std::byte>;

/// The payload of message `seed`: every eight bytes differ from the others of this and other
/// messages.
inline bytes payload(uint64_t seed, size_t n) {
    bytes b(n);
    uint64_t x = seed * 0x9e3779b97f4a7c15 + 1;
    for (size_t i = 0; i < n; i += 8) {
        x = x * 6364136223846793005 + 1442695040888963407;
        const uint64_t word = x ^ (x >> 29);
        memcpy(b.data() + i, &word, std::min<size_t>(8, n - i));
    }
    return b;
}

/// One message, taken whole.
struct taken {
    uint64_t tag = 0;
    bytes data;
};

/// Brings the message at the head of a channel home, a piece at a time.
class taker {
public:
    explicit taker(channel& c) : c_(c) {}

    /// True when a message is complete in `out`.
    bool step(taken& out) {
        message m;
        if (!c_.peek(m)) return false;
        out.tag = m.tag;
        if (m.view) {
            EXPECT_EQ(reinterpret_cast<uintptr_t>(m.view) % 8 * (m.bytes > 0), 0u)
                << "a view must be aligned like any element";
            out.data.assign(m.view, m.view + m.bytes);
        } else {
            if (landing_.empty()) landing_.assign(m.bytes + guard, std::byte{0x5a});
            const size_t there = c_.fetch(landing_.data());
            EXPECT_GE(there, before_) << "fetch() took bytes back";
            EXPECT_LE(there, m.bytes);
            before_ = there;
            if (there < m.bytes) return false;
            for (size_t i = 0; i < guard; ++i)
                EXPECT_EQ(landing_[m.bytes + i], std::byte{0x5a}) << "written behind the message";
            landing_.resize(m.bytes);
            out.data = std::move(landing_);
            landing_.clear();
            before_ = 0;
        }
        c_.release();
        return true;
    }

private:
    static constexpr size_t guard = 64;
    channel& c_;
    bytes landing_;
    size_t before_ = 0;
};

class channel_suite : public testing::TestWithParam<std::shared_ptr<pair_factory>> {
protected:
    void SetUp() override {
        for (auto& w : waiters_) {
            result<waiter> made = waiter::create();
            ASSERT_TRUE(made.ok()) << made.why().text();
            w = std::make_unique<waiter>(std::move(*made));
        }
        GetParam()->open();
        for (int side = 0; side < 2; ++side) {
            end_[side] = GetParam()->end(side, getpid(), *waiters_[side]);
            ASSERT_TRUE(end_[side]);
        }
        ASSERT_TRUE(send(a(), 0, nullptr, 0)) << a().error().text();  // it has connected
        ASSERT_TRUE(send(b(), 0, nullptr, 0)) << b().error().text();
        taken t;
        ASSERT_TRUE(receive(a(), t) && receive(b(), t));
    }

    void TearDown() override {
        for (auto& e : end_) e.reset();
        for (int side = 0; side < 2; ++side) GetParam()->drop(side);
    }

    channel& a() { return *end_[0]; }
    channel& b() { return *end_[1]; }

    /// Both ends do what is pending. Repeats `done` until it is true or ten seconds have gone.
    template <class F>
    bool until(F&& done) {
        const deadline d = deadline::in_ms(10'000);
        for (unsigned turn = 0; !done(); ++turn) {
            if (d.passed()) return false;
            for (auto& e : end_) {
                if (!e) continue;
                e->progress();
                if (turn % 64 == 63) e->attend();
            }
        }
        return true;
    }

    bool send(channel& c, uint64_t tag, const std::byte* data, size_t n,
              ownership how = ownership::borrow) {
        return until([&] { return c.send(tag, data, n, how); });
    }

    bool receive(channel& c, taken& t) {
        taker head(c);
        return until([&] { return head.step(t); });
    }

    std::unique_ptr<waiter> waiters_[2];
    std::unique_ptr<channel> end_[2];
};

inline std::string factory_name(const testing::TestParamInfo<std::shared_ptr<pair_factory>>& info) {
    return info.param->name();
}

}  // namespace ef::conformance
