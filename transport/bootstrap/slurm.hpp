// Slurm's compressed host lists, as far as finding the first host needs them.
#pragma once

#include "transport/base/status.hpp"

#include <string>
#include <string_view>

namespace ef {

/// "node[03-05,9]-ib,login" -> "node03-ib".
result<std::string> first_slurm_host(std::string_view list);

}  // namespace ef
