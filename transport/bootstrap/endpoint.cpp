#include "transport/bootstrap/endpoint.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/un.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace ef {
namespace {

const sockaddr_in& v4(const endpoint& e) { return reinterpret_cast<const sockaddr_in&>(e.address); }
const sockaddr_in6& v6(const endpoint& e) {
    return reinterpret_cast<const sockaddr_in6&>(e.address);
}

}  // namespace

bool endpoint::loopback() const noexcept {
    if (family() == AF_INET) return (ntohl(v4(*this).sin_addr.s_addr) >> 24) == 127;
    return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6(*this).sin6_addr);
}

bool endpoint::wildcard() const noexcept {
    if (family() == AF_INET) return v4(*this).sin_addr.s_addr == 0;
    return family() == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6(*this).sin6_addr);
}

bool endpoint::link_local() const noexcept {
    if (family() == AF_INET) return (ntohl(v4(*this).sin_addr.s_addr) >> 16) == 0xa9fe;
    return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&v6(*this).sin6_addr);
}

void endpoint::set_port(uint16_t port) noexcept {
    if (family() == AF_INET) reinterpret_cast<sockaddr_in&>(address).sin_port = htons(port);
    if (family() == AF_INET6) reinterpret_cast<sockaddr_in6&>(address).sin6_port = htons(port);
}

uint16_t endpoint::port() const noexcept {
    if (family() == AF_INET) return ntohs(v4(*this).sin_port);
    return family() == AF_INET6 ? ntohs(v6(*this).sin6_port) : uint16_t(0);
}

std::string endpoint::host() const {
    char name[NI_MAXHOST];
    if (family() == AF_UNIX) {
        const auto& u = reinterpret_cast<const sockaddr_un&>(address);
        const size_t n = bytes > offsetof(sockaddr_un, sun_path) + 1
                             ? bytes - offsetof(sockaddr_un, sun_path) - 1
                             : 0;
        return "@" + std::string(u.sun_path + 1, n);
    }
    if (getnameinfo(get(), bytes, name, sizeof(name), nullptr, 0, NI_NUMERICHOST) != 0)
        return "unknown address";
    return name;
}

std::string endpoint::text() const {
    if (family() == AF_INET) return fmt::format("{}:{}", host(), ntohs(v4(*this).sin_port));
    if (family() == AF_INET6) return fmt::format("[{}]:{}", host(), ntohs(v6(*this).sin6_port));
    return host();
}

result<host_port> parse_host_port(std::string_view text, std::string_view what) {
    const auto refuse = [&](const char* why) {
        return status(EF_INVALID,
                      fmt::format("{} {}: {}, give host:port or [IPv6]:port", what, text, why));
    };
    host_port r;
    size_t colon = text.rfind(':');
    if (text.starts_with('[')) {
        const size_t close = text.find(']');
        if (close == std::string_view::npos || close + 1 != colon) return refuse("bad brackets");
        r.host = text.substr(1, close - 1);
    } else {
        if (colon == std::string_view::npos) return refuse("has no port");
        r.host = text.substr(0, colon);
        if (r.host.find(':') != std::string::npos) return refuse("an IPv6 address needs brackets");
    }
    r.port = text.substr(colon + 1);
    if (r.host.empty()) return refuse("has no host");
    unsigned port = 0;
    const auto [end, err] = std::from_chars(r.port.data(), r.port.data() + r.port.size(), port);
    if (err != std::errc() || end != r.port.data() + r.port.size() || port > 65535)
        return refuse("its port is not 0 to 65535");
    return r;
}

result<std::vector<endpoint>> resolve(std::string_view text, std::string_view what) {
    result<host_port> hp = parse_host_port(text, what);
    if (!hp.ok()) return hp.why();
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int err = getaddrinfo(hp->host.c_str(), hp->port.c_str(), &hints, &list);
    if (err != 0)
        return status(err == EAI_MEMORY ? EF_NO_MEMORY : EF_INVALID,
                      fmt::format("{} {}: {}", what, text, gai_strerror(err)));
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> own(list, freeaddrinfo);
    std::vector<endpoint> out;
    for (const addrinfo* a = list; a; a = a->ai_next)
        out.push_back(of_sockaddr(a->ai_addr, a->ai_addrlen));
    return out;
}

endpoint abstract_unix(std::string_view name) {
    endpoint e;
    auto& u = reinterpret_cast<sockaddr_un&>(e.address);
    u.sun_family = AF_UNIX;
    const size_t n = std::min(name.size(), sizeof(u.sun_path) - 1);
    memcpy(u.sun_path + 1, name.data(), n);
    e.bytes = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + n);
    return e;
}

endpoint of_sockaddr(const sockaddr* a, socklen_t bytes) {
    endpoint e;
    e.bytes = std::min<socklen_t>(bytes, sizeof(e.address));
    memcpy(&e.address, a, e.bytes);
    return e;
}

endpoint local_end(int socket) {
    endpoint e;
    e.bytes = sizeof(e.address);
    if (getsockname(socket, e.get(), &e.bytes) != 0) e.bytes = 0;
    return e;
}

result<fd> listen_on(const endpoint& at) {
    fd s(socket(at.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!s) return system_error("socket for " + at.text(), errno);
    const int on = 1;
    if (at.family() != AF_UNIX) setsockopt(s.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (at.family() == AF_INET6) setsockopt(s.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(s.get(), at.get(), at.bytes) != 0) return system_error("bind " + at.text(), errno);
    if (listen(s.get(), 4096) != 0) return system_error("listen " + at.text(), errno);
    return s;
}

result<fd> start_connect(const endpoint& to, bool& in_progress, int& err, const endpoint* from) {
    in_progress = false;
    err = 0;
    fd s(socket(to.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!s) return system_error("socket for " + to.text(), err = errno);
    no_delay(s.get());
    if (from) {
        const int on = 1;
        setsockopt(s.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(s.get(), from->get(), from->bytes) != 0)
            return system_error("bind " + from->text(), err = errno);
    }
    int r;
    do {
        r = connect(s.get(), to.get(), to.bytes);
    } while (r != 0 && errno == EINTR);
    if (r == 0) return s;
    if (errno == EINPROGRESS) {
        in_progress = true;
        return s;
    }
    return system_error("connect to " + to.text(), err = errno);
}

void no_delay(int socket) noexcept {
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));  // fails on unix sockets: fine
}

}  // namespace ef
