// waiter: how a communicator's thread sleeps until one of its channels has news, without a thread
// per peer.
//
// Two kinds of news: a peer on this host wrote to shared memory and rings the doorbell (a futex
// word in this rank's home page, which local peers map); or a socket became ready (epoll). A thread
// that sleeps tells what it sleeps on:
//
//   asleep = 0   awake: a peer that publishes only pays one load
//   asleep = 1   in futex wait on `bell`: the peer increments it and wakes
//   asleep = 2   in epoll: the peer sends one byte through the channel's unix socket
#pragma once

#include "transport/base/fd.hpp"
#include "transport/base/status.hpp"

#include <atomic>
#include <cstdint>

namespace ef {

struct alignas(64) doorbell {
    std::atomic<uint32_t> bell{0};
    std::atomic<uint32_t> asleep{0};
};
static_assert(sizeof(doorbell) == 64);

/// Called by a peer after it has published something for the owner of `d`. True: the owner sleeps
/// in epoll, so the caller must also send a byte through the socket that they share. Costs one
/// fence and one load when the owner is awake.
bool ring_bell(doorbell& d) noexcept;
bool ring_sleeper(doorbell& d) noexcept;  // its slow part

class waiter {
public:
    static result<waiter> create();

    /// The memfd of the home page (one doorbell at offset 0), to be passed to local peers, and our
    /// mapped_pages of it.
    int home_fd() const noexcept { return home_fd_.get(); }
    doorbell& bell() const noexcept { return *reinterpret_cast<doorbell*>(home_.data()); }

    /// Sleep on `socket` too: readable, and writable while `out`. Call again to change `out`.
    /// `data_path`: news of this socket is what the engine waits for (tcp), so sleep in epoll;
    /// otherwise it is looked at now and then (control).
    status watch(int socket, bool out, bool data_path);
    void forget(int socket, bool data_path) noexcept;

    /// Say that this thread is about to sleep. The caller must then look at all channels once more,
    /// and call sleep() if there is still nothing, or cancel().
    void prepare() noexcept;
    void cancel() noexcept;
    /// Between prepare() and the end of sleep(): a channel whose news costs something to ask for asks now.
    /// Any thread: another one may have the channels while this one sleeps.
    bool prepared() noexcept { return std::atomic_ref(how_).load(std::memory_order_relaxed) != 0; }
    /// Sleep until news or `timeout_ms`.
    void sleep(int timeout_ms) noexcept;

private:
    fd home_fd_;
    mapped_pages home_;
    fd epoll_;
    int data_sockets_ = 0;  // atomically: a thread may add one while another sleeps
    uint32_t seen_ = 0;     // bell at prepare()
    uint32_t how_ = 0;      // what prepare() has told the peers
};

}  // namespace ef
