// place: which host of a fabric each rank runs on, by what the ranks say of themselves.
#pragma once

#include "allreduce/mapping/maps.hpp"
#include "transport/base/status.hpp"

#include <span>
#include <string>

namespace ef::mapping {

struct rank_identity {
    std::string host;     // its host name
    std::string host_id;  // EFLOPS_HOST_ID, or what the kernel says
    std::string address;  // IP address of its data listener, without the port
};

/// In this order: a host with the rank's address; a host named as its host name (whole, or up to the
/// first dot) or host id; a server of that name, whose hosts (NICs) the server's ranks take in turn.
/// The same on all ranks. The error names the first rank that is nowhere, and what there is.
result<placement> place(const fabric::graph& g, std::span<const rank_identity> ranks);

/// "10.0.0.1" of "10.0.0.1:4711", "fe80::1" of "[fe80::1]:4711".
std::string ip_of(const std::string& address_and_port);

}  // namespace ef::mapping
