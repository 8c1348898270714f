#include "tools/lab/print.hpp"

#include <eflops/eflops.h>
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace ef::lab {
namespace {

using namespace fabric;
using nlohmann::json;

std::string dumped(const json& j) {
    return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

json head(const lab& l) {
    const options& o = l.how();
    return {{"eflops_lab", 1},
            {"version", ef_version()},
            {"lab", o.name},
            {"fabric", l.net().name},
            {"source", o.source},
            {"options",
             {{"host_mbit_per_s", o.host_mbit},
              {"mtu_bytes", o.mtu},
              {"burst_bytes", o.burst_bytes},
              {"queue_bytes", o.queue_bytes},
              {"seed", o.seed},
              {"congestion", o.congestion}}}};
}

std::string condition_text(const lab& l, link_id i) {
    const link_condition& c = l.condition(i);
    std::string text;
    if (!c.up) text += " down";
    if (c.mbit != l.built_mbit(i)) text += fmt::format(" slow {:g} Mbit/s", c.mbit);
    if (c.loss_percent > 0) text += fmt::format(" lossy {:g}%", c.loss_percent);
    return text;
}

/// The width of the longest of these.
size_t width(const std::vector<std::string>& names, size_t least) {
    for (const std::string& n : names) least = std::max(least, n.size());
    return least;
}

}  // namespace

std::string show_text(const lab& l) {
    const graph& g = l.net();
    std::string text =
        fmt::format("lab {}: {}: {} hosts, {} switches, {} cables; {:g} Mbit/s per host, mtu {}\n",
                    l.how().name, g.name, g.hosts().size(), g.switches().size(),
                    g.links().size() / 2, l.how().host_mbit, l.how().mtu);
    std::vector<std::string> names{"host"}, links{"link"};
    for (const node_id n : g.hosts()) names.push_back(g.at(n).name);
    for (link_id i = 0; i < g.links().size(); ++i) links.push_back(g.text_of(i));
    const size_t w = width(names, 8), v = width(links, 8);
    text += fmt::format("\n{:<{}}  {:<15}  {:<10}  namespace\n", "host", w, "address", "switch");
    for (const node_id n : g.hosts())
        text +=
            fmt::format("{:<{}}  {:<15}  {:<10}  {}\n", g.at(n).name, w, text_of(l.address_of(n)),
                        g.at(g.switch_of(n)).name, l.namespace_name(n));
    text += fmt::format("\n{:<{}}  {:>10}  {:<15}  {:<15}\n", "link", v, "Mbit/s", "from", "to");
    for (link_id i = 0; i < g.links().size(); ++i)
        text += fmt::format("{:<{}}  {:>10g}  {:<15}  {:<15}{}\n", g.text_of(i), v, l.built_mbit(i),
                            text_of(l.addresses().sender(i)), text_of(l.addresses().receiver(g, i)),
                            condition_text(l, i));
    return text;
}

std::string show_json(const lab& l) {
    const graph& g = l.net();
    json j = head(l), hosts = json::array(), switches = json::array(), links = json::array();
    for (const node_id n : g.hosts())
        hosts.push_back({{"host", g.at(n).name},
                         {"server", g.at(n).server},
                         {"address", text_of(l.address_of(n))},
                         {"switch", g.at(g.switch_of(n)).name},
                         {"namespace", l.namespace_name(n)}});
    for (const node_id n : g.switches())
        switches.push_back({{"switch", g.at(n).name}, {"namespace", l.namespace_name(n)}});
    for (link_id i = 0; i < g.links().size(); ++i)
        links.push_back({{"link", g.text_of(i)},
                         {"from", g.at(g.edge(i).from).name},
                         {"to", g.at(g.edge(i).to).name},
                         {"interface", l.addresses().interface_of(i)},
                         {"from_address", text_of(l.addresses().sender(i))},
                         {"to_address", text_of(l.addresses().receiver(g, i))},
                         {"built_mbit_per_s", l.built_mbit(i)},
                         {"mbit_per_s", l.condition(i).mbit},
                         {"up", l.condition(i).up},
                         {"loss_percent", l.condition(i).loss_percent}});
    j["hosts"] = std::move(hosts);
    j["switches"] = std::move(switches);
    j["links"] = std::move(links);
    return dumped(j);
}

std::string counters_text(const lab& l, const std::vector<traffic>& t,
                          const std::vector<double>& planned, bool all) {
    const graph& g = l.net();
    std::vector<std::string> names{"link"};
    for (link_id i = 0; i < t.size(); ++i) names.push_back(g.text_of(i));
    const size_t w = width(names, 8);
    std::string text =
        fmt::format("{:<{}}  {:>14}  {:>10}  {:>8}", "link", w, "bytes", "packets", "dropped");
    text += planned.empty() ? "\n" : fmt::format("  {:>14}  {:>8}\n", "planned", "ratio");
    size_t silent = 0;
    for (link_id i = 0; i < t.size(); ++i) {
        const double plan = planned.empty() ? 0 : planned[i];
        const bool nothing = t[i].packets == 0 && t[i].dropped_packets == 0 && plan == 0;
        silent += nothing;
        if (nothing && !all) continue;
        text += fmt::format("{:<{}}  {:>14}  {:>10}  {:>8}", g.text_of(i), w, t[i].bytes,
                            t[i].packets, t[i].dropped_packets);
        if (!planned.empty()) text += fmt::format("  {:>14.0f}", plan);
        if (plan > 0) text += fmt::format("  {:>8.3f}", double(t[i].bytes) / plan);
        text += "\n";
    }
    if (silent > 0 && !all) text += fmt::format("{} other links carried nothing\n", silent);
    return text;
}

std::string counters_json(const lab& l, const std::vector<traffic>& t,
                          const std::vector<double>& planned) {
    json j = head(l), links = json::array();
    for (link_id i = 0; i < t.size(); ++i) {
        links.push_back({{"link", l.net().text_of(i)},
                         {"bytes", t[i].bytes},
                         {"packets", t[i].packets},
                         {"dropped_packets", t[i].dropped_packets}});
        if (!planned.empty()) links.back()["planned_bytes"] = planned[i];
    }
    j["links"] = std::move(links);
    return dumped(j);
}

}  // namespace ef::lab
