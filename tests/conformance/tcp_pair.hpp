// Connected TCP sockets over loopback, and the ends of a tcp channel made from them.
#pragma once

#include "tests/conformance/channel_pair.hpp"
#include "transport/tcp/channel.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace ef::conformance {

/// A connected pair; ADD_FAILURE and -1 if the family is not to be had.
inline std::pair<int, int> connected_sockets(int family) {
    sockaddr_storage at{};
    socklen_t length = 0;
    if (family == AF_INET) {
        auto& v4 = reinterpret_cast<sockaddr_in&>(at);
        v4.sin_family = AF_INET;
        v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        length = sizeof v4;
    } else {
        auto& v6 = reinterpret_cast<sockaddr_in6&>(at);
        v6.sin6_family = AF_INET6;
        v6.sin6_addr = in6addr_loopback;
        length = sizeof v6;
    }
    auto* address = reinterpret_cast<sockaddr*>(&at);
    const int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int one = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int other = -1;
    if (bind(listener, address, length) == 0 && listen(listener, 1) == 0 &&
        getsockname(listener, address, &length) == 0 && connect(one, address, length) == 0)
        other = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (other < 0) ADD_FAILURE() << "loopback: " << strerror(errno);
    close(listener);
    for (int s : {one, other}) {
        const int on = 1;
        setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        fcntl(s, F_SETFL, O_NONBLOCK);
    }
    return {one, other};
}

inline bool have_ipv6_loopback() {
    const int s = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in6 at{};
    at.sin6_family = AF_INET6;
    at.sin6_addr = in6addr_loopback;
    const bool have = s >= 0 && bind(s, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0;
    if (s >= 0) close(s);
    return have;
}

class tcp_factory final : public pair_factory {
public:
    /// `one_way`: the first half of the connections carries data from side 0 to 1, the others back.
    tcp_factory(int family, int connections, bool one_way = false)
        : family_(family), connections_(connections), one_way_(one_way) {}
    ~tcp_factory() override {
        drop(0);
        drop(1);
    }

    void open() override {
        for (int i = 0; i < connections_; ++i) {
            const auto [one, other] = connected_sockets(family_);
            sockets_[0].push_back(one);
            sockets_[1].push_back(other);
        }
    }

    std::unique_ptr<channel> end(int side, int peer_pid, waiter& w) override {
        std::vector<fd> mine;
        for (int s : sockets_[side]) mine.emplace_back(s);
        sockets_[side].clear();
        if (one_way_) {
            std::vector<fd> half[2];
            for (size_t i = 0; i < mine.size(); ++i)
                half[2 * i >= mine.size()].push_back(std::move(mine[i]));
            return make_tcp_channel({1 - side, "here", peer_pid}, std::move(half[side]),
                                    std::move(half[1 - side]), "tcp:lo", w);
        }
        return make_tcp_channel({1 - side, "here", peer_pid}, std::move(mine), "tcp:lo", w);
    }

    void drop(int side) override {
        for (int s : sockets_[side]) close(s);
        sockets_[side].clear();
    }

    std::string name() const override {
        return (family_ == AF_INET ? "IPv4_" : "IPv6_") + std::to_string(connections_) +
               (one_way_ ? "_one_way" : "");
    }

private:
    int family_;
    int connections_;
    bool one_way_;
    std::vector<int> sockets_[2];
};

}  // namespace ef::conformance
