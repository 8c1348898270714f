// The ends of a shared-memory channel, both in this process.
#pragma once

#include "tests/conformance/channel_pair.hpp"
#include "transport/shm/channel.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace ef::conformance {

class shm_factory final : public pair_factory {
public:
    explicit shm_factory(const char* single_copy) : single_copy_(single_copy) {}
    ~shm_factory() override {
        drop(0);
        drop(1);
    }

    void open() override {
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets_), 0);
    }

    std::unique_ptr<channel> end(int side, int peer_pid, waiter& w) override {
        auto c =
            make_shm_channel({1 - side, "here", peer_pid}, fd(std::exchange(sockets_[side], -1)),
                             side == 0, single_copy_, w);
        EXPECT_TRUE(c.ok()) << c.why().text();
        return c.ok() ? std::move(*c) : nullptr;
    }

    void drop(int side) override {
        if (sockets_[side] >= 0) close(std::exchange(sockets_[side], -1));
    }

    std::string name() const override { return std::string("single_copy_") + single_copy_; }

private:
    const char* single_copy_;
    int sockets_[2] = {-1, -1};
};

inline bool can_read_processes() {
    char from = 1, to = 0;
    const iovec a{&to, 1}, b{&from, 1};
    return process_vm_readv(getpid(), &a, 1, &b, 1, 0) == 1;
}

}  // namespace ef::conformance
