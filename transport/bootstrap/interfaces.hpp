// Which network interface the data listeners use: the one asked for by name, address or prefix;
// else loopback if the root is on loopback; else the one that routes to the root.
#pragma once

#include "transport/bootstrap/endpoint.hpp"

namespace ef {

struct interface_choice {
    endpoint address;  // port 0
    std::string name;
    std::string why;  // for the log
};

/// `root`: rank 0's address, or null where there is none yet. EF_INVALID lists what exists.
result<interface_choice> choose_interface(const std::string& wanted, const endpoint* root);
/// The loopback address, IPv4 where there is one.
interface_choice loopback_interface();

}  // namespace ef
