#include "tools/plan/words.hpp"

#include <fmt/format.h>

#include <cmath>

namespace ef::planning {

namespace {

/// Three digits, no trailing zeros.
std::string three_digits(double x) { return fmt::format("{:.3g}", x); }

}  // namespace

std::string text_of_gbps(double gbps) {
    if (gbps >= 1000) return fmt::format("{:.6g} Tb/s", gbps / 1000);
    if (gbps >= 1 || gbps == 0) return fmt::format("{:.6g} Gb/s", gbps);
    return fmt::format("{:.6g} Mb/s", gbps * 1000);
}

std::string text_of_us(double us) {
    // A unit as soon as its number would print as 1000 of the one below.
    if (us < 999.5) return three_digits(us) + " us";
    if (us < 999.5e3) return three_digits(us / 1e3) + " ms";
    if (us < 999.5e6) return three_digits(us / 1e6) + " s";
    return fmt::format("{:.0f} s", us / 1e6);
}

std::string text_of_ratio(double ratio) {
    return fmt::format("{:.{}f}", ratio, ratio < 9.995 ? 2 : ratio < 99.95 ? 1 : 0);
}

std::string order_of(const job& j, const algorithm& a) {
    const plan_request r = j.request(EF_ALLREDUCE);
    if (a.order && a.accepts(r)) {
        const rank_order* order = a.order(r);
        if (order == &j.maps.halving) return j.maps.halving_says;
        if (order == &j.maps.ring) return j.maps.ring_says;
    }
    return j.order_says;
}

std::string text_of_plan(const options& o, const job& j, const algorithm& a) {
    std::string text =
        fmt::format("{} by {} on {} rank{} ({}), routing {}", collective_name(o.plan.coll), a.name,
                    j.nranks(), j.nranks() == 1 ? "" : "s", order_of(j, a), o.plan.routing);
    if (o.plan.routing == "ecmp") text += fmt::format(", seed {}", o.plan.seed);
    if (o.plan.subflows > 1) text += fmt::format(", {} subflows", o.plan.subflows);
    for (size_t i = 0; i < o.fail.size(); ++i)
        text += fmt::format("{}{}", i == 0 ? ", down: " : " ", o.fail[i]);
    return text;
}

std::string text_of_loads(load_report r, const fabric::graph& g) {
    constexpr size_t shown = 16;
    const size_t found = r.worst.size();
    if (found > shown) r.worst.resize(shown);
    std::string text = text_of(r, g);
    if (found > shown)
        text += fmt::format("\n  and {}{} more; --json lists them",
                            found == most_crowded ? "at least " : "", found - shown);
    return text;
}

json json_of_plan(const options& o, const job& j, const algorithm& a) {
    return {{"collective", collective_name(o.plan.coll)},
            {"algorithm", a.name},
            {"ranks", j.nranks()},
            {"order", order_of(j, a)},
            {"routing", o.plan.routing},
            {"seed", o.plan.seed},
            {"subflows", o.plan.subflows}};
}

json json_of_loads(const load_report& r, const fabric::graph& g) {
    json crowded = json::array();
    for (const crowded_link& c : r.worst) {
        json pairs = json::array();
        for (const auto& [from, to] : c.pairs) pairs.push_back({from, to});
        crowded.push_back({{"link", g.text_of(c.link)},
                           {"round", c.round},
                           {"flows", c.load},
                           {"rank_pairs", pairs}});
    }
    return {{"congestion_free", r.congestion_free()},
            {"rounds", r.rounds},
            {"most_flows", r.most},
            {"most_flows_by_round", r.by_round},
            {"crowded_links", crowded},
            {"unreachable", r.unreachable.ok() ? json(nullptr) : json(r.unreachable.text())}};
}

}  // namespace ef::planning
