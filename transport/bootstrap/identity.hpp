// Who this process is: what the other ranks are told of it.
#pragma once

#include "transport/bootstrap/group.hpp"

namespace ef {

/// host, host_id, pid and cores; the addresses are the group's to fill in.
peer_info describe_self(const config& c);

}  // namespace ef
