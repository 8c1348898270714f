#include "allreduce/link_loads.hpp"

#include <fmt/format.h>

#include <string_view>
#include <unordered_map>

namespace ef {

link_loads::link_loads(const fabric::routes& routes, const mapping::placement& where,
                       uint32_t subflows)
    : routes_(routes), subflows_(subflows ? subflows : 1), share_(1.0 / subflows_) {
    const fabric::graph& g = routes.net();
    count_.resize(g.links().size());
    host_.reserve(where.size());
    server_.reserve(where.size());
    std::unordered_map<std::string_view, uint32_t> first_of;  // server: its first host
    for (const uint32_t h : where) {
        const fabric::node_id n = g.hosts()[h];
        host_.push_back(n);
        const std::string& server = g.at(n).server;
        server_.push_back(server.empty() ? n : first_of.try_emplace(server, n).first->second);
    }
}

bool link_loads::find(const flow& f) {
    path_.clear();
    for (uint32_t s = 0; s < subflows_; ++s)
        if (!append(f, s, path_)) {
            path_.clear();
            return false;
        }
    return true;
}

bool link_loads::lay(const flow& f) {
    if (!find(f)) return false;
    for (const fabric::link_id l : path_) {
        counter& c = count_[l];
        if (c.flows++ == 0) touched_.push_back(l);
        c.parts += f.part;
    }
    return true;
}

std::span<const fabric::link_id> link_loads::path_of(const flow& f) {
    find(f);
    return path_;
}

status link_loads::no_path(const flow& f) const {
    const fabric::graph& g = routes_.net();
    return status(EF_PEER_LOST, fmt::format("no path from {} (rank {}) to {} (rank {})",
                                            g.at(host_[size_t(f.from)]).name, f.from,
                                            g.at(host_[size_t(f.to)]).name, f.to));
}

void link_loads::clear() noexcept {
    for (const fabric::link_id l : touched_) count_[l] = {};
    touched_.clear();
}

}  // namespace ef
