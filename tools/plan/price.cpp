// price: the predicted time of every candidate over sizes, with what decides between them.
#include "allreduce/cost/fabric_price.hpp"
#include "perftests/common/exit_code.hpp"
#include "perftests/common/sizes.hpp"
#include "tools/plan/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace ef::planning {
namespace {

using cost::fabric_candidate;

// All candidates at one size, in the order of the registry.
struct column {
    uint64_t bytes = 0;
    std::vector<fabric_candidate> all;
    const fabric_candidate* best = nullptr;
    const fabric_candidate* next = nullptr;
};

column price_column(const options& o, std::span<const cost::fabric_reading> readings,
                    uint64_t bytes) {
    cost::simulation_options s;
    s.alpha_us = o.cost.alpha_us;
    s.gamma_ns_per_byte = o.cost.gamma_ns_per_byte;
    s.efficiency = o.cost.efficiency;
    column c;
    c.bytes = bytes;
    c.all = cost::price_on_fabric(readings, bytes, s);
    for (const fabric_candidate& k : c.all) {
        if (k.refused) continue;
        if (!c.best || k.us < c.best->us) c.next = c.best, c.best = &k;
        else if (!c.next || k.us < c.next->us) c.next = &k;
    }
    return c;
}

/// Over the best. One rank sends nothing and takes no time, whatever the algorithm.
double ratio(const column& c, const fabric_candidate& k) {
    return k.us > 0 ? k.us / c.best->us : 1;
}

std::string load_text(const fabric_candidate& k, const fabric::graph& g) {
    std::string text = fmt::format("{:.4g} flow{} on the fullest link", k.worst_load,
                                   k.worst_load == 1 ? "" : "s");
    if (k.worst_link != fabric::none) text += fmt::format(", {}", g.text_of(k.worst_link));
    return text;
}

/// What the second has more of than the best: the first of load, bytes, rounds by at least a tenth.
std::string why(const column& c, const fabric::graph& g) {
    const fabric_candidate &a = *c.best, &b = *c.next;
    if (b.worst_load > 1.1 * a.worst_load) return load_text(b, g);
    if (b.bytes_per_rank > 1.1 * a.bytes_per_rank)
        return fmt::format("sends {:.3g} vectors per rank, not {:.3g}", b.bytes_per_rank,
                           a.bytes_per_rank);
    if (b.rounds > a.rounds) return fmt::format("{} rounds, not {}", b.rounds, a.rounds);
    return "its rounds are longer";
}

std::string taken(const column& c, const fabric::graph& g) {
    const std::string text = fmt::format("{}, {}", c.best->algo->name, text_of_us(c.best->us));
    if (!c.next) return text + "; nothing else serves this call";
    const double times = ratio(c, *c.next);
    if (times < 1)
        return text + fmt::format("; {} is faster by less than a price is worth, with {}",
                                  c.next->algo->name, load_text(*c.next, g));
    if (times < 1.005) return text + fmt::format("; {} is as fast", c.next->algo->name);
    return text + fmt::format("; next {}, {} times that: {}", c.next->algo->name,
                              text_of_ratio(times), why(c, g));
}

/// Who was refused, by reason; with the sizes where it is not for all.
void print_refused(const std::vector<column>& columns) {
    std::map<std::string, std::string> by_reason;  // reason -> names
    for (size_t i = 0; i < columns[0].all.size(); ++i) {
        std::map<std::string, std::vector<std::string>> sizes;
        for (const column& c : columns)
            if (c.all[i].refused) sizes[c.all[i].refused].push_back(perf::format_size(c.bytes));
        for (const auto& [reason, at] : sizes) {
            std::string& names = by_reason[reason];
            names += fmt::format("{}{}", names.empty() ? "" : ", ", columns[0].all[i].algo->name);
            if (at.size() < columns.size()) names += fmt::format(" at {}", fmt::join(at, " "));
        }
    }
    if (!by_reason.empty()) fmt::print("\nnot considered:\n");
    for (const auto& [reason, names] : by_reason) fmt::print("  {}: {}\n", reason, names);
}

/// The first size at which candidate i is considered; null if at none.
const fabric_candidate* considered(const std::vector<column>& columns, size_t i) {
    for (const column& c : columns)
        if (!c.all[i].refused) return &c.all[i];
    return nullptr;
}

void print_table(const job& j, const std::vector<column>& columns) {
    size_t width = 9;
    for (size_t i = 0; i < columns[0].all.size(); ++i)
        if (considered(columns, i)) width = std::max(width, columns[0].all[i].algo->name.size());
    fmt::print("\n{:<{}}  rounds  load", "algorithm", width);
    for (const column& c : columns) fmt::print("  {:>14}", perf::format_size(c.bytes));
    fmt::print("\n");
    for (size_t i = 0; i < columns[0].all.size(); ++i) {
        const fabric_candidate* k = considered(columns, i);
        if (!k) continue;
        fmt::print("{:<{}}  {:>6}  {:>4.3g}", k->algo->name, width, k->rounds, k->worst_load);
        for (const column& c : columns) {
            if (c.all[i].refused) fmt::print("  {:>14}", "-");
            else
                fmt::print("  {:>8} {:>5}", text_of_us(c.all[i].us),
                           text_of_ratio(ratio(c, c.all[i])));
        }
        fmt::print("\n");
    }
    fmt::print("\ntaken:\n");
    for (const column& c : columns)
        fmt::print("{:>6}  {}\n", perf::format_size(c.bytes), taken(c, j.net));
    print_refused(columns);
}

void print_text(const options& o, const job& j, const std::vector<column>& columns) {
    fmt::print("fabric    {}\n", j.net.name);
    fmt::print("call      {} on {} rank{} ({}), routing {}", collective_name(o.plan.coll),
               j.nranks(), j.nranks() == 1 ? "" : "s", j.order_says, o.plan.routing);
    if (o.plan.routing == "ecmp") fmt::print(", seed {}", o.plan.seed);
    if (o.plan.subflows > 1) fmt::print(", {} subflows", o.plan.subflows);
    fmt::print(
        "\nassumed   {:g} us per message, {:g} ns per byte reduced, {:g} of line rate, all ranks "
        "in step\n",
        o.cost.alpha_us, o.cost.gamma_ns_per_byte, o.cost.efficiency);
    print_table(j, columns);
}

json json_of(const options& o, const job& j, const std::vector<column>& columns) {
    json out = json_head(o), sizes = json::array();
    out["fabric"] = {{"name", j.net.name}};
    out["ranks"] = j.nranks();
    for (const column& c : columns) {
        json all = json::array();
        for (const fabric_candidate& k : c.all) {
            if (k.refused) {
                all.push_back({{"algorithm", k.algo->name}, {"refused", k.refused}});
                continue;
            }
            all.push_back(
                {{"algorithm", k.algo->name},
                 {"predicted_us", k.us},
                 {"ratio_to_best", ratio(c, k)},
                 {"worst_load_flows", k.worst_load},
                 {"worst_link",
                  k.worst_link == fabric::none ? json(nullptr) : json(j.net.text_of(k.worst_link))},
                 {"rounds", k.rounds},
                 {"vectors_sent_per_rank", k.bytes_per_rank}});
        }
        sizes.push_back({{"bytes", c.bytes},
                         {"taken", c.best->algo->name},
                         {"predicted_us", c.best->us},
                         {"why", taken(c, j.net)},
                         {"candidates", all}});
    }
    out["sizes"] = sizes;
    return out;
}

}  // namespace

int price(const options& o) {
    const auto j = make_job(o);
    const fabric::routes routes = j->routes(o.plan);
    const auto readings =
        cost::read_on_fabric(j->request(o.plan.coll), routes, j->where, o.plan.subflows);
    std::vector<column> columns;
    for (const uint64_t bytes : o.cost.sizes) {
        columns.push_back(price_column(o, readings, bytes));
        if (columns.back().best) continue;
        // A ring serves every call, so what it lacks is the fabric's fault.
        std::string why;
        for (const fabric_candidate& k : columns.back().all)
            if (k.algo->name == "ring") why = k.refused;
        throw perf::failure(
            perf::exit_failed,
            fmt::format("{}: no algorithm is left for {} on these {} ranks: {}", j->net.name,
                        collective_name(o.plan.coll), j->nranks(), why));
    }
    if (o.json) print_json(json_of(o, *j, columns));
    else print_text(o, *j, columns);
    return perf::exit_good;
}

}  // namespace ef::planning
