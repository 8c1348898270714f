// shot: one probe packet and what came back for it. For TCP a SYN from a socket of its own, for UDP
// a datagram; both with the flow's five-tuple. Never blocks.
#pragma once

#include "transport/path/probe.hpp"

namespace ef::path {

enum class answer : uint8_t {
    none,     // nothing yet
    router,   // its time to live ended at `address`
    reached,  // the destination said something, of whatever kind
    refused,  // a router, or this host, says that it goes no further: `words`
};

class shot {
public:
    shot() = default;
    /// Sends. EF_INVALID, EF_NO_RESOURCE (descriptors, the port is taken) or EF_SYSTEM (no route)
    /// name the tuple. `number` marks this attempt, so that a late answer to an earlier one is told
    /// apart.
    static result<shot> fire(const tuple& t, uint32_t ttl, uint32_t number);

    int socket() const noexcept { return socket_.get(); }
    explicit operator bool() const noexcept { return bool(socket_); }
    uint64_t sent_at_ns() const noexcept { return sent_at_ns_; }

    struct news {
        answer what = answer::none;
        std::string address, words;
    };
    news look(const tuple& t);
    void reset() noexcept { socket_.reset(); }

private:
    bool read_error_queue(const tuple& t, news& n);

    fd socket_;
    uint32_t number_ = 0;
    uint64_t sent_at_ns_ = 0;
};

}  // namespace ef::path
