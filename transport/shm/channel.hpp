// The shared-memory channel: between two ranks of one host.
//
// A message travels in the cheapest of four ways, chosen by the sender per message:
//   in_slot     up to 104 bytes, in the slot itself
//   in_ring     copied through the data ring (two copies, the second one usually is the reduction)
//   in_segment  the data lies in memory of ef_mem_alloc: only a reference travels, and the peer
//   reads it in place in_private  ordinary memory, and process_vm_readv is allowed and quicker than
//   two copies: one copy by the peer
#pragma once

#include "transport/transport.hpp"
#include "transport/waiter.hpp"

#include <memory>
#include <string_view>

namespace ef {

/// `socket`: authenticated unix stream socket to the peer; `dialler`: exactly one end says true.
/// `single_copy`: "auto", "on", "off" (EFLOPS_SHM_SINGLE_COPY). The channel connects in progress(),
/// without blocking. `w` outlives it.
result<std::unique_ptr<channel>> make_shm_channel(peer_name peer, fd socket, bool dialler,
                                                  std::string_view single_copy, waiter& w);

}  // namespace ef
