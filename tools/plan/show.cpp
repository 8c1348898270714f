// show: a fabric in words, JSON or a picture, with the loads of a plan if one is asked for.
#include "affinity/fabric/load.hpp"
#include "affinity/fabric/svg.hpp"
#include "perftests/common/exit_code.hpp"
#include "tools/plan/summary.hpp"
#include "tools/plan/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

namespace ef::planning {
namespace {

// The loads of a plan on each link.
struct shown_plan {
    const algorithm* algo = nullptr;
    load_report report;
    std::vector<double> peak;  // flows on the link in its fullest round, by link id
};

/// Flows per link in each round: what load_of() says of bytes when every flow carries one vector.
std::vector<double> peaks(const std::vector<flow_round>& flows, const fabric::routes& routes,
                          const job& j, unsigned subflows) {
    std::vector<double> peak(j.net.links().size(), 0);
    for (flow_round one : flows) {
        one.repeat = 1;
        for (flow& f : one.flows) f.part = 1;
        const load_report r = load_of({&one, 1}, routes, j.where, subflows, 0);
        for (size_t l = 0; l < peak.size() && l < r.bytes_on_link.size(); ++l)
            peak[l] = std::max(peak[l], r.bytes_on_link[l]);
    }
    return peak;
}

shown_plan read_plan(const options& o, const job& j) {
    shown_plan p;
    p.algo = &chosen_algorithm(o, j);
    const fabric::routes routes = j.routes(o.plan);
    const traffic t = traffic_of(*p.algo, j.request(o.plan.coll), true);
    p.report = load_of(t.flows, routes, j.where, o.plan.subflows, most_crowded);
    p.peak = peaks(t.flows, routes, j, o.plan.subflows);
    return p;
}

void print_tiers(const fabric::graph& g, const fabric_summary& s) {
    std::string text;
    if (g.bigraph)
        text = fmt::format("{} on each side of {}", g.bigraph->switches,
                           s.rails > 1 ? fmt::format("each of {} planes", s.rails) : "a BiGraph");
    else
        for (auto it = s.tiers.rbegin(); it != s.tiers.rend(); ++it)
            text += fmt::format("{}{} in tier {}", text.empty() ? "" : ", ", it->second, it->first);
    fmt::print("  switches          {} ({})\n", s.switches, text);
}

void print_summary(const fabric::graph& g) {
    const fabric_summary s = summarize(g);
    const bool same = s.least_gbps == s.most_gbps;
    fmt::print("{}\n", g.name);
    fmt::print("  hosts             {}", s.hosts);
    if (s.servers != s.hosts) fmt::print(" of {} servers, {} rails", s.servers, s.rails);
    fmt::print("\n");
    print_tiers(g, s);
    fmt::print("  links             {} cables to hosts, {} between switches", s.hosts, s.cables);
    if (s.down > 0) fmt::print(", {} of them down", s.down);
    if (same) fmt::print("; {} each way\n", text_of_gbps(s.most_gbps));
    else fmt::print("; {} to {} each way\n", text_of_gbps(s.least_gbps), text_of_gbps(s.most_gbps));
    fmt::print("  capacity          {} of hosts, {} between switches, each way\n",
               text_of_gbps(s.host_gbps), text_of_gbps(s.switch_gbps));
    if (s.oversubscription > 0)
        fmt::print("  oversubscription  {:.4g} (hosts' capacity over that of other links, at {})\n",
                   s.oversubscription, s.oversubscribed);
    if (!s.bisection_cut.empty())
        fmt::print("  bisection         {}, {:.4g} % of half the hosts' capacity ({})\n",
                   text_of_gbps(s.bisection_gbps), 200 * s.bisection_gbps / s.host_gbps,
                   s.bisection_cut);
}

/// "1 flow: 64 links", fullest last.
std::string histogram(const std::vector<double>& peak) {
    std::map<int, size_t> count;
    for (const double p : peak) ++count[int(std::ceil(p - 1e-9))];
    std::string text;
    for (const auto& [flows, links] : count)
        text += fmt::format("{}{} flow{}: {} link{}", text.empty() ? "" : ", ", flows,
                            flows == 1 ? "" : "s", links, links == 1 ? "" : "s");
    return text;
}

/// The first line of what the proof says; a picture has no room for all crowded links.
std::string first_line(const load_report& r, const fabric::graph& g) {
    const std::string text = text_of(r, g);
    return text.substr(0, text.find('\n'));
}

std::string draw(const options& o, const job& j, const shown_plan* plan) {
    fabric::picture p;
    p.notes.resize(j.net.nodes().size());
    std::map<fabric::node_id, std::vector<rank_t>> ranks;
    for (rank_t r = 0; r < j.nranks(); ++r) ranks[j.net.hosts()[j.where[size_t(r)]]].push_back(r);
    if (plan) {
        p.load = plan->peak;
        p.words = {text_of_plan(o, j, *plan->algo), first_line(plan->report, j.net)};
        for (const auto& [host, on_it] : ranks)
            p.notes[host] = on_it.size() == 1 ? fmt::format("rank {}", on_it[0])
                                              : fmt::format("ranks {}", fmt::join(on_it, " "));
    }
    const result<std::string> svg = fabric::draw_svg(j.net, p);
    if (!svg.ok())
        throw perf::failure(perf::exit_failed,
                            fmt::format("{}; show it as text or with --json", svg.why().text()));
    return *svg;
}

void write_file(const char* option, const std::string& file, const std::string& text) {
    if (file == "-") {
        std::fwrite(text.data(), 1, text.size(), stdout);
        return;
    }
    FILE* f = std::fopen(file.c_str(), "w");
    const bool good = f && std::fwrite(text.data(), 1, text.size(), f) == text.size();
    const int why = errno;
    if (!f || std::fclose(f) != 0 || !good)
        throw perf::failure(perf::exit_failed,
                            fmt::format("{} {}: {}", option, file, strerror(good ? errno : why)));
}

json json_of_graph(const fabric::graph& g, const shown_plan* plan) {
    json nodes = json::array(), links = json::array();
    for (const fabric::node& n : g.nodes()) {
        json v = {{"name", n.name},
                  {"kind", n.kind == fabric::node_kind::host ? "host" : "switch"},
                  {"tier", n.tier}};
        if (n.kind == fabric::node_kind::host) {
            v["server"] = n.server;
            v["rail"] = n.rail;
            if (!n.address.empty()) v["address"] = n.address;
        } else if (g.bigraph) {
            v["side"] = n.side == 0 ? "U" : "L";
        }
        nodes.push_back(std::move(v));
    }
    for (fabric::link_id l = 0; l < g.links().size(); ++l) {
        const fabric::link& e = g.edge(l);
        json v = {{"name", g.text_of(l)},  {"from", g.at(e.from).name},
                  {"to", g.at(e.to).name}, {"lane", e.lane},
                  {"gbps", e.gbps},        {"up", e.up}};
        if (plan) v["most_flows"] = plan->peak[l];
        if (plan) v["share_of_vector"] = plan->report.bytes_on_link[l];
        links.push_back(std::move(v));
    }
    return {{"nodes", nodes}, {"links", links}};
}

json json_of(const options& o, const job& j, const shown_plan* plan) {
    const fabric_summary s = summarize(j.net);
    json out = json_head(o);
    out["fabric"] = {
        {"name", j.net.name},
        {"hosts", s.hosts},
        {"servers", s.servers},
        {"rails", s.rails},
        {"switches", s.switches},
        {"switch_cables", s.cables},
        {"cables_down", s.down},
        {"host_gbps", s.host_gbps},
        {"switch_gbps", s.switch_gbps},
        {"oversubscription", s.oversubscription > 0 ? json(s.oversubscription) : json(nullptr)},
        {"bisection_gbps", s.bisection_cut.empty() ? json(nullptr) : json(s.bisection_gbps)},
        {"bisection_cut", s.bisection_cut}};
    if (plan) {
        out["plan"] = json_of_plan(o, j, *plan->algo);
        out["loads"] = json_of_loads(plan->report, j.net);
    }
    out.update(json_of_graph(j.net, plan));
    return out;
}

}  // namespace

int show(const options& o) {
    const auto j = make_job(o);
    const bool wanted = !o.plan.algorithm.empty() || !o.who.order.empty() || !o.svg.empty();
    shown_plan plan;
    if (wanted && o.plan.algorithm != "none" && j->nranks() > 1) plan = read_plan(o, *j);
    const shown_plan* shown = plan.algo ? &plan : nullptr;
    if (!o.svg.empty()) write_file("--svg", o.svg, draw(o, *j, shown));
    if (!o.write.empty()) write_file("--write", o.write, fabric::write_fabric(j->net));
    if (o.svg == "-" || o.write == "-") return perf::exit_good;
    if (o.json) {
        print_json(json_of(o, *j, shown));
        return perf::exit_good;
    }
    print_summary(j->net);
    if (shown) {
        fmt::print("  plan              {}\n", text_of_plan(o, *j, *plan.algo));
        fmt::print("  loads             {}\n", histogram(plan.peak));
        fmt::print("{}\n", text_of_loads(plan.report, j->net));
    }
    return perf::exit_good;
}

}  // namespace ef::planning
