// Connections for channels from chosen source ports, by either rank.
#include "tests/transport/bootstrap/ranks.hpp"
#include "transport/bootstrap/endpoint.hpp"

#include <atomic>

namespace ef::path {
namespace {

/// A port that is free, and one that a listener holds.
struct two_ports {
    fd holder;
    uint16_t taken = 0, free = 0;
};

uint16_t bound_port(const fd& s) { return local_end(s.get()).port(); }

two_ports find_ports() {
    two_ports p;
    std::string text;
    p.holder = test::listen_loopback(text);
    p.taken = bound_port(p.holder);
    const fd other = test::listen_loopback(text);
    p.free = bound_port(other);
    return p;
}

void tcp_only(config& c, rank_t) { c.transport = "tcp"; }

TEST(Dial, ConnectsFromTheGivenPortAndThePeerSeesIt) {
    const two_ports ports = find_ports();
    std::atomic<int> up{0};
    test::with_ranks(
        2,
        [&](test::member m) {
            if (m.rank == 1) m.g.dial(0, 7, 1, std::span(&ports.free, 1));
            link l;
            EXPECT_TRUE(test::progress_until(m.g, [&] { return m.g.next(l); }));
            EXPECT_EQ(l.lane, 7);
            EXPECT_EQ(l.dialled, m.rank == 1) << "the higher rank has dialled";
            endpoint far;
            far.bytes = sizeof far.address;
            getpeername(l.socket.get(), far.get(), &far.bytes);
            EXPECT_EQ(m.rank == 1 ? bound_port(l.socket) : far.port(), ports.free);
            ++up;
            EXPECT_TRUE(test::progress_until(m.g, [&] { return up == 2; }));
            m.g.leave();
        },
        false, tcp_only);
}

TEST(Dial, GoesOnToTheNextPortWhenOneIsTaken) {
    const two_ports ports = find_ports();
    const uint16_t list[] = {ports.taken, ports.free};
    std::atomic<int> up{0};
    test::with_ranks(
        2,
        [&](test::member m) {
            if (m.rank == 0) m.g.dial(1, 0, 1, list);
            link l;
            EXPECT_TRUE(test::progress_until(m.g, [&] { return m.g.next(l); }));
            if (m.rank == 0) {
                EXPECT_EQ(bound_port(l.socket), ports.free);
            }
            ++up;
            EXPECT_TRUE(test::progress_until(m.g, [&] { return up == 2; }));
            m.g.leave();
        },
        false, tcp_only);
}

TEST(Dial, TriesAgainUntilAPortIsFree) {
    two_ports ports = find_ports();
    std::atomic<int> up{0};
    test::with_ranks(
        2,
        [&](test::member m) {
            if (m.rank == 0) m.g.dial(1, 0, 1, std::span(&ports.taken, 1));
            link l;
            if (m.rank == 0) {
                EXPECT_FALSE(test::progress_until(
                    m.g, [&] { return m.g.next(l); }, 50));
                ports.holder.reset();
            }
            EXPECT_TRUE(test::progress_until(m.g, [&] { return m.g.next(l); }));
            ++up;
            EXPECT_TRUE(test::progress_until(m.g, [&] { return up == 2; }));
            m.g.leave();
        },
        false, tcp_only);
}

}  // namespace
}  // namespace ef::path
