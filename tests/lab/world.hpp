// world: what tests in a real lab share. The test process enters a private world once (own mounts,
// an empty /run, for an ordinary user a user namespace too), so that its labs meet no others and are
// gone when it ends, however it ends. Where that is refused, the tests are skipped and say why.
#pragma once

#include "tools/lab/lab.hpp"
#include "tools/lab/private.hpp"
#include "transport/base/fd.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>

namespace ef::lab {

/// A byte or more arrives, or an error shows, within this time.
inline bool readable(int socket, int limit_ms) {
    pollfd p{socket, POLLIN, 0};
    return poll(&p, 1, limit_ms) == 1;
}

/// "some avg10" of /proc/pressure/cpu: percent of the last 10 s in which somebody waited for a core.
/// Negative if the kernel does not say.
inline double cpu_pressure() {
    double percent = -1;
    if (FILE* const f = fopen("/proc/pressure/cpu", "re")) {
        if (fscanf(f, "some avg10=%lf", &percent) != 1) percent = -1;
        fclose(f);
    }
    return percent;
}

inline sockaddr_in socket_address(ipv4 address, uint16_t port) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(address);
    a.sin_port = htons(port);
    return a;
}

class LabTest : public testing::Test {
protected:
    void SetUp() override {
        static const status entered = enter_private_world();
        if (!entered.ok()) GTEST_SKIP() << entered.text();
    }

    void TearDown() override {
        if (!lab_) return;
        const result<size_t> gone = lab::remove(lab_->how().name);
        EXPECT_TRUE(gone.ok()) << gone.why().text();
    }

    /// Build a lab of generator text; l() is it. False, and the test has failed, if that fails.
    bool build(const std::string& fabric, options o = {}) {
        const result<fabric::graph> g = fabric::make_from_text(fabric);
        if (!g.ok()) {
            ADD_FAILURE() << g.why().text();
            return false;
        }
        if (lab_) (void)lab::remove(lab_->how().name);
        lab_.reset();
        result<lab> made = lab::build(*g, o);
        if (made.ok()) lab_ = std::move(*made);
        else ADD_FAILURE() << made.why().text();
        return lab_.has_value();
    }

    lab& l() { return *lab_; }
    fabric::node_id node(const std::string& name) const { return lab_->net().find(name); }
    ipv4 address(const std::string& host) const { return lab_->address_of(node(host)); }
    fabric::link_id link(const std::string& text) const {
        for (fabric::link_id i = 0; i < lab_->net().links().size(); ++i)
            if (lab_->net().text_of(i) == text) return i;
        ADD_FAILURE() << "no link " << text;
        return 0;
    }

    /// A UDP socket on a host, bound to `port` (0: any).
    fd udp(const std::string& host, uint16_t port) {
        return opened(host, SOCK_DGRAM, [&](int s) {
            const sockaddr_in at = socket_address(address(host), port);
            return bind(s, reinterpret_cast<const sockaddr*>(&at), sizeof at);
        });
    }
    /// The same, connected to a port of another host; what ICMP says is an error on it.
    fd udp_to(const std::string& host, uint16_t port, const std::string& peer, uint16_t to) {
        return opened(host, SOCK_DGRAM, [&](int s) {
            const sockaddr_in at = socket_address(address(host), port),
                              other = socket_address(address(peer), to);
            const int on = 1;
            if (setsockopt(s, IPPROTO_IP, IP_RECVERR, &on, sizeof on) != 0 ||
                bind(s, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0)
                return -1;
            return connect(s, reinterpret_cast<const sockaddr*>(&other), sizeof other);
        });
    }
    fd listener(const std::string& host, uint16_t port) {
        return opened(host, SOCK_STREAM, [&](int s) {
            const sockaddr_in at = socket_address(address(host), port);
            return bind(s, reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0 ? listen(s, 64)
                                                                                   : -1;
        });
    }
    /// A TCP socket on a host that has begun to connect; it does not block.
    fd dial(const std::string& host, const std::string& peer, uint16_t port) {
        return opened(host, SOCK_STREAM | SOCK_NONBLOCK, [&](int s) {
            const sockaddr_in other = socket_address(address(peer), port);
            const int e = connect(s, reinterpret_cast<const sockaddr*>(&other), sizeof other);
            return e != 0 && errno == EINPROGRESS ? 0 : e;
        });
    }

private:
    fd opened(const std::string& host, int type, const std::function<int(int)>& prepare) {
        fd made;
        const status s = l().inside(node(host), [&]() -> status {
            made = fd(socket(AF_INET, type | SOCK_CLOEXEC, 0));
            return made && prepare(made.get()) == 0 ? status() : system_error("socket", errno);
        });
        EXPECT_TRUE(s.ok()) << host << ": " << s.text();
        return made;
    }

    std::optional<lab> lab_;
};

}  // namespace ef::lab
