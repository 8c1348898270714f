// netlink: the kernel's interfaces, addresses, routes and queueing disciplines of one network
// namespace, over a socket that was opened in it. Each call is one message and its acknowledgement;
// an error carries the kernel's errno and, where it gives one, its own sentence.
#pragma once

#include "transport/base/fd.hpp"
#include "transport/base/status.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct nl_sock;
struct nl_msg;
struct nlmsghdr;

namespace ef::lab {

/// IPv4 address in host byte order.
using ipv4 = uint32_t;

struct next_hop {
    ipv4 gateway = 0;
    int interface_index = 0;
    bool operator==(const next_hop&) const = default;
};

struct interface_name {
    std::string name;
    int index = 0;
};

struct interface_state {
    std::string name;
    int index = 0;
    bool up = false;       // set up
    bool running = false;  // and so is the other end
};

/// What a queueing discipline has sent and dropped. Bytes are those on the wire: the Ethernet, IP
/// and TCP headers of every packet, also where the kernel carried several as one.
struct traffic {
    uint64_t bytes = 0, packets = 0, dropped_packets = 0;
};

struct shape {
    uint64_t bytes_per_s = 0;
    uint32_t burst_bytes = 0;
    uint32_t queue_bytes = 0;
};

class netlink {
public:
    /// In the calling thread's network namespace.
    static result<netlink> open();

    /// A pair of connected interfaces: `here` in this namespace, `there` in that of `peer_ns`.
    status add_veth(const interface_name& here, const interface_name& there, int peer_ns,
                    uint32_t mtu);
    status set_up(int index, bool up);
    status add_address(int index, ipv4 address, uint8_t prefix_bits);
    /// The one route to address/prefix_bits; with several next hops the kernel spreads flows by its
    /// hash.
    status replace_route(ipv4 address, uint8_t prefix_bits, std::span<const next_hop> via);
    /// Not an error if there is none.
    status delete_route(ipv4 address, uint8_t prefix_bits);
    /// Token bucket at the root of an interface; changes the one that is there, with what waits in
    /// it.
    status set_shape(int index, const shape& s);
    /// Drop what is sent at random, before the token bucket. 0: stop that; 100: all.
    status set_loss(int index, double percent);

    result<std::vector<interface_state>> interfaces();
    /// By interface index.
    result<std::map<int, traffic>> sent();

private:
    struct free_socket {
        void operator()(nl_sock* s) const noexcept;
    };
    /// Send and wait for the acknowledgement; an answer of `accepted_errno` is as good.
    status ask(nl_msg* m, const char* what, int accepted_errno = 0);
    status dump(int type, const std::function<void(nlmsghdr*)>& each);

    std::unique_ptr<nl_sock, free_socket> socket_;
};

}  // namespace ef::lab
