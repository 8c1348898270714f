// prove: the whole claim about a plan. Values and deadlock by running all ranks' plans on symbols
// (on random numbers above 64 ranks), links by laying every flow of every round on its path.
#include "allreduce/plan_check.hpp"
#include "perftests/common/exit_code.hpp"
#include "tools/plan/values.hpp"
#include "tools/plan/words.hpp"

#include <fmt/format.h>

namespace ef::planning {
namespace {

constexpr rank_t most_checked = 64;  // ranks that plan_check takes

enum class evidence { none, symbols, numbers };

struct verdict {
    evidence by = evidence::none;  // of the values
    status values;
    uint32_t blocks = 0, of_blocks = 0;  // of the run on numbers
    bool deadlock = false;
    traffic sent;
    load_report links;

    perf::exit_code exit_status() const {
        if (!values.ok()) return perf::exit_wrong_data;
        return links.congestion_free() ? perf::exit_good : perf::exit_missed;
    }
};

verdict examine(const options& o, const job& j, const algorithm& a) {
    verdict v;
    const plan_request like = j.request(o.plan.coll);
    const auto build = [&](rank_t r) {
        plan_request mine = like;
        mine.rank = r;
        return a.build(mine);
    };
    v.by = j.nranks() <= most_checked ? evidence::symbols : evidence::numbers;
    if (v.by == evidence::symbols) {
        v.values = check_plans(like, build);
    } else {
        numbers_run run = check_numbers(like, build);
        v.values = std::move(run.outcome);
        v.blocks = run.blocks, v.of_blocks = run.of;
    }
    if (v.values.code() == EF_UNSUPPORTED) v.by = evidence::none, v.values = {};
    v.deadlock = v.values.text().find("deadlock") != std::string_view::npos;
    const fabric::routes routes = j.routes(o.plan);
    v.sent = traffic_of(a, like, true);
    v.links = load_of(v.sent.flows, routes, j.where, o.plan.subflows, most_crowded);
    return v;
}

std::string values_text(const options& o, const verdict& v) {
    if (v.by == evidence::none) return "not run: too many ranks";
    if (!v.values.ok()) return fmt::format("WRONG: {}", v.values.text());
    if (v.by == evidence::numbers)
        return fmt::format(
            "right in a run on random 64-bit numbers{} (the proof on symbols is for {} ranks)",
            v.blocks < v.of_blocks ? fmt::format(", {} of {} blocks", v.blocks, v.of_blocks) : "",
            most_checked);
    switch (o.plan.coll) {
    case EF_BROADCAST:
        return "proved: every rank ends with the root's vector";
    case EF_ALLGATHER:
        return "proved: every rank ends with every rank's block";
    case EF_REDUCE_SCATTER:
        return "proved: each contribution exactly once in the block of each rank";
    default:
        return "proved: each contribution exactly once at each rank, the same bits on all";
    }
}

const char* deadlock_text(const verdict& v) {
    if (v.deadlock) return "THERE IS ONE";
    if (v.by == evidence::none) return "not run";
    if (v.values.ok() && v.by == evidence::numbers) return "none in that run";
    if (!v.values.ok()) return "not reached";
    return "none, even if no channel holds a message";
}

void print_text(const options& o, const job& j, const algorithm& a, const verdict& v) {
    fmt::print("fabric    {}\n", j.net.name);
    fmt::print("plan      {}\n", text_of_plan(o, j, a));
    fmt::print("values    {}\n", values_text(o, v));
    fmt::print("deadlock  {}\n", deadlock_text(v));
    if (v.sent.by_symmetry)
        fmt::print("flows     read from one rank's plan and the symmetry that {} declares\n",
                   a.name);
    fmt::print("{}\n", text_of_loads(v.links, j.net));
}

json json_of(const options& o, const job& j, const algorithm& a, const verdict& v) {
    json out = json_head(o);
    out["fabric"] = {{"name", j.net.name},
                     {"hosts", j.net.hosts().size()},
                     {"switches", j.net.switches().size()}};
    out["plan"] = json_of_plan(o, j, a);
    const char* by[] = {"none", "symbols", "random_numbers"};
    out["values"] = {
        {"evidence", by[int(v.by)]},
        {"right", v.by == evidence::none ? json(nullptr) : json(v.values.ok())},
        {"deadlock", v.by != evidence::none && (v.values.ok() || v.deadlock) ? json(v.deadlock)
                                                                             : json(nullptr)},
        {"text", values_text(o, v)}};
    out["flows_by_symmetry"] = v.sent.by_symmetry;
    out["links"] = json_of_loads(v.links, j.net);
    out["exit_status"] = int(v.exit_status());
    return out;
}

}  // namespace

int prove(const options& o) {
    const auto j = make_job(o);
    const algorithm& a = chosen_algorithm(o, *j);
    const verdict v = examine(o, *j, a);
    if (o.json) print_json(json_of(o, *j, a, v));
    else print_text(o, *j, a, v);
    return v.exit_status();
}

}  // namespace ef::planning
