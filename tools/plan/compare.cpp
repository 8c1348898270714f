// compare: HDRM beside everything else that one could do with as many hosts and links. All of it is
// always printed: beside the weak ones alone HDRM would look better than it is.
#include "allreduce/cost/compare.hpp"

#include "perftests/common/exit_code.hpp"
#include "tools/plan/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace ef::planning {
namespace {

using cost::compare_row;
using cost::compare_time;

struct contender {
    const char* key;  // in JSON
    const char* says;
    const char* head[2];  // of its column
    compare_time compare_row::*time;
};
constexpr std::array<contender, 7> contenders{{
    {"hdrm", "HDRM, BiGraph, lanes by destination", {"HDRM", ""}, &compare_row::hdrm},
    {"ring", "ring, BiGraph, order free of congestion", {"ring", "ordered"}, &compare_row::ring},
    {"ring_random",
     "ring, leaf-spine, random placement, 1 path",
     {"ring", "random"},
     &compare_row::ring_random},
    {"halving_random",
     "halving, leaf-spine, random placement, 1 path",
     {"halving", "random"},
     &compare_row::halving_random},
    {"halving_random_4",
     "halving, leaf-spine, random placement, 4 paths",
     {"halving", "4 paths"},
     &compare_row::halving_random_4},
    {"near_leaf_spine",
     "halving near, leaf-spine, block order, 1 path",
     {"near", "leafspine"},
     &compare_row::near_leaf_spine},
    {"far_bigraph",
     "halving far, BiGraph, block order, 1 path",
     {"far", "BiGraph"},
     &compare_row::far_bigraph},
}};

struct contest {
    fabric::bigraph_shape shape;
    double gbps = 100;
    uint64_t bytes = 0;
    compare_row row{};
};

/// "8,4" or "8,4,2": S, H and L.
bool parse_shape(std::string_view text, fabric::bigraph_shape& s) {
    uint32_t* to[] = {&s.switches, &s.hosts, &s.lanes};
    const char *at = text.data(), *const end = text.data() + text.size();
    for (size_t i = 0; i < 3; ++i) {
        const auto [next, error] = std::from_chars(at, end, *to[i]);
        if (error != std::errc() || *to[i] == 0) return false;
        if (next == end) return i > 0;
        if (*next != ',') return false;
        at = next + 1;
    }
    return false;
}

contest parse_fabric(const std::string& text) {
    contest c;
    if (text.find_first_not_of("0123456789,") == std::string::npos) {
        if (!parse_shape(text, c.shape))
            throw perf::failure(perf::exit_usage,
                                fmt::format("compare: \"{}\" is not S,H or S,H,L", text));
        return c;
    }
    const fabric::graph g = load_net(text, {});
    if (!g.bigraph)
        throw perf::failure(
            perf::exit_usage,
            fmt::format("compare: {} is no BiGraph; price compares on any fabric", g.name));
    c.shape = *g.bigraph;
    c.gbps = g.edge(0).gbps;
    for (const fabric::link& l : g.links())
        if (l.gbps != c.gbps || !l.up)
            throw perf::failure(perf::exit_usage,
                                fmt::format("compare: {}: all links must be up and of one "
                                            "capacity; price compares on any fabric",
                                            g.name));
    return c;
}

/// N=64 and 512, small to large, at 25 and 100 Gb/s.
std::vector<contest> whole_table() {
    constexpr fabric::bigraph_shape n64{8, 4, 1, 1}, lanes{4, 8, 2, 1}, n512{16, 16, 1, 1};
    constexpr uint64_t kb = 1000, mb = 1'000'000;
    return {{n64, 25, mb, {}},          {n64, 25, 100 * mb, {}},  {n64, 100, 64 * kb, {}},
            {n64, 100, mb, {}},         {n64, 100, 16 * mb, {}},  {n64, 100, 100 * mb, {}},
            {lanes, 100, 100 * mb, {}}, {n512, 25, mb, {}},       {n512, 25, 100 * mb, {}},
            {n512, 100, mb, {}},        {n512, 100, 16 * mb, {}}, {n512, 100, 100 * mb, {}}};
}

cost::policy policy_of(std::string_view name) {
    if (name == "eager") return cost::policy::eager;
    if (name == "in_order") return cost::policy::in_order;
    return name == "barrier" ? cost::policy::barrier : cost::policy::pair;
}

void run(const options& o, contest& c) {
    cost::compare_case k;
    k.shape = c.shape;
    k.gbps = c.gbps;
    k.bytes = c.bytes;
    k.how.alpha_us = o.cost.alpha_us;
    k.how.gamma_ns_per_byte = o.cost.gamma_ns_per_byte;
    k.how.efficiency = o.cost.efficiency;
    k.how.seed = o.plan.seed;
    k.how.skew_us = o.cost.skew_us;
    k.how.jitter_us = o.cost.jitter_us;
    k.how.how = policy_of(o.cost.policy);
    k.simulated = o.cost.policy != "step";
    k.seeds = o.cost.trials;
    const result<compare_row> row = cost::compare(k);
    if (!row.ok())
        throw perf::failure(perf::exit_usage, fmt::format("compare: {}", row.why().text()));
    c.row = *row;
}

std::string shape_text(const fabric::bigraph_shape& s) {
    return fmt::format("S={} H={} L={}", s.switches, s.hosts, s.lanes);
}

/// Decimal, as networks count: "100 MB".
std::string bytes_text(uint64_t bytes) {
    static constexpr const char* unit[] = {"B", "KB", "MB", "GB", "TB"};
    int i = 0;
    for (; i < 4 && bytes >= 1000 && bytes % 1000 == 0; ++i) bytes /= 1000;
    return fmt::format("{} {}", bytes, unit[i]);
}

const contender& best_naive(const compare_row& row) {
    const compare_time* best = &row.best_naive();
    return *std::find_if(contenders.begin(), contenders.end(),
                         [&](const contender& c) { return &(row.*c.time) == best; });
}

std::string assumed_text(const options& o) {
    std::string how = "all ranks in step";
    if (o.cost.policy != "step") how = fmt::format("simulated, policy {}", o.cost.policy);
    if (o.cost.skew_us > 0) how += fmt::format(", skew {:g} us", o.cost.skew_us);
    if (o.cost.jitter_us > 0) how += fmt::format(", jitter {:g} us", o.cost.jitter_us);
    return fmt::format(
        "{:g} us per round, {:g} ns per byte reduced, {:g} of line rate\n"
        "          {}; random ones: mean of {} seeds from {}",
        o.cost.alpha_us, o.cost.gamma_ns_per_byte, o.cost.efficiency, how, o.cost.trials,
        o.plan.seed);
}

/// One contest: each contender on a line.
void print_contest(const contest& c) {
    fmt::print("\nBiGraph {}, {} hosts, {}, {}\n", shape_text(c.shape), c.shape.endpoints(),
               text_of_gbps(c.gbps), bytes_text(c.bytes));
    fmt::print("  {:<50} {:>8} {:>6} {:>5}\n", "", "time", "ratio", "load");
    for (const contender& k : contenders) {
        const compare_time& t = c.row.*k.time;
        fmt::print("  {:<50} {:>8} {:>6} {:>5.3g}\n", k.says, text_of_us(t.us),
                   text_of_ratio(t.us / c.row.hdrm.us), t.worst_load);
    }
    const contender& naive = best_naive(c.row);
    fmt::print("  best without a mapping: {}, {}\n", naive.says,
               text_of_ratio((c.row.*naive.time).us / c.row.hdrm.us));
}

/// Many contests: each on a line, ratios only.
void print_table(const std::vector<contest>& all) {
    for (const int line : {0, 1}) {
        fmt::print("{:<14}{:>6}{:>6}{:>8}", line == 0 ? "" : "BiGraph", line == 0 ? "" : "hosts",
                   line == 0 ? "" : "Gb/s", line == 0 ? "" : "bytes");
        for (const contender& k : contenders)
            fmt::print("{:>11}",
                       k.key == contenders[0].key ? (line == 0 ? "HDRM" : "time") : k.head[line]);
        fmt::print("\n");
    }
    for (const contest& c : all) {
        fmt::print("{:<14}{:>6}{:>6g}{:>8}", shape_text(c.shape), c.shape.endpoints(), c.gbps,
                   bytes_text(c.bytes));
        for (const contender& k : contenders) {
            const double us = (c.row.*k.time).us;
            if (&k == &contenders[0]) fmt::print("{:>11}", text_of_us(us));
            else fmt::print("{:>11}", text_of_ratio(us / c.row.hdrm.us));
        }
        fmt::print("\n");
    }
    fmt::print("\nRatios are times over that of HDRM.\n");
    for (const contender& k : contenders)
        if (k.head[1][0])
            fmt::print("  {:<18} {}\n", fmt::format("{} {}", k.head[0], k.head[1]), k.says);
}

json json_of(const options& o, const std::vector<contest>& all) {
    json out = json_head(o), rows = json::array();
    for (const contest& c : all) {
        json row = {{"switches_per_side", c.shape.switches},
                    {"hosts_per_switch", c.shape.hosts},
                    {"lanes", c.shape.lanes},
                    {"hosts", c.shape.endpoints()},
                    {"gbps", c.gbps},
                    {"bytes", c.bytes}};
        for (const contender& k : contenders) {
            const compare_time& t = c.row.*k.time;
            row[k.key] = {{"predicted_us", t.us},
                          {"spread_us", t.spread_us},
                          {"ratio_to_hdrm", t.us / c.row.hdrm.us},
                          {"worst_load_flows", t.worst_load}};
        }
        row["best_naive"] = best_naive(c.row).key;
        rows.push_back(std::move(row));
    }
    out["rows"] = rows;
    return out;
}

}  // namespace

int compare(const options& o) {
    std::vector<contest> all = whole_table();
    if (!o.all) {
        all.clear();
        for (const std::string& f : o.fabrics) {
            contest c = parse_fabric(f);
            for (const uint64_t bytes : o.cost.sizes) {
                c.bytes = bytes;
                all.push_back(c);
            }
        }
    }
    for (contest& c : all) run(o, c);
    if (o.json) {
        print_json(json_of(o, all));
        return perf::exit_good;
    }
    fmt::print("assumed   {}\n", assumed_text(o));
    fmt::print(
        "words     halving: halving-doubling; near, far: which partner comes first;\n"
        "          paths are hashed, but those of the first two\n");
    if (o.all) {
        fmt::print("\n");
        print_table(all);
    } else {
        for (const contest& c : all) print_contest(c);
    }
    return perf::exit_good;
}

}  // namespace ef::planning
