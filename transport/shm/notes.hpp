// notes: the unix socket beside a shared segment. It carries descriptors (which is why it exists),
// wake-ups for a peer that sleeps in epoll, and the news of the peer's death (end of file).
#pragma once

#include "transport/base/fd.hpp"
#include "transport/base/status.hpp"
#include "transport/shm/shm_wire.hpp"

#include <array>

namespace ef::shm {

struct received_note {
    note head;
    std::array<fd, 2> files;
};

class notes {
public:
    explicit notes(fd socket) noexcept : socket_(std::move(socket)) {}

    /// Send one note with up to two descriptors (-1: none). False: the socket is full or broken.
    bool send(const note& n, int file0 = -1, int file1 = -1) noexcept;

    /// Take one whole note if there is one. False: none now, or the end (see ended()).
    bool receive(received_note& n) noexcept;

    /// The peer has closed its end or broken the format; `why()` says which.
    bool ended() const noexcept { return ended_; }
    const char* why() const noexcept { return why_; }
    int socket() const noexcept { return socket_.get(); }

private:
    void end(const char* why) noexcept {
        ended_ = true;
        why_ = why;
    }

    fd socket_;
    received_note partial_;  // a note may arrive in pieces
    size_t have_ = 0;
    bool ended_ = false;
    const char* why_ = "";
};

}  // namespace ef::shm
