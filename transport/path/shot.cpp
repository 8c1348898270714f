#include "transport/path/shot.hpp"

#include "transport/base/bytes.hpp"
#include "transport/base/clock.hpp"

#include <fmt/core.h>
#include <linux/errqueue.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace ef::path {
namespace {

// What a UDP probe carries; a router that quotes enough of it says which attempt it answers.
struct payload {
    le<uint32_t> magic, number;
};
constexpr uint32_t payload_magic = 0x50504645;  // "EFPP"

bool v6(const tuple& t) noexcept { return t.to.family() == AF_INET6; }

bool set(int socket, int level, int option, int value) noexcept {
    return setsockopt(socket, level, option, &value, sizeof value) == 0;
}

bool prepare(int s, const tuple& t, uint32_t ttl) noexcept {
    bool good = v6(t) ? set(s, IPPROTO_IPV6, IPV6_UNICAST_HOPS, int(ttl)) &&
                            set(s, IPPROTO_IPV6, IPV6_RECVERR, 1)
                      : set(s, IPPROTO_IP, IP_TTL, int(ttl)) && set(s, IPPROTO_IP, IP_RECVERR, 1);
    if (t.proto == protocol::tcp) {
        // A SYN that reaches the peer opens a connection: ended by a reset, it leaves no TIME_WAIT
        // behind that would keep the data from this port.
        const linger at_once{1, 0};
        good &= setsockopt(s, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0;
        good &= set(s, SOL_SOCKET, SO_REUSEADDR, 1);
    }
    return good;
}

status describe(const tuple& t, const char* call, int err) {
    const std::string what =
        fmt::format("probe of {} {} to {}: {}", t.proto == protocol::tcp ? "tcp" : "udp",
                    t.from.text(), t.to.text(), call);
    if (err == EADDRINUSE || err == EADDRNOTAVAIL)
        return status(
            EF_NO_RESOURCE,
            fmt::format("{}: the source port is in use, or the address is not this host's "
                        "({}, errno {})",
                        what, strerrordesc_np(err), err));
    return system_error(what, err);
}

std::string host_of(const sockaddr* a) {
    const socklen_t n = a->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    return of_sockaddr(a, n).host();
}

const char* words_of(const sock_extended_err& e) noexcept {
    if (e.ee_origin == SO_EE_ORIGIN_ICMP6) return "destination unreachable";
    switch (e.ee_code) {
    case ICMP_NET_UNREACH:
        return "network unreachable";
    case ICMP_HOST_UNREACH:
        return "host unreachable";
    case ICMP_PKT_FILTERED:
    case ICMP_NET_ANO:
    case ICMP_HOST_ANO:
        return "administratively prohibited";
    }
    return "destination unreachable";
}

bool time_exceeded(const sock_extended_err& e) noexcept {
    if (e.ee_origin == SO_EE_ORIGIN_ICMP) return e.ee_type == ICMP_TIME_EXCEEDED;
    return e.ee_origin == SO_EE_ORIGIN_ICMP6 && e.ee_type == ICMP6_TIME_EXCEEDED;
}

}  // namespace

result<shot> shot::fire(const tuple& t, uint32_t ttl, uint32_t number) {
    const bool tcp = t.proto == protocol::tcp;
    if (t.from.family() != t.to.family() || (!v6(t) && t.to.family() != AF_INET))
        return status(EF_INVALID,
                      fmt::format("probe of {} to {}: two families", t.from.text(), t.to.text()));
    shot s;
    s.number_ = number;
    s.socket_ = fd(::socket(t.to.family(),
                            (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!s.socket_) return describe(t, "socket", errno);
    const int n = s.socket_.get();
    if (!prepare(n, t, ttl)) return describe(t, "setsockopt", errno);
    if (bind(n, t.from.get(), t.from.bytes) != 0) return describe(t, "bind", errno);
    s.sent_at_ns_ = now_ns();
    // The answer may be there before connect() returns, as its error: look() finds it.
    if (connect(n, t.to.get(), t.to.bytes) != 0 && errno != EINPROGRESS && errno != EHOSTUNREACH)
        return describe(t, "connect", errno);
    if (!tcp) {
        const payload p{payload_magic, number};
        if (::send(n, &p, sizeof p, MSG_NOSIGNAL) < 0 && errno != EHOSTUNREACH &&
            errno != ECONNREFUSED)
            return describe(t, "send", errno);
    }
    return s;
}

// True: an entry was there and has been taken.
bool shot::read_error_queue(const tuple& t, news& n) {
    payload quoted{};
    iovec piece{&quoted, sizeof quoted};
    alignas(cmsghdr) char control[512];
    msghdr m{};
    m.msg_iov = &piece;
    m.msg_iovlen = 1;
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(socket_.get(), &m, MSG_ERRQUEUE | MSG_DONTWAIT);
    if (got < 0) return false;
    // An answer to an earlier attempt may be of another hop.
    if (t.proto == protocol::udp && got == ssize_t(sizeof quoted) &&
        quoted.magic == payload_magic && quoted.number != number_)
        return true;
    for (cmsghdr* c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        const bool of_ip = (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
                           (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR);
        if (!of_ip) continue;
        const auto* e = reinterpret_cast<const sock_extended_err*>(CMSG_DATA(c));
        if (e->ee_origin != SO_EE_ORIGIN_ICMP && e->ee_origin != SO_EE_ORIGIN_ICMP6) continue;
        n.address = host_of(SO_EE_OFFENDER(e));
        if (time_exceeded(*e)) n.what = answer::router;
        else if (n.address == t.to.host()) n.what = answer::reached;
        else {
            n.what = answer::refused;
            n.words = words_of(*e);
        }
    }
    return true;
}

shot::news shot::look(const tuple& t) {
    news n;
    while (n.what == answer::none && read_error_queue(t, n)) {
    }
    if (n.what != answer::none) return n;
    int err = 0;
    socklen_t length = sizeof err;
    if (getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &err, &length) != 0) err = errno;
    if (err == ECONNREFUSED || err == ECONNRESET) {
        n.what = answer::reached;
    } else if (err == 0 && t.proto == protocol::tcp) {
        sockaddr_storage far;
        length = sizeof far;
        if (getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&far), &length) == 0)
            n.what = answer::reached;
    } else if (err == 0) {
        char reply;
        if (recv(socket_.get(), &reply, 1, MSG_DONTWAIT | MSG_PEEK) >= 0) n.what = answer::reached;
    } else if (err != EHOSTUNREACH) {
        n.what = answer::refused;
        n.words = strerrordesc_np(err);
    }
    return n;
}

}  // namespace ef::path
