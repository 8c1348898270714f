// Who this process is: what the other ranks are told of it.
#pragma once

#include "transport/bootstrap/group.hpp"

namespace ef {

/// host, host_id, pid and cpus; the addresses are the group's to fill in.
peer_info describe_self(const config& c);

/// On how many cores the ranks of r's host may run, all together. Ranks that are pinned to a core
/// each have as many as they are.
int cores_of_host(const group& g, rank_t r);

}  // namespace ef
