// The rules of transport/transport.hpp, as tests. A transport instantiates them:
//
//   INSTANTIATE_TEST_SUITE_P(tcp, channel_suite, testing::Values(...pair_factory...),
//   factory_name);
#pragma once

#include "tests/conformance/channel_pair.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <random>
#include <thread>

namespace ef::conformance {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(channel_suite);

// ---------------------------------------------------------------- messages

TEST_P(channel_suite, DeliversTagsAndBytesInTheOrderOfSending) {
    for (uint64_t i = 0; i < 300; ++i) {
        const bytes p = payload(i, i * 7 % 97);
        ASSERT_TRUE(send(a(), ~i, p.data(), p.size(), ownership::copy));
        if (i % 20 < 19) continue;
        for (uint64_t k = i - 19; k <= i; ++k) {
            taken t;
            ASSERT_TRUE(receive(b(), t)) << b().error().text();
            EXPECT_EQ(t.tag, ~k);
            ASSERT_EQ(t.data, payload(k, k * 7 % 97)) << "message " << k;
        }
    }
}

// Around everything that is a threshold somewhere: cache lines, buffers, stripes.
TEST_P(channel_suite, DeliversEveryLengthAroundTheThresholds) {
    std::vector<size_t> lengths;
    for (size_t base :
         {0, 8, 40, 64, 4096, 16384, 32768, 65512, 65536, 131072, 196608, 262144, 1 << 20, 3 << 20})
        for (size_t off : {-1, 0, 1})
            if (base + off <= a().max_message()) lengths.push_back(base + off);
    for (ownership how : {ownership::borrow, ownership::copy}) {
        for (size_t n : lengths) {
            if (how == ownership::copy && n > a().max_copy()) continue;
            const bytes p = payload(n + 1, n);
            // Whoever borrows may need the peer to take the message before the next is sent.
            ASSERT_TRUE(send(a(), n, p.data(), n, how)) << n;
            taken t;
            ASSERT_TRUE(receive(b(), t)) << n << " bytes: " << b().error().text();
            EXPECT_EQ(t.tag, n);
            ASSERT_EQ(t.data, p) << n << " bytes";
            ASSERT_TRUE(until([&] { return a().completed() == a().sent(); })) << n;
        }
    }
}

TEST_P(channel_suite, ShowsTheSameMessageUntilItIsReleased) {
    const bytes small = payload(1, 24), next = payload(2, 32);
    ASSERT_TRUE(send(a(), 11, small.data(), small.size(), ownership::copy));
    ASSERT_TRUE(send(a(), 12, next.data(), next.size(), ownership::copy));
    message first;
    ASSERT_TRUE(until([&] { return b().peek(first); }));
    for (int i = 0; i < 10; ++i) {
        message again;
        b().progress();
        ASSERT_TRUE(b().peek(again));
        EXPECT_EQ(again.tag, 11u);
        EXPECT_EQ(again.bytes, 24u);
        EXPECT_EQ(again.view, first.view);
        if (again.view) {
            EXPECT_EQ(bytes(again.view, again.view + again.bytes), small);
        }
    }
    taken t;
    ASSERT_TRUE(receive(b(), t));
    EXPECT_EQ(t.tag, 11u);
    ASSERT_TRUE(receive(b(), t));
    EXPECT_EQ(t.tag, 12u);
    EXPECT_EQ(t.data, next);
}

TEST_P(channel_suite, FindsNothingWhereNothingWasSent) {
    message m;
    for (int i = 0; i < 100; ++i) {
        EXPECT_FALSE(a().peek(m));
        EXPECT_FALSE(b().peek(m));
    }
    EXPECT_TRUE(a().error().ok());
}

// What fetch() says is there must be there, right, while the rest is still coming.
TEST_P(channel_suite, FetchesFromTheFrontWithoutGaps) {
    const size_t n = std::min<size_t>(8 << 20, a().max_message());
    const bytes p = payload(5, n);
    bytes landing(n, std::byte{0});
    size_t checked = 0;
    bool sent = false;
    ASSERT_TRUE(until([&] {
        if (!sent) sent = a().send(5, p.data(), n, ownership::borrow);
        message m;
        if (!b().peek(m)) return false;
        if (m.view) {
            landing.assign(m.view, m.view + m.bytes);
            checked = m.bytes;
            EXPECT_EQ(landing, p);
            return true;
        }
        const size_t there = b().fetch(landing.data());
        EXPECT_GE(there, checked);
        EXPECT_EQ(memcmp(landing.data() + checked, p.data() + checked, there - checked), 0);
        checked = there;
        return there == n;
    }));
    EXPECT_EQ(checked, n);
    b().release();
}

// ---------------------------------------------------------------- ownership

TEST_P(channel_suite, KeepsItsOwnCopyOfCopiedData) {
    std::deque<bytes> model;
    for (uint64_t i = 0; model.size() < 2000; ++i) {
        const bytes p = payload(i, std::min<size_t>(a().max_copy(), i * 977 % 30'000));
        bytes mine = p;
        const bool took = a().send(i, mine.data(), mine.size(), ownership::copy);
        std::fill(mine.begin(), mine.end(), std::byte{0xee});
        if (!took) break;
        model.push_back(p);
    }
    ASSERT_GT(model.size(), 2u);
    for (const bytes& p : model) {
        taken t;
        ASSERT_TRUE(receive(b(), t));
        ASSERT_EQ(t.data, p);
    }
}

TEST_P(channel_suite, NeedsBorrowedDataNoLongerThanItSays) {
    constexpr int count = 12;
    const size_t n = std::min<size_t>(700'000, a().max_message());
    std::vector<bytes> mine;
    for (int i = 0; i < count; ++i) mine.push_back(payload(uint64_t(i), n));
    const uint64_t before = a().sent();
    int sent = 0, scribbled = 0, received = 0;
    taker head(b());
    taken t;
    ASSERT_TRUE(until([&] {
        if (sent < count && a().send(0, mine[size_t(sent)].data(), n, ownership::borrow)) ++sent;
        while (scribbled < sent && a().completed() > before + uint64_t(scribbled))
            std::fill_n(mine[size_t(scribbled++)].begin(), n, std::byte{0xee});
        if (head.step(t)) {
            EXPECT_EQ(t.data, payload(uint64_t(received), n)) << "message " << received;
            ++received;
        }
        return received == count && scribbled == count;
    }));
}

TEST_P(channel_suite, CompletesWithoutGoingBackAndInTheEndEverything) {
    const bytes p = payload(1, std::min<size_t>(200'000, a().max_message()));
    uint64_t last = a().completed();
    int sent = 0, received = 0;
    taker head(b());
    taken t;
    ASSERT_TRUE(until([&] {
        if (sent < 40) sent += a().send(1, p.data(), p.size(), ownership::borrow);
        const uint64_t now = a().completed();
        EXPECT_GE(now, last);
        EXPECT_LE(now, a().sent());
        last = now;
        received += head.step(t);
        return received == 40 && now == a().sent();
    }));
}

// ---------------------------------------------------------------- full

TEST_P(channel_suite, RefusesWhenFullAndLosesNothing) {
    for (size_t n : {size_t(0), size_t(8), size_t(5000), size_t(60'000),
                     std::min<size_t>(300'000, a().max_message())}) {
        const ownership how = n <= 60'000 ? ownership::copy : ownership::borrow;
        const bytes p = payload(n, n);
        uint64_t sent = 0;
        for (unsigned refusals = 0; refusals < 50 && sent < 300'000;) {
            if (a().send(sent, p.data(), n, how)) ++sent, refusals = 0;
            else ++refusals, a().progress();
        }
        ASSERT_GT(sent, 0u);
        ASSERT_LT(sent, 300'000u) << "a channel that never refuses holds without bound";
        for (uint64_t i = 0; i < sent; ++i) {
            taken t;
            ASSERT_TRUE(receive(b(), t)) << i << " of " << sent;
            ASSERT_EQ(t.tag, i);
            ASSERT_TRUE(t.data == p) << "message " << i << " of " << sent;
        }
        ASSERT_TRUE(until([&] { return a().completed() == a().sent(); }));
    }
}

// Both ends are full of what the other does not take while it sends: whoever waits for room must
// still receive.
TEST_P(channel_suite, CarriesFullLoadBothWaysAtOnce) {
    const size_t n = std::min<size_t>(400'000, a().max_message());
    const bytes pa = payload(1, n), pb = payload(2, n);
    constexpr int count = 40;
    int sent[2] = {0, 0}, got[2] = {0, 0};
    taker at_a(a()), at_b(b());
    taken t;
    ASSERT_TRUE(until([&] {
        if (sent[0] < count) sent[0] += a().send(0, pa.data(), pa.size(), ownership::borrow);
        if (sent[1] < count) sent[1] += b().send(0, pb.data(), pb.size(), ownership::borrow);
        if (at_a.step(t)) {
            ++got[0];
            EXPECT_TRUE(t.data == pb);
        }
        if (at_b.step(t)) {
            ++got[1];
            EXPECT_TRUE(t.data == pa);
        }
        return got[0] == count && got[1] == count;
    }));
}

TEST_P(channel_suite, AgreesWithAQueueUnderRandomTraffic) {
    const uint64_t seed = std::random_device{}();
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    struct sent_message {
        uint64_t tag;
        bytes data;
    };
    struct loan {
        uint64_t ticket;
        bytes data;
    };
    std::deque<sent_message> model[2];  // on the way from side s
    std::deque<loan> loans[2];
    taker head[2] = {taker(b()), taker(a())};
    uint64_t number = 0;
    const auto length = [&]() -> size_t {
        switch (random() % 8) {
        case 0:
            return 0;
        case 1:
            return random() % 300'000;
        case 2:
            return random() % 70'000;
        default:
            return random() % 500;
        }
    };
    const auto step = [&](int s, bool sending) {
        channel& from = *end_[s];
        if (sending) {
            const size_t n = length();
            const ownership how =
                n <= from.max_copy() && random() % 2 ? ownership::copy : ownership::borrow;
            bytes p = payload(++number, n);
            const uint64_t tag = random();
            if (from.send(tag, p.data(), n, how)) {
                model[s].push_back({tag, p});
                if (how == ownership::copy) std::fill(p.begin(), p.end(), std::byte{0xee});
                else loans[s].push_back({from.sent(), std::move(p)});
            }
        }
        taken t;
        if (random() % 2 && head[s].step(t)) {
            ASSERT_FALSE(model[s].empty());
            ASSERT_EQ(t.tag, model[s].front().tag);
            ASSERT_TRUE(t.data == model[s].front().data) << t.data.size() << " bytes";
            model[s].pop_front();
        }
        while (!loans[s].empty() && from.completed() >= loans[s].front().ticket) {
            std::fill(loans[s].front().data.begin(), loans[s].front().data.end(), std::byte{0xee});
            loans[s].pop_front();
        }
        if (random() % 4 == 0) from.progress();
    };
    for (int i = 0; i < 4000 && !HasFatalFailure(); ++i) step(int(random() % 2), true);
    ASSERT_TRUE(until([&] {
        step(0, false);
        step(1, false);
        return HasFatalFailure() ||
               (model[0].empty() && model[1].empty() && loans[0].empty() && loans[1].empty());
    })) << a().error().text()
        << b().error().text();
}

// ---------------------------------------------------------------- sleep

TEST_P(channel_suite, WakesASleeperWhenAMessageComes) {
    waiter& w = *waiters_[1];
    for (int round = 0; round < 20; ++round) {
        std::thread peer([&] {
            const deadline d = deadline::in_ms(5000);
            while (w.bell().asleep.load() == 0 && !d.passed()) std::this_thread::yield();
            const bytes p = payload(1, 64);
            while (!a().send(uint64_t(round), p.data(), p.size(), ownership::copy) && !d.passed())
                a().progress();
        });
        const deadline late = deadline::in_ms(1000);
        message m;
        while (!b().peek(m) && !late.passed()) {
            w.prepare();
            if (b().peek(m)) {
                w.cancel();
                break;
            }
            w.sleep(3000);
        }
        EXPECT_FALSE(late.passed()) << "round " << round;
        peer.join();
        taken t;
        ASSERT_TRUE(receive(b(), t));
        ASSERT_EQ(t.tag, uint64_t(round));
    }
}

// A sender that waits for room sleeps too.
TEST_P(channel_suite, WakesASleeperWhenThereIsRoomAgain) {
    const bytes p = payload(1, 60'000);
    uint64_t sent = 0;
    for (unsigned refusals = 0; refusals < 50; ++refusals) {
        while (a().send(sent, p.data(), p.size(), ownership::copy)) ++sent, refusals = 0;
        a().progress();
    }
    waiter& w = *waiters_[0];
    std::atomic<bool> stop{false};
    std::thread peer([&] {
        const deadline d = deadline::in_ms(5000);
        while (w.bell().asleep.load() == 0 && !d.passed()) std::this_thread::yield();
        taker head(b());
        taken t;
        while (!stop.load() && !d.passed()) head.step(t);
    });
    const deadline late = deadline::in_ms(1000);
    bool took = false;
    const auto look = [&] {
        a().progress();
        return took = a().send(sent, p.data(), p.size(), ownership::copy);
    };
    while (!late.passed()) {
        w.prepare();
        if (look()) {
            w.cancel();
            break;
        }
        w.sleep(3000);
    }
    EXPECT_TRUE(took);
    EXPECT_FALSE(late.passed());
    stop.store(true);
    peer.join();
}

// ---------------------------------------------------------------- the end

TEST_P(channel_suite, NamesThePeerThatWentAndStaysBroken) {
    end_[1].reset();
    ASSERT_TRUE(until([&] {
        message m;
        a().peek(m);
        return !a().error().ok();
    }));
    EXPECT_EQ(a().error().code(), EF_PEER_LOST);
    const std::string text(a().error().text());
    EXPECT_NE(text.find("rank 1 (here, pid " + std::to_string(getpid()) + ")"), std::string::npos)
        << text;
    EXPECT_NE(text.find(a().medium()), std::string::npos) << text;
    const uint64_t sent = a().sent();
    for (int i = 0; i < 200; ++i) {
        message m;
        EXPECT_FALSE(a().send(1, nullptr, 0, ownership::copy));
        EXPECT_FALSE(a().peek(m));
        a().progress();
        a().attend();
    }
    EXPECT_EQ(a().sent(), sent);
    EXPECT_EQ(a().error().text(), text);
}

TEST_P(channel_suite, NoticesADeathWhileItOnlyLooksNowAndThen) {
    end_[1].reset();
    EXPECT_TRUE(until([&] {
        a().attend();
        return !a().error().ok();
    }));
}

TEST_P(channel_suite, StillShowsWhatArrivedBeforeThePeerWent) {
    for (uint64_t i = 0; i < 10; ++i) {
        const bytes p = payload(i, i * 300);
        ASSERT_TRUE(send(a(), i, p.data(), p.size(), ownership::copy));
    }
    ASSERT_TRUE(until([&] { return a().delivered(); }));
    end_[0].reset();
    ASSERT_TRUE(until([&] {
        b().attend();
        return !b().error().ok();
    }));
    for (uint64_t i = 0; i < 10; ++i) {
        taken t;
        ASSERT_TRUE(receive(b(), t)) << "message " << i;
        EXPECT_EQ(t.tag, i);
        EXPECT_EQ(t.data, payload(i, i * 300));
    }
    message m;
    EXPECT_FALSE(b().peek(m));
}

// ---------------------------------------------------------------- two processes

constexpr int process_messages = 200;
constexpr size_t process_bytes = 100'000;  // every transport takes that in one message

// The other process: sends back what it gets, its tag one higher. What it finds wrong is its exit
// status.
inline int echo_process(pair_factory& f, int peer_pid) {
    result<waiter> w = waiter::create();
    if (!w.ok()) return 10;
    f.drop(0);
    const std::unique_ptr<channel> c = f.end(1, peer_pid, *w);
    taker head(*c);
    std::vector<bytes> kept;
    const deadline d = deadline::in_ms(20'000);
    taken t;
    while (kept.size() < process_messages) {
        if (d.passed()) return 11;
        if (!c->error().ok()) return 12;
        c->progress();
        if (!head.step(t)) continue;
        if (t.data != payload(t.tag, process_bytes)) return 13;
        kept.push_back(std::move(t.data));
        while (!c->send(t.tag + 1, kept.back().data(), process_bytes, ownership::borrow)) {
            if (d.passed()) return 14;
            c->progress();
        }
    }
    while (c->completed() < c->sent() && !d.passed()) c->progress();
    message m;  // the other one goes first: its last messages are taken then
    while (c->error().ok() && !d.passed()) {
        c->peek(m);
        c->attend();
    }
    return d.passed() ? 15 : 0;
}

TEST_P(channel_suite, CarriesMessagesBetweenTwoProcesses) {
    if (!GetParam()->across_processes()) GTEST_SKIP() << "both ends live in one process";
    TearDown();
    GetParam()->open();
    const pid_t parent = getpid();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(echo_process(*GetParam(), parent));
    GetParam()->drop(1);
    end_[0] = GetParam()->end(0, child, *waiters_[0]);
    std::vector<bytes> out;
    for (uint64_t i = 0; i < process_messages; ++i) out.push_back(payload(i, process_bytes));
    uint64_t sent = 0, got = 0;
    taker head(a());
    taken t;
    EXPECT_TRUE(until([&] {
        if (sent < process_messages)
            sent += a().send(sent, out[sent].data(), process_bytes, ownership::borrow);
        if (head.step(t)) {
            EXPECT_EQ(t.tag, got + 1);
            EXPECT_TRUE(t.data == out[got]) << "message " << got;
            ++got;
        }
        return got == process_messages && a().completed() == a().sent();
    })) << got
        << " of " << process_messages << " came back; " << a().error().text();
    end_[0].reset();
    int how = 0;
    ASSERT_EQ(waitpid(child, &how, 0), child);
    EXPECT_TRUE(WIFEXITED(how));
    EXPECT_EQ(WEXITSTATUS(how), 0);
}

}  // namespace ef::conformance
