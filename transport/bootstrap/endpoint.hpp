// endpoint: one socket address (IPv4, IPv6 with its scope, or an abstract unix name), its text, and
// the sockets made from it. All sockets are non-blocking and close-on-exec.
#pragma once

#include "transport/base/fd.hpp"
#include "transport/base/status.hpp"

#include <sys/socket.h>

#include <string>
#include <string_view>
#include <vector>

namespace ef {

struct endpoint {
    sockaddr_storage address{};
    socklen_t bytes = 0;

    int family() const noexcept { return address.ss_family; }
    const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&address); }
    sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&address); }
    bool loopback() const noexcept;
    bool wildcard() const noexcept;
    bool link_local() const noexcept;
    void set_port(uint16_t port) noexcept;
    /// 0 for a unix name.
    uint16_t port() const noexcept;
    /// "10.1.2.3:4711", "[fe80::1%eth0]:4711", "@name".
    std::string text() const;
    /// The address alone.
    std::string host() const;
};

struct host_port {
    std::string host, port;
};
/// Split "host:port" or "[v6]:port"; EF_INVALID says what is accepted of `what`.
result<host_port> parse_host_port(std::string_view text, std::string_view what = "root");

/// All addresses of "host:port". May ask the resolver, which blocks.
result<std::vector<endpoint>> resolve(std::string_view text, std::string_view what = "root");
endpoint abstract_unix(std::string_view name);
endpoint of_sockaddr(const sockaddr* a, socklen_t bytes);
endpoint local_end(int socket);

/// A listening socket; for tcp with SO_REUSEADDR.
result<fd> listen_on(const endpoint& at);
/// Start to connect, from `from` where it is given (address and port; several sockets may have the
/// same if their peers differ). `in_progress`: wait for writability. errno-style errors by the
/// status; EADDRINUSE or EADDRNOTAVAIL: the port of `from` is taken.
result<fd> start_connect(const endpoint& to, bool& in_progress, int& err,
                         const endpoint* from = nullptr);
void no_delay(int socket) noexcept;

}  // namespace ef
