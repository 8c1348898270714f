#include "perftests/common/exit_code.hpp"
#include "tools/plan/commands.hpp"

#include <cstdio>
#include <new>

namespace ef::planning {
namespace {

json given(const std::string& s) { return s.empty() ? json(nullptr) : json(s); }

void add_costs(json& j, const cost_options& c) {
    if (c.sizes.empty()) j["sizes_bytes"] = nullptr;
    else j["sizes_bytes"] = c.sizes;
    j["alpha_us"] = c.alpha_us;
    j["gamma_ns_per_byte"] = c.gamma_ns_per_byte;
    j["efficiency"] = c.efficiency;
}

int run(const options& o) {
    switch (o.what) {
    case command::show:
        return show(o);
    case command::prove:
        return prove(o);
    case command::price:
        return price(o);
    case command::compare:
        return compare(o);
    case command::map:
        return map_ranks(o);
    }
    return perf::exit_usage;
}

}  // namespace

json json_head(const options& o) {
    json in_force;
    if (o.what == command::compare) {
        in_force["fabrics"] = o.fabrics;
        in_force["all"] = o.all;
        add_costs(in_force, o.cost);
        in_force["trials"] = o.cost.trials;
        in_force["seed"] = o.plan.seed;
        in_force["policy"] = o.cost.policy;
        in_force["skew_us"] = o.cost.skew_us;
        in_force["jitter_us"] = o.cost.jitter_us;
    } else {
        in_force["fabric"] = o.fabrics.front();
        in_force["fail"] = o.fail;
        in_force["ranks"] = o.who.ranks > 0 ? json(o.who.ranks) : json(nullptr);
        in_force["place"] = given(o.who.place);
        if (o.what != command::price) in_force["algorithm"] = given(o.plan.algorithm);
        if (o.what == command::map) {
            in_force["launcher"] = o.launcher;
        } else {
            in_force["order"] = given(o.who.order);
            in_force["collective"] = collective_name(o.plan.coll);
            in_force["routing"] = o.plan.routing;
            in_force["seed"] = o.plan.seed;
            in_force["subflows"] = o.plan.subflows;
        }
        if (o.what == command::price) add_costs(in_force, o.cost);
        if (o.what == command::show) {
            in_force["svg"] = given(o.svg);
            in_force["write"] = given(o.write);
        }
    }
    return {{"eflops_plan", 1},
            {"version", ef_version()},
            {"command", command_name(o.what)},
            {"options", in_force}};
}

void print_json(const json& j) {
    fmt::print("{}\n", j.dump(2, ' ', false, json::error_handler_t::replace));
}

int plan_main(int argc, char** argv) {
    options o;
    if (const auto end = parse_options(argc, argv, o)) return *end;
    try {
        const int status = run(o);
        if (std::fflush(stdout) != 0 || std::ferror(stdout))
            throw perf::failure(perf::exit_failed, "standard output cannot be written");
        return status;
    } catch (const perf::failure& e) {
        fmt::print(stderr, "ef_plan: {}\n", e.what());
        return e.code();
    } catch (const std::bad_alloc&) {
        fmt::print(stderr, "ef_plan: out of memory\n");
        return perf::exit_failed;
    }
}

}  // namespace ef::planning
