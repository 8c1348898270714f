// ibnetdiscover_lines: the lines of ibnetdiscover's output, before they make a fabric.
#pragma once

#include "affinity/fabric/file_source.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace ef::fabric {

struct ib_device {
    char kind = 'S';  // S switch, H adapter, R router, as in the id
    std::string_view id, description;
    uint32_t ports = 0;
    size_t at = 0;
};

/// One end of a cable: "port `port` of `device` leads to port `peer_port` of `peer`".
struct ib_wire {
    uint32_t device = 0, port = 0, peer_port = 0;
    std::string_view peer;
    double gbps = 0;
    size_t at = 0;
};

/// Parts of the source's text.
struct ib_lines {
    std::vector<ib_device> devices;
    std::vector<ib_wire> wires;
};

result<ib_lines> read_ib_lines(const source& s);

}  // namespace ef::fabric
