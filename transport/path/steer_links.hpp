// From the routers' addresses that all ranks have seen to the links that flows can meet on.
#pragma once

#include "transport/path/assign.hpp"
#include "transport/path/steer_wire.hpp"

#include <map>

namespace ef::path {

/// All flows of all ranks, ready for assign(), and what the numbers of links mean.
struct flow_table {
    std::vector<flow_ways> flows;   // by rank, then as that rank gave them; without a way: left out
    std::vector<uint32_t> first;    // by rank: number of flows before its own, of all it gave
    std::vector<int32_t> place;     // by flow as given: index in `flows`, or -1
    std::vector<std::string> name;  // by link number
    bool by_router = false;
};

/// Whether routers answer with one address each, judged by the last router of paths: entered by
/// another link it would otherwise say another address. `found` by rank.
bool named_by_router(std::span<const std::vector<found_flow>> found);

/// `host` by rank: its address, which names the ends of the first and last link.
flow_table make_flow_table(std::span<const std::vector<found_flow>> found,
                           std::span<const std::string> host, naming names);

}  // namespace ef::path
