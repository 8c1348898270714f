#include "transport/transport.hpp"

#include <fmt/core.h>

namespace ef {

std::string peer_name::text() const { return fmt::format("rank {} ({}, pid {})", rank, host, pid); }

}  // namespace ef
