// The verbs channel: between two ranks that reach each other through RDMA devices.
//
// It has lanes, each one reliable connection (RC) of a rail; a long message is cut over all of them. A
// lane that fails is taken down by both ends, which agree on it over the control connection; what it had
// not finished goes over the others. wire.hpp says what travels.
//
//   send     a small message is copied into the mirror (registered memory, laid out as the peer's ring)
//            and written from there; a long one that lies in ef_mem_alloc memory is written from where
//            it is
//   peek     shows the message where the device has put it, in the ring: nothing is fetched
//   release  the space goes back to the sender with the next credit, a quarter of the ring at the latest
#pragma once

#include "transport/transport.hpp"
#include "transport/verbs/rail.hpp"
#include "transport/waiter.hpp"

#include <memory>
#include <vector>

namespace ef::verbs {

struct channel_setup {
    peer_name peer;
    fd socket;                 // authenticated stream to the peer
    std::vector<rail*> rails;  // lane i uses rail i mod size; they outlive the channel
    uint32_t lanes = 1;        // the fewer of both ends' are used
    size_t ring_bytes = size_t(1) << 20;
    qp_settings settings;  // the MTU is the smaller of both ports'
};

/// Connects in progress(), without blocking. `w` outlives it.
result<std::unique_ptr<channel>> make_channel(channel_setup s, waiter& w);

}  // namespace ef::verbs
