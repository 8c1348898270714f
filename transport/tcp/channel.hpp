// The tcp channel: one or more connections to a peer on another host, or on this one when shared
// memory is not wanted. tcp_wire.hpp says what travels on which connection.
//
// Small messages are one system call on either side; peek() asks the socket itself, so a loop
// around it polls the network without epoll. Long ones go from the caller's memory to the kernel
// and from there to where fetch() is told, without a buffer between.
#pragma once

#include "transport/base/fd.hpp"
#include "transport/transport.hpp"
#include "transport/waiter.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ef {

/// `sockets`: one or more authenticated, connected, non-blocking stream sockets to `peer`, in the
/// same order on both sides. `medium`: "tcp:eth0". `w` outlives the channel. What goes wrong here
/// is the channel's error().
std::unique_ptr<channel> make_tcp_channel(peer_name peer, std::vector<fd> sockets,
                                          std::string medium, waiter& w);

/// The same with sockets that carry data one way only: `out` were dialled by this end, which so has
/// chosen the way that its data takes through the network, `in` by the peer. At least one of each;
/// the peer's `in` is our `out` in the same order.
std::unique_ptr<channel> make_tcp_channel(peer_name peer, std::vector<fd> out, std::vector<fd> in,
                                          std::string medium, waiter& w);

}  // namespace ef
