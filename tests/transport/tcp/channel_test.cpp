// What only a tcp channel can meet: bytes of strangers, broken connections, headers in pieces.
#include "transport/tcp/channel.hpp"

#include "tests/conformance/tcp_pair.hpp"
#include "transport/tcp/tcp_wire.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {
std::atomic<uint64_t> allocations{0};
}  // namespace

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define EF_OWN_NEW 0
#endif
#elif defined(__SANITIZE_THREAD__)
#define EF_OWN_NEW 0
#endif
#ifndef EF_OWN_NEW
#define EF_OWN_NEW 1
#endif

#if EF_OWN_NEW  // ThreadSanitizer brings its own
// Counts, so that a test can say that there were none. (Not inlined: the compiler would take new
// and free for a mismatch.)
[[gnu::noinline]] void* operator new(size_t n) {
    ++allocations;
    if (void* p = malloc(n ? n : 1)) return p;
    throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { free(p); }
#endif

namespace ef {
namespace {

using conformance::bytes;
using conformance::payload;

/// A channel whose peer is bare sockets.
class TcpChannel : public testing::Test {
protected:
    void open(int connections = 1) {
        result<waiter> made = waiter::create();
        ASSERT_TRUE(made.ok());
        waiter_ = std::make_unique<waiter>(std::move(*made));
        std::vector<fd> ours;
        for (int i = 0; i < connections; ++i) {
            const auto [one, other] = conformance::connected_sockets(AF_INET);
            ours.emplace_back(one);
            peer_.emplace_back(other);
        }
        channel_ = make_tcp_channel({3, "host7", 4711}, std::move(ours), "tcp:lo", *waiter_);
    }

    static tcp::header header(uint32_t seq, uint64_t n) {
        tcp::header h;
        h.magic = tcp::wire_magic;
        h.version = tcp::wire_version;
        h.seq = seq;
        h.tag = 100 + seq;
        h.bytes = n;
        return h;
    }

    void write(const void* p, size_t n, size_t connection = 0) {
        ASSERT_EQ(::send(peer_[connection].get(), p, n, MSG_NOSIGNAL), ssize_t(n));
    }

    template <class F>
    bool until(F&& done) {
        for (const deadline d = deadline::in_ms(5000); !done();)
            if (d.passed()) return false;
        return true;
    }

    bool peeked(message& m) {
        return until([&] { return channel_->peek(m); });
    }

    void expect_broken(ef_status_t code, const std::string& words) {
        message m;
        ASSERT_TRUE(until([&] {
            EXPECT_FALSE(channel_->peek(m));
            return !channel_->error().ok();
        }));
        EXPECT_EQ(channel_->error().code(), code);
        const std::string text(channel_->error().text());
        EXPECT_EQ(text.find("tcp:lo: rank 3 (host7, pid 4711): "), 0u) << text;
        EXPECT_NE(text.find(words), std::string::npos) << text;
        EXPECT_FALSE(channel_->peek(m));
        EXPECT_FALSE(channel_->send(1, nullptr, 0, ownership::copy));
    }

    std::unique_ptr<waiter> waiter_;
    std::vector<fd> peer_;
    std::unique_ptr<channel> channel_;
};

TEST_F(TcpChannel, IsNotDeliveredUntilThePeersKernelHasAllOfIt) {
    open();
    EXPECT_TRUE(channel_->delivered());
    const bytes big = payload(1, 16 << 20);  // more than both kernels buffer
    ASSERT_TRUE(channel_->send(1, big.data(), big.size(), ownership::borrow));
    channel_->progress();
    EXPECT_FALSE(channel_->delivered());
    bytes sink(1 << 20);
    size_t got = 0;
    const uint64_t until = now_ns() + 10'000'000'000;
    while (!channel_->delivered() && now_ns() < until) {
        const ssize_t n = recv(peer_[0].get(), sink.data(), sink.size(), MSG_DONTWAIT);
        if (n > 0) got += size_t(n);
        channel_->progress();
    }
    EXPECT_TRUE(channel_->delivered());
    EXPECT_GT(got, 0u);
    EXPECT_EQ(channel_->completed(), 1u);
}

TEST_F(TcpChannel, IsDeliveredOnceThereIsNobodyToDeliverTo) {
    open();
    const bytes big = payload(1, 16 << 20);
    ASSERT_TRUE(channel_->send(1, big.data(), big.size(), ownership::borrow));
    channel_->progress();
    EXPECT_FALSE(channel_->delivered());
    peer_.clear();
    const uint64_t until = now_ns() + 10'000'000'000;
    while (!channel_->delivered() && now_ns() < until) channel_->attend();
    EXPECT_TRUE(channel_->delivered());
}

TEST_F(TcpChannel, AssemblesAMessageThatComesByteByByte) {
    open();
    const bytes p = payload(1, 100);
    const tcp::header h = header(0, p.size());
    bytes wire(sizeof h + p.size());
    memcpy(wire.data(), &h, sizeof h);
    memcpy(wire.data() + sizeof h, p.data(), p.size());
    message m;
    for (size_t i = 0; i < wire.size(); ++i) {
        EXPECT_FALSE(channel_->peek(m)) << "after " << i << " bytes";
        write(&wire[i], 1);
    }
    ASSERT_TRUE(peeked(m));
    EXPECT_EQ(m.tag, 100u);
    ASSERT_TRUE(m.view);
    EXPECT_EQ(bytes(m.view, m.view + m.bytes), p);
}

TEST_F(TcpChannel, RefusesAStrangersBytes) {
    open();
    write("GET / HTTP/1.1\r\nHost: host7\r\n\r\n", 31);
    expect_broken(EF_MISMATCH, "magic 0x4547 instead of 0x4645");
}

TEST_F(TcpChannel, NamesBothVersionsWhenTheyDiffer) {
    open();
    tcp::header h = header(0, 0);
    h.version = 9;
    write(&h, sizeof h);
    expect_broken(EF_MISMATCH, "the peer speaks version 9, we speak 1");
}

TEST_F(TcpChannel, RefusesANumberOutOfOrder) {
    open();
    const tcp::header h = header(5, 0);
    write(&h, sizeof h);
    expect_broken(EF_MISMATCH, "message 0 came as number 5");
}

TEST_F(TcpChannel, RefusesALengthBeyondTheLimitAndTakesTheLimit) {
    open();
    const tcp::header most = header(0, tcp::max_message);
    write(&most, sizeof most);
    message m;
    ASSERT_TRUE(peeked(m));
    EXPECT_EQ(m.bytes, tcp::max_message);
    peer_.clear();
    channel_.reset();
    open();
    const tcp::header more = header(0, tcp::max_message + 1);
    write(&more, sizeof more);
    expect_broken(EF_MISMATCH, "length 1073741825 is above 1073741824");
}

TEST_F(TcpChannel, NamesTheConnectionThatWasReset) {
    open(3);
    const linger now{1, 0};
    setsockopt(peer_[1].get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    peer_[1].reset();
    EXPECT_TRUE(until([&] {
        channel_->attend();
        return !channel_->error().ok();
    }));
    EXPECT_EQ(channel_->error().code(), EF_PEER_LOST);
    EXPECT_EQ(channel_->error().text(),
              "tcp:lo: rank 3 (host7, pid 4711): connection 1 of 3: Connection reset by peer "
              "(errno 104)");
}

TEST_F(TcpChannel, BringsALongMessageHomeAfterThePeerWent) {
    open();
    const bytes p = payload(1, 100'000);
    const tcp::header h = header(0, p.size());
    write(&h, sizeof h);
    write(p.data(), p.size());
    peer_.clear();
    ASSERT_TRUE(until([&] {
        channel_->attend();
        return !channel_->error().ok();
    }));
    message m;
    ASSERT_TRUE(peeked(m));
    ASSERT_FALSE(m.view);
    bytes landing(m.bytes);
    ASSERT_TRUE(until([&] { return channel_->fetch(landing.data()) == m.bytes; }));
    channel_->release();
    EXPECT_EQ(landing, p);
    EXPECT_FALSE(channel_->peek(m));
}

TEST_F(TcpChannel, ShowsNoMessageThatADeadPeerLeftUnfinished) {
    open();
    const bytes p = payload(1, 50'000);
    const tcp::header h = header(0, 100'000);
    write(&h, sizeof h);
    write(p.data(), p.size());
    message m;
    ASSERT_TRUE(peeked(m));
    peer_.clear();
    bytes landing(m.bytes);
    EXPECT_TRUE(until([&] {
        channel_->fetch(landing.data());
        return !channel_->error().ok();
    }));
    EXPECT_FALSE(channel_->peek(m));
}

TEST_F(TcpChannel, ReadsNothingBehindALongMessageIntoIt) {
    open();
    const bytes p = payload(1, 100'000), next = payload(2, 3000);
    tcp::header h = header(0, p.size());
    write(&h, sizeof h);
    write(p.data(), p.size());
    h = header(1, next.size());
    write(&h, sizeof h);
    write(next.data(), next.size());
    message m;
    ASSERT_TRUE(peeked(m));
    bytes landing(m.bytes + 64, std::byte{0x5a});
    ASSERT_TRUE(until([&] { return channel_->fetch(landing.data()) == m.bytes; }));
    for (size_t i = m.bytes; i < landing.size(); ++i) ASSERT_EQ(landing[i], std::byte{0x5a});
    channel_->release();
    ASSERT_TRUE(peeked(m));
    ASSERT_TRUE(m.view);
    EXPECT_EQ(bytes(m.view, m.view + m.bytes), next);
}

TEST_F(TcpChannel, AllocatesNothingOnceItIsConnected) {
    conformance::tcp_factory f(AF_INET, 2);
    result<waiter> w = waiter::create();
    ASSERT_TRUE(w.ok());
    f.open();
    const auto a = f.end(0, 1, *w), b = f.end(1, 1, *w);
    const bytes p = payload(1, 300'000);
    bytes landing(p.size());
    const uint64_t before = allocations.load();
    for (uint64_t i = 0; i < 400; ++i) {
        const size_t n = i % 3 ? i * 10 : p.size();
        const ownership how = i % 2 && n < a->max_copy() ? ownership::copy : ownership::borrow;
        message m;
        while (!a->send(i, p.data(), n, how)) a->progress();
        ASSERT_TRUE(until([&] {
            a->progress();
            return b->peek(m) && (m.view || b->fetch(landing.data()) == m.bytes);
        }));
        b->release();
        b->attend();
    }
    if (!EF_OWN_NEW) GTEST_SKIP() << "allocations are not counted under ThreadSanitizer";
    EXPECT_EQ(allocations.load(), before);
}

}  // namespace
}  // namespace ef
