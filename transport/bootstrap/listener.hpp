// listener: the listening sockets of one group and the half-open connections behind them. A
// stranger costs one descriptor for at most five seconds, and there are never more than 64 of them:
// the oldest goes first. Running out of descriptors pauses accepting instead of spinning on it.
#pragma once

#include "transport/bootstrap/endpoint.hpp"
#include "transport/bootstrap/handshake.hpp"
#include "transport/bootstrap/poller.hpp"

#include <deque>
#include <list>

namespace ef {

struct arrival {
    hello_message hello;
    fd socket;
    std::string address;  // where it came from
    bool local = false;   // over the unix socket
};

class listener {
public:
    static constexpr size_t max_half_open = 64;
    static constexpr uint64_t patience_ns = 5'000'000'000;

    listener(poller& p, const secret& key, inbound::judge j)
        : poller_(p), key_(key), judge_(std::move(j)) {}

    status add(fd socket, bool local);
    void close() noexcept;

    /// News of a descriptor; false: it is not one of ours.
    bool ready(int socket);
    /// Drop what is too slow, resume accepting.
    void tick(uint64_t now);
    bool next(arrival& a);

    unsigned refused() const noexcept { return refused_; }
    /// Accepting fails for want of descriptors, now.
    const status& trouble() const noexcept { return trouble_; }

private:
    struct half_open {
        inbound in;
        std::string address;
        bool local;
        uint64_t until;
    };
    struct open_socket {
        fd socket;
        bool local;
    };
    void accept_all(const open_socket& from);
    bool paused_by(int err);
    /// True: the entry is finished with and may be erased.
    bool step(half_open& h);

    poller& poller_;
    const secret& key_;
    inbound::judge judge_;
    std::vector<open_socket> open_;
    std::list<half_open> half_open_;
    std::deque<arrival> arrived_;
    status trouble_;
    uint64_t paused_until_ = 0;
    unsigned refused_ = 0;
};

}  // namespace ef
