// Ranks as threads of one process, for tests of the bootstrap.
#pragma once

#include "transport/bootstrap/group.hpp"
#include "transport/bootstrap/key.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <thread>

namespace ef::test {

/// A listening socket on an ephemeral loopback port: rank 0's, so that no port is guessed.
inline fd listen_loopback(std::string& root, bool v6 = false) {
    fd s(socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_storage a{};
    socklen_t n = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    a.ss_family = v6 ? AF_INET6 : AF_INET;
    if (v6) reinterpret_cast<sockaddr_in6&>(a).sin6_addr = in6addr_loopback;
    else reinterpret_cast<sockaddr_in&>(a).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(s.get(), reinterpret_cast<sockaddr*>(&a), n) != 0 || listen(s.get(), 256) != 0)
        return fd();
    getsockname(s.get(), reinterpret_cast<sockaddr*>(&a), &n);
    const int port = ntohs(v6 ? reinterpret_cast<sockaddr_in6&>(a).sin6_port
                              : reinterpret_cast<sockaddr_in&>(a).sin_port);
    root = fmt::format("{}:{}", v6 ? "[::1]" : "127.0.0.1", port);
    return s;
}

inline launch launch_of(rank_t rank, rank_t nranks, const std::string& root,
                        std::string_view key = "a key for tests only") {
    launch l;
    l.rank = rank;
    l.nranks = nranks;
    l.source = "test";
    l.root = root;
    l.key = derive_key(key, "test");
    return l;
}

inline config config_of(int timeout_ms) {
    config c;
    c.transport = "auto";
    c.timeout_ms = timeout_ms;
    return c;
}

struct member {
    rank_t rank;
    waiter& w;
    group& g;
};

/// Join `nranks` ranks as threads and run `body` in each; a rank that cannot join fails the test.
inline void with_ranks(rank_t nranks, const std::function<void(member)>& body, bool v6 = false,
                       const std::function<void(config&, rank_t)>& tune = {}) {
    std::string root;
    fd listening = listen_loopback(root, v6);
    ASSERT_TRUE(listening) << "no loopback address";
    std::vector<std::thread> threads;
    for (rank_t r = 0; r < nranks; ++r)
        threads.emplace_back([&, r] {
            launch l = launch_of(r, nranks, root);
            if (r == 0) l.listener = std::move(listening);
            config c = config_of(10'000);
            if (tune) tune(c, r);
            result<waiter> w = waiter::create();
            ASSERT_TRUE(w.ok()) << w.why().text();
            result<std::unique_ptr<group>> g = group::join(std::move(l), c, *w);
            ASSERT_TRUE(g.ok()) << g.why().text();
            body({r, *w, **g});
        });
    for (std::thread& t : threads) t.join();
}

/// Progress until `done` or two seconds have passed, in which case false.
inline bool progress_until(group& g, const std::function<bool()>& done, int ms = 2000) {
    for (const deadline d = deadline::in_ms(uint64_t(ms)); !d.passed();) {
        g.progress();
        if (done()) return true;
        std::this_thread::yield();
    }
    return false;
}

}  // namespace ef::test
