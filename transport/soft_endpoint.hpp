// soft_endpoint: the endpoint of transports that have no RDMA of their own, on top of a channel.
// The target's part is done by its progress(). soft/wire.hpp says what travels.
//
// One message at the head of the channel waits while there is no receive for it, and holds up what
// is behind it, responses too: post receives before waiting for what the peer returns.
#pragma once

#include "transport/endpoint.hpp"
#include "transport/transport.hpp"

#include <memory>

namespace ef::rdma {

struct soft_options {
    uint64_t rnr_timeout_ms = 5000;  // how long a send waits for a receive before it is refused
};

std::unique_ptr<endpoint> make_soft_endpoint(std::unique_ptr<channel> c, soft_options o = {});

}  // namespace ef::rdma
