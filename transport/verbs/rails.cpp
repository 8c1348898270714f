#include "transport/verbs/rails.hpp"

#include "transport/base/log.hpp"
#include "transport/verbs/loader.hpp"

#include <dirent.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <mutex>

namespace ef::verbs {
namespace {

std::vector<std::string> entries(const std::string& folder) {
    std::vector<std::string> all;
    if (DIR* d = opendir(folder.c_str())) {
        while (const dirent* e = readdir(d))
            if (e->d_name[0] != '.') all.emplace_back(e->d_name);
        closedir(d);
    }
    std::sort(all.begin(), all.end());
    return all;
}

std::string first_line(const std::string& path) {
    std::ifstream f(path);
    std::string s;
    std::getline(f, s);
    return s;
}

bool parse_gid(const std::string& text, gid_bytes& gid) {
    if (text.size() < 39) return false;
    for (size_t i = 0; i < 16; ++i) {
        const char* at = text.data() + i * 2 + i / 2;
        if (std::from_chars(at, at + 2, gid[i], 16).ptr != at + 2) return false;
    }
    return true;
}

// RoCE v2, and of those the most routable: IPv4, another global address, link-local.
int worth(const gid_bytes& g, const std::string& type, bool ethernet) {
    if (std::all_of(g.begin(), g.end(), [](uint8_t b) { return b == 0; })) return 0;
    if (!ethernet) return 1;
    if (type != "RoCE v2") return 0;
    const bool ipv4 = std::all_of(g.begin(), g.begin() + 10, [](uint8_t b) { return b == 0; }) &&
                      g[10] == 0xff && g[11] == 0xff;
    if (ipv4) return 3;
    return g[0] == 0xfe && (g[1] & 0xc0) == 0x80 ? 1 : 2;
}

bool chooses_itself(const config& c) { return c.device.empty() || c.device == "auto"; }

status choose_gid(const std::string& port, const std::string& name, int64_t wanted,
                  rail_address& a) {
    const bool ethernet = first_line(port + "/link_layer") == "Ethernet";
    int best = 0;
    for (const std::string& index : entries(port + "/gids")) {
        const int64_t i = atoll(index.c_str());
        gid_bytes g;
        if (i > 255 || (wanted >= 0 && i != wanted) ||
            !parse_gid(first_line(port + "/gids/" + index), g))
            continue;
        const int w = worth(g, first_line(port + "/gid_attrs/types/" + index), ethernet);
        const int rank = wanted >= 0 ? std::max(w, 1) : w;
        if (rank < best || (rank == best && (best == 0 || i > a.gid_index))) continue;
        best = rank;
        a = {uint8_t(i), g};
    }
    if (best > 0) return {};
    return status(
        EF_UNSUPPORTED,
        fmt::format("verbs:{}: no usable GID{}: give its network interface an address (ip address "
                    "add ...), or choose one with EFLOPS_GID_INDEX",
                    name, wanted >= 0 ? fmt::format(" at index {}", wanted) : ""));
}

}  // namespace

result<std::vector<rail_plan>> plan_rails(const config& c, const std::string& root) {
    const std::string top = root + "/sys/class/infiniband/";
    const bool automatic = chooses_itself(c);
    std::vector<rail_plan> plan;
    std::string seen;
    const auto add = [&](const std::string& device, const std::string& port) -> status {
        rail_plan p{device, uint8_t(atoi(port.c_str())), {}};
        if (status s =
                choose_gid(top + device + "/ports/" + port, p.name(), c.gid_index, p.address);
            !s.ok())
            return s;
        plan.push_back(std::move(p));
        return {};
    };
    status first;
    for (const std::string& device : entries(top)) {
        for (const std::string& port : entries(top + device + "/ports")) {
            const bool active =
                first_line(top + device + "/ports/" + port + "/state").starts_with("4:");
            seen += fmt::format("{}{}/{}{}", seen.empty() ? "" : ", ", device, port,
                                active ? "" : " (down)");
            if (!automatic || !active || !plan.empty()) continue;
            if (status s = add(device, port); !s.ok() && first.ok()) first = s;
        }
    }
    if (automatic) {
        if (!plan.empty()) return plan;
        if (!first.ok()) return first;
        return status(EF_UNSUPPORTED, seen.empty() ? "verbs: this machine has no RDMA device"
                                                   : "verbs: no port is active: " + seen);
    }
    for (size_t at = 0; at <= c.device.size();) {
        const size_t comma = std::min(c.device.find(',', at), c.device.size());
        const std::string one = c.device.substr(at, comma - at);
        at = comma + 1;
        const size_t slash = std::min(one.find('/'), one.size());
        const std::string device = one.substr(0, slash),
                          port = slash < one.size() ? one.substr(slash + 1) : "1";
        if (first_line(top + device + "/ports/" + port + "/state").empty())
            return status(EF_INVALID,
                          fmt::format("EFLOPS_DEVICE={}: there is no {}/{}; here are: {}", c.device,
                                      device, port, seen.empty() ? "none" : seen));
        if (status s = add(device, port); !s.ok()) return s;
    }
    return plan;
}

result<std::string> usable_rails(const config& c) {
    if (c.transport != "auto" && c.transport != "verbs") return std::string();
    result<std::vector<rail_plan>> plan = plan_rails(c);
    status why = plan.why();
    if (why.ok()) why = open_library(c.verbs_module).why();
    if (why.ok()) {
        std::string names;
        for (const rail_plan& p : *plan) names += (names.empty() ? "" : ",") + p.name();
        return names;
    }
    // What the user chose himself is not silently left out.
    if (c.transport == "verbs" || !chooses_itself(c))
        return why.in("EFLOPS_TRANSPORT=" + c.transport);
    static std::once_flag once;
    std::call_once(once, [&] { log(EF_LOG_INFO, "RDMA is not used: {}", why.text()); });
    return std::string();
}

result<std::vector<std::unique_ptr<rail>>> open_rails(const std::vector<rail_plan>& plan,
                                                      const config& c) {
    result<library*> l = open_library(c.verbs_module);
    if (!l.ok()) return l.why();
    std::vector<std::unique_ptr<rail>> rails;
    for (const rail_plan& p : plan) {
        std::unique_ptr<port> opened;
        if (const failure f = (*l)->open(p.device.c_str(), p.port, opened))
            return verbs_error(p.name(), "opening it", f);
        rails.push_back(std::make_unique<rail>(p.name(), std::move(opened), p.address));
    }
    return rails;
}

}  // namespace ef::verbs
