// What ranks tell each other when they choose paths, and the exchange that carries it. One record
// per rank, of fields as in control_wire.hpp:
//
//   found    n (to k rounds[k] w way[w] why)*n      way: h address[h], why: text, "" if w > 0
//   checked  n (from to state last_seen next_silent)*n
#pragma once

#include "transport/bootstrap/control_wire.hpp"
#include "transport/path/steer.hpp"

#include <functional>

namespace ef::path {

/// What a rank has found of one of its flows.
struct found_flow {
    rank_t to = -1;
    std::vector<uint32_t> rounds;
    std::vector<std::vector<std::string>> ways;  // routers' addresses; "": silent
    std::string why;
};

bytes write_found(std::span<const found_flow> flows);
bool parse_found(std::span<const std::byte> in, rank_t nranks, std::vector<found_flow>& flows);
bytes write_checked(std::span<const checked_path> paths);
bool parse_checked(std::span<const std::byte> in, rank_t nranks, std::vector<checked_path>& paths);

/// Records of any length, by rank: two exchanges, of the lengths and of the longest.
result<std::vector<bytes>> exchange_records(group& g, const bytes& mine);

}  // namespace ef::path
