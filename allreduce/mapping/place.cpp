#include "allreduce/mapping/place.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

namespace ef::mapping {
namespace {

constexpr uint32_t nowhere = fabric::none;

struct index {
    std::unordered_map<std::string, uint32_t> by_address, by_name;
    std::unordered_map<std::string, std::vector<uint32_t>> by_server;

    explicit index(const fabric::graph& g) {
        const auto hosts = g.hosts();
        for (uint32_t i = 0; i < hosts.size(); ++i) {
            const fabric::node& n = g.at(hosts[i]);
            if (!n.address.empty()) by_address.emplace(n.address, i);
            by_name.emplace(n.name, i);
            if (!n.server.empty()) by_server[n.server].push_back(i);
        }
        for (auto& [name, nics] : by_server)
            std::stable_sort(nics.begin(), nics.end(), [&](uint32_t a, uint32_t b) {
                return g.at(hosts[a]).rail < g.at(hosts[b]).rail;
            });
    }

    uint32_t named(const std::string& name) const {
        const auto it = by_name.find(name);
        return it == by_name.end() ? nowhere : it->second;
    }
};

std::vector<std::string> names_of(const rank_identity& r) {
    std::vector<std::string> names{r.host};
    if (const size_t dot = r.host.find('.'); dot != std::string::npos && dot > 0)
        names.push_back(r.host.substr(0, dot));
    names.push_back(r.host_id);
    return names;
}

std::string some_hosts(const fabric::graph& g) {
    constexpr size_t shown = 6;
    std::string t;
    for (size_t i = 0; i < std::min(shown, g.hosts().size()); ++i)
        t += (i ? ", " : "") + g.at(g.hosts()[i]).name;
    return g.hosts().size() > shown ? t + ", ..." : t;
}

}  // namespace

result<placement> place(const fabric::graph& g, std::span<const rank_identity> ranks) {
    const index known(g);
    std::unordered_map<std::string, size_t> taken;  // NICs of a server, so far
    placement where;
    for (size_t r = 0; r < ranks.size(); ++r) {
        uint32_t at = nowhere;
        if (const auto it = known.by_address.find(ranks[r].address); it != known.by_address.end())
            at = it->second;
        for (const std::string& name : names_of(ranks[r]))
            if (at == nowhere) at = known.named(name);
        for (const std::string& name : names_of(ranks[r])) {
            if (at != nowhere) break;
            const auto it = known.by_server.find(name);
            if (it != known.by_server.end()) at = it->second[taken[name]++ % it->second.size()];
        }
        if (at == nowhere)
            return status(EF_INVALID,
                          fmt::format("rank {} (host {}, address {}) is on no host of fabric {}, "
                                      "which has {}",
                                      r, ranks[r].host, ranks[r].address, g.name, some_hosts(g)));
        where.push_back(at);
    }
    return where;
}

std::string ip_of(const std::string& at) {
    if (at.starts_with('[')) return at.substr(1, at.find(']') - 1);
    return at.substr(0, at.rfind(':'));
}

}  // namespace ef::mapping
