#include "tools/lab/address.hpp"

#include <fmt/core.h>
#include <net/if.h>

#include <algorithm>
#include <set>

namespace ef::lab {
namespace {

using namespace fabric;

constexpr ipv4 ten = 10u << 24, between_switches = 172u << 24 | 16u << 16;
constexpr uint32_t most_cables = 1u << 19;  // of /31 in 172.16.0.0/12
// Interface names in the way of sysctl's "all" and "default", and of the loopback.
constexpr std::string_view reserved[] = {"all", "default", "lo"};

bool plain(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string name_of_interface(const graph& g, link_id l, std::set<std::string>& taken) {
    const link& e = g.edge(l);
    if (g.at(e.from).kind == node_kind::host) return "eth0";
    std::string name = g.at(e.to).name;
    if (e.lane > 0) name += fmt::format("_{}", e.lane);
    const bool good =
        !name.empty() && name.size() < IFNAMSIZ && std::all_of(name.begin(), name.end(), plain) &&
        std::find(std::begin(reserved), std::end(reserved), name) == std::end(reserved) &&
        taken.insert(name).second;
    if (good) return name;
    name = fmt::format("link{}", l);
    return taken.insert(name).second ? name : fmt::format("link.{}", l);
}

}  // namespace

result<address_plan> address_plan::make(const graph& g) {
    address_plan p;
    p.sender_.resize(g.links().size());
    p.behind_.resize(g.nodes().size());
    p.interface_.resize(g.links().size());
    if (g.switches().size() > 256)
        return status(EF_UNSUPPORTED, fmt::format("{}: {} switches, a lab can have 256", g.name,
                                                  g.switches().size()));
    uint32_t cables = 0;
    for (uint32_t s = 0; s < g.switches().size(); ++s) {
        const node_id n = g.switches()[s];
        p.behind_[n] = ten | s << 16;
        std::set<std::string> taken;
        uint32_t port = 0;
        for (const link_id l : g.out(n)) {
            p.interface_[l] = name_of_interface(g, l, taken);
            const link_id back = g.edge(l).reverse;
            if (g.at(g.edge(l).to).kind == node_kind::host) {
                if (port == 256)
                    return status(
                        EF_UNSUPPORTED,
                        fmt::format("{}: more than 256 hosts on one switch", g.at(n).name));
                p.sender_[l] = p.behind_[n] | port++ << 8;
                p.sender_[back] = p.sender_[l] + 1;
                p.interface_[back] = "eth0";
            } else if (p.sender_[back] == 0) {
                if (cables == most_cables)
                    return status(EF_UNSUPPORTED,
                                  fmt::format("{}: more than {} cables", g.name, most_cables));
                p.sender_[l] = between_switches + 2 * cables++;
                p.sender_[back] = p.sender_[l] + 1;
            }
        }
    }
    for (link_id l = 0; l < g.links().size(); ++l) p.into_[p.sender_[g.edge(l).reverse]] = l;
    return p;
}

link_id address_plan::link_into(ipv4 address) const noexcept {
    const auto at = into_.find(address);
    return at == into_.end() ? none : at->second;
}

std::string text_of(ipv4 a) {
    return fmt::format("{}.{}.{}.{}", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255);
}

std::string namespace_prefix(const std::string& lab) { return fmt::format("eflab-{}-", lab); }

std::string namespace_of(const std::string& lab, const graph& g, node_id n) {
    std::string name = g.at(n).name;
    bool changed = name.size() > 64;
    name.resize(std::min<size_t>(name.size(), 64));
    for (char& c : name)
        if (!plain(c) && c != '.' && c != '-') {
            c = '_';
            changed = true;
        }
    if (changed) name += fmt::format(":{}", n);
    return namespace_prefix(lab) + name;
}

status check_name(const std::string& lab) {
    if (!lab.empty() && lab.size() <= 32 && std::all_of(lab.begin(), lab.end(), plain)) return {};
    return status(EF_INVALID, fmt::format("lab name \"{}\": 1 to 32 letters, digits and '_'", lab));
}

}  // namespace ef::lab
