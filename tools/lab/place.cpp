// Which rank sits on which host.
#include "allreduce/mapping/maps.hpp"
#include "tools/lab/run.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <numeric>

namespace ef::lab {

using namespace fabric;

namespace {

constexpr const char* orders = "fabric, reverse, random, random:SEED, halving or ring";

std::vector<node_id> hosts_at(const graph& g, const mapping::placement& index) {
    std::vector<node_id> hosts;
    for (const uint32_t i : index) hosts.push_back(g.hosts()[i]);
    return hosts;
}

}  // namespace

result<std::vector<node_id>> place_in_order(const graph& g, std::string_view order) {
    mapping::placement all(g.hosts().size());
    std::iota(all.begin(), all.end(), 0);
    if (order == "fabric") return hosts_at(g, all);
    if (order == "reverse") {
        std::reverse(all.begin(), all.end());
        return hosts_at(g, all);
    }
    if (order == "halving" || order == "ring") {
        const rank_maps maps = mapping::make_maps(g, all);
        const rank_order& o = order == "ring" ? maps.ring : maps.halving;
        if (o.empty())
            return status(EF_UNSUPPORTED, fmt::format("{}: no order for {}", g.name, order));
        return hosts_at(g, mapping::placed_by(o, all));
    }
    if (order.starts_with("random")) {
        uint64_t seed = 1;
        const std::string_view rest = order.substr(6);
        const char* const end = rest.data() + rest.size();
        if (rest.empty() ||
            (rest[0] == ':' && std::from_chars(rest.data() + 1, end, seed).ptr == end &&
             rest.size() > 1))
            return hosts_at(
                g, mapping::placed_by(mapping::random_order(rank_t(all.size()), seed), all));
    }
    return status(EF_INVALID, fmt::format("order \"{}\": {}", order, orders));
}

result<std::vector<node_id>> place_from_file(const graph& g, const std::string& file) {
    std::ifstream in(file);
    if (!in) return system_error(file, errno);
    std::vector<node_id> hosts;
    std::string line;
    for (size_t number = 1; std::getline(in, line); ++number) {
        line.erase(std::min(line.find('#'), line.size()));
        const size_t from = line.find_first_not_of(" \t\r");
        if (from == std::string::npos) continue;
        const std::string name = line.substr(from, line.find_last_not_of(" \t\r") + 1 - from);
        const node_id n = g.find(name);
        if (n == none || g.at(n).kind != node_kind::host)
            return status(EF_INVALID, fmt::format("{}:{}: \"{}\" is no host of {}", file, number,
                                                  name, g.name));
        hosts.push_back(n);
    }
    if (in.bad()) return system_error(file, errno);
    if (hosts.empty()) return status(EF_INVALID, fmt::format("{}: no host in it", file));
    return hosts;
}

}  // namespace ef::lab
