// probe: which way a flow takes through the network, found without privilege and without knowing
// what any switch does.
//
// A packet with the flow's own five-tuple and a time to live of k dies at the k-th router, which
// says so by ICMP; the router's address comes back through the socket's error queue (IP_RECVERR).
// TCP is probed by SYNs that never arrive, UDP by datagrams. A switch that answers with the address
// of the interface at which the packet came in names the very link.
//
//     host a            U0               L1            host b
//       | -- ttl 1 ----> x                |               |      hop 1: U0's address towards a
//       | -- ttl 2 ----> | -------------> x               |      hop 2: L1's address towards U0
//       | -- ttl 3 ----> | -------------> | ------------> |      reached
//
// Switches answer only so many probes a second: probes are paced, and repeated a few times before a
// hop counts as silent. Some never answer: behind two silent hops in a row the destination itself is
// asked, and the walk goes on if anything answers; so a path of mute routers is not taken for a dead
// one.
#pragma once

#include "transport/base/status.hpp"
#include "transport/bootstrap/endpoint.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ef::path {

enum class protocol : uint8_t { tcp, udp };

/// A flow. Both ends are addresses with ports; the source port must be free for TCP.
struct tuple {
    protocol proto = protocol::tcp;
    endpoint from, to;
};

struct hop {
    std::string address;  // of the router that answered; empty: none did
    uint32_t rtt_us = 0;
    bool operator==(const hop& o) const noexcept { return address == o.address; }
};

struct trace {
    std::vector<hop> hops;  // of routers, in order; silent ones too, up to the last that answered
    bool reached = false;   // the destination answered (whatever it said)
    uint32_t rtt_us = 0;    // to the destination, when it was reached
    std::string refusal;    // "host unreachable": the last hop's word for why it goes no further
    status why;  // not OK: it could not be probed (the port is taken, no route, no turn in time)

    /// "10.0.0.0 172.16.0.3, reached"
    std::string text() const;
};

struct probe_options {
    uint32_t most_hops = 8;
    uint32_t attempts = 4;        // per hop
    uint32_t answer_ms = 40;      // wait for one answer before the next attempt; doubles each time
    uint32_t per_second = 20000;  // probes sent at most
    uint32_t at_once = 256;       // probes in flight at most
    uint32_t deadline_ms = 5000;  // for all together; who was asked and has not answered is silent
};

/// Probes that are under way; moved by step(), never blocks. One thread at a time. Descriptors in
/// use: at most at_once.
class prober {
public:
    prober(std::vector<tuple> tuples, const probe_options& o);
    ~prober();
    /// Send what is due, take what has come. True if anything moved.
    bool step() noexcept;
    /// Until step() has something to do, at most so long.
    void wait(int most_ms) noexcept;
    bool done() const noexcept;
    /// By index of the tuple; final when done().
    const std::vector<trace>& traces() const noexcept;

private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

/// All at once; blocks up to the deadline.
std::vector<trace> probe_paths(std::vector<tuple> tuples, const probe_options& o);

}  // namespace ef::path
