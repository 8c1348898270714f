#include "tools/plan/options.hpp"

#include "perftests/common/exit_code.hpp"
#include "perftests/common/sizes.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>

namespace ef::planning {
namespace {

struct named_collective {
    const char* name;
    ef_collective_t coll;
};
constexpr std::array<named_collective, 4> collectives{{{"allreduce", EF_ALLREDUCE},
                                                       {"reduce_scatter", EF_REDUCE_SCATTER},
                                                       {"allgather", EF_ALLGATHER},
                                                       {"broadcast", EF_BROADCAST}}};

/// Names and the kind of value only: ranges and defaults are said in words.
class help_formatter : public CLI::Formatter {
public:
    help_formatter() { column_width(26); }
    // Where a FABRIC is required there is one.
    std::string make_option_usage(const CLI::Option* opt) const override {
        return opt->get_required() ? opt->get_name() : CLI::Formatter::make_option_usage(opt);
    }
    std::string make_option_opts(const CLI::Option* opt) const override {
        if (opt->get_type_size() == 0) return {};
        const std::string type = opt->get_type_name();  // with what its checks accept behind ':'
        return " " + type.substr(0, type.find(':'));
    }
};

/// One of some words, else an error that lists them.
CLI::Option* add_word(CLI::App& app, const char* name, std::string& to, const char* words,
                      std::vector<std::string> accepted) {
    return app.add_option_function<std::string>(
        name,
        [&to, accepted, name](const std::string& text) {
            if (std::find(accepted.begin(), accepted.end(), text) == accepted.end())
                throw CLI::ValidationError(
                    fmt::format("{}: \"{}\" is none of {}", name, text, fmt::join(accepted, ", ")));
            to = text;
        },
        words);
}

void add_fabric(CLI::App& app, options& o) {
    // More than one is refused in complete(), after options that are not known.
    app.add_option("FABRIC", o.fabrics, "a file or a text, see below")
        ->type_name("")
        ->required()
        ->expected(-1);
    app.footer(
        "FABRIC is a file (JSON, ibnetdiscover, Slurm topology.conf) or one of\n"
        "  bigraph:S=4,H=2[,L=1][,rails=1][,gbps=100]\n"
        "  leafspine:leaves=4,hosts=4,spines=4[,gbps=100]\n"
        "  fattree:k=4[,gbps=100]\n"
        "  single:hosts=16[,gbps=100]");
    app.add_option("--fail", o.fail, "links (U0-L1, U0-L1/1 for lane 1) or switches that are down")
        ->type_name("NAME,...")
        ->delimiter(',')
        ->allow_extra_args(false);
}

void add_ranks(CLI::App& app, ranks_options& o) {
    auto* n = app.add_option("--ranks", o.ranks, "ranks, on the first hosts [one per host]")
                  ->type_name("N")
                  ->check(CLI::Range(1, 1 << 20));
    app.add_option("--place", o.place, "file with a line for each rank: its host, or a rank file")
        ->type_name("FILE")
        ->excludes(n);
}

void add_order(CLI::App& app, ranks_options& o) {
    app.add_option("--order", o.order,
                   "who is rank 0, 1, ..: hdrm, ring, block, random, or a file with one rank a "
                   "line [as placed]")
        ->type_name("ORDER");
}

void add_routing(CLI::App& app, plan_options& o) {
    add_word(app, "--routing", o.routing,
             "ecmp: every switch hashes; static: by destination, lanes by the lane rule [ecmp]",
             {"ecmp", "static"})
        ->type_name("HOW");
    app.add_option("--seed", o.seed, "of the hash and of random orders [1]")->type_name("N");
    app.add_option("--subflows", o.subflows, "connections per pair that share its bytes [1]")
        ->type_name("K")
        ->check(CLI::Range(1, 64));
}

void add_algorithm(CLI::App& app, plan_options& o, const char* words) {
    app.add_option("--algorithm", o.algorithm, words)->type_name("NAME");
}

void add_collective(CLI::App& app, plan_options& o) {
    app.add_option_function<std::string>(
           "--collective",
           [&o](const std::string& text) {
               std::vector<std::string> names;
               for (const auto& c : collectives) {
                   names.push_back(c.name);
                   if (text == c.name) {
                       o.coll = c.coll;
                       return;
                   }
               }
               throw CLI::ValidationError(
                   fmt::format("--collective: \"{}\" is none of {}", text, fmt::join(names, ", ")));
           },
           "allreduce, reduce_scatter, allgather or broadcast [allreduce]")
        ->type_name("NAME");
}

void add_costs(CLI::App& app, cost_options& o, const char* sizes) {
    app.add_option_function<std::string>(
           "-s,--sizes",
           [&o](const std::string& text) {
               std::string why;
               o.sizes = perf::parse_sizes(text, why);
               if (o.sizes.empty()) throw CLI::ValidationError("--sizes: " + why);
           },
           sizes)
        ->type_name("SIZES");
    app.add_option("--alpha-us", o.alpha_us, "latency of a round, us [5]")
        ->type_name("US")
        ->check(CLI::Range(0.0, 1e6));
    app.add_option("--gamma", o.gamma_ns_per_byte, "reduction, ns per byte [0]")
        ->type_name("NS")
        ->check(CLI::Range(0.0, 1e3));
    app.add_option("--efficiency", o.efficiency, "goodput over line rate, 0.95 for RoCE [1]")
        ->type_name("X")
        ->check(CLI::Range(0.01, 1.0));
}

void add_json(CLI::App& app, options& o) { app.add_flag("--json", o.json, "JSON instead of text"); }

void add_show(CLI::App& app, options& o) {
    add_fabric(app, o);
    add_ranks(app, o.who);
    add_order(app, o.who);
    add_algorithm(app, o.plan,
                  "whose loads are shown; none: no loads [hdrm with --svg, else none]");
    add_collective(app, o.plan);
    add_routing(app, o.plan);
    app.add_option("--svg", o.svg, "write a picture: loads as colour and width; - for stdout")
        ->type_name("FILE");
    app.add_option("--write", o.write, "write the fabric as a file of ours; - for stdout")
        ->type_name("FILE");
    add_json(app, o);
}

void add_prove(CLI::App& app, options& o) {
    add_fabric(app, o);
    add_ranks(app, o.who);
    add_order(app, o.who);
    add_algorithm(app, o.plan, "plan to prove [hdrm; with --order halving_doubling]");
    add_collective(app, o.plan);
    add_routing(app, o.plan);
    add_json(app, o);
}

void add_price(CLI::App& app, options& o) {
    add_fabric(app, o);
    add_ranks(app, o.who);
    add_order(app, o.who);
    add_collective(app, o.plan);
    add_routing(app, o.plan);
    add_costs(app, o.cost,
              "bytes: N, FIRST:LAST[:xN|:+N], or a list by commas; K M G are 2^10.. "
              "[1K:1G:x16]");
    add_json(app, o);
}

void add_compare(CLI::App& app, options& o) {
    app.add_option("FABRIC", o.fabrics,
                   "BiGraphs: bigraph:S=8,H=4[,L=1][,gbps=100], S,H[,L], or a file")
        ->type_name("...")
        ->expected(-1);
    app.add_flag("--all", o.all, "the published table: 12 rows of 64 and 512 hosts");
    add_costs(app, o.cost, "bytes, as in price [1000000,100000000]");
    app.add_option("--trials", o.cost.trials, "random placements that are averaged [20]")
        ->type_name("N")
        ->check(CLI::Range(1, 10000));
    app.add_option("--seed", o.plan.seed, "of the first placement [1]")->type_name("N");
    add_word(app, "--policy", o.cost.policy,
             "step: all ranks in step; else simulated: pair, barrier, in_order or eager [step]",
             {"step", "pair", "barrier", "in_order", "eager"})
        ->type_name("NAME");
    app.add_option("--skew-us", o.cost.skew_us, "ranks start within this time; simulated, us [0]")
        ->type_name("US")
        ->check(CLI::Range(0.0, 1e6));
    app.add_option("--jitter-us", o.cost.jitter_us,
                   "mean delay of a rank before a round; simulated, us [0]")
        ->type_name("US")
        ->check(CLI::Range(0.0, 1e6));
    add_json(app, o);
}

void add_map(CLI::App& app, options& o) {
    add_fabric(app, o);
    add_ranks(app, o.who);
    add_algorithm(app, o.plan, "hdrm (any halving-doubling) or ring: whose order [hdrm]");
    add_word(app, "--launcher", o.launcher,
             "openmpi: rankfile; mpich: host file of mpiexec.hydra; srun: SLURM_HOSTFILE; hosts: "
             "what --place reads [hosts]",
             {"openmpi", "mpich", "srun", "hosts"})
        ->type_name("NAME");
    add_json(app, o);
}

struct command_entry {
    command what;
    const char* name;
    const char* says;
    void (*add)(CLI::App&, options&);
};
constexpr std::array<command_entry, 5> commands{{
    {command::show, "show", "describe a fabric, as text, JSON or a picture", add_show},
    {command::prove, "prove", "prove a plan: values, deadlock, and flows on every link", add_prove},
    {command::price, "price", "predict the time of every candidate over sizes", add_price},
    {command::compare, "compare", "HDRM against ring, best naive order and random placements",
     add_compare},
    {command::map, "map", "write the order of ranks for a launcher", add_map},
}};

/// CLI11 says only that a command is lacking, whatever stands in its place.
std::string check_command(int argc, char** argv) {
    if (argc < 2 || argv[1][0] == '-') return {};
    std::string names;
    for (const command_entry& e : commands) {
        if (std::string_view(argv[1]) == e.name) return {};
        names += fmt::format("{}{}", names.empty() ? "" : ", ", e.name);
    }
    return fmt::format("\"{}\" is none of {}", argv[1], names);
}

/// Defaults that depend on the command, and conflicts between options.
std::string complete(options& o) {
    std::string why;
    if (o.cost.sizes.empty() && o.what == command::price)
        o.cost.sizes = perf::parse_sizes("1K:1G:x16", why);
    if (o.what == command::compare) {
        if (o.all && !o.fabrics.empty()) return "compare: give a FABRIC or --all, not both";
        if (o.all && !o.cost.sizes.empty())
            return "compare: --all has its own sizes; give --sizes with a FABRIC";
        if (o.cost.policy == "step" && (o.cost.skew_us > 0 || o.cost.jitter_us > 0))
            return "compare: --skew-us and --jitter-us need a --policy other than step";
        if (!o.all && o.fabrics.empty()) return "compare: give a FABRIC, or --all";
        if (o.cost.sizes.empty() && !o.all) o.cost.sizes = {1'000'000, 100'000'000};
    }
    if (o.what != command::compare && o.fabrics.size() > 1)
        return fmt::format("{}: one FABRIC, not {}: {}", command_name(o.what), o.fabrics.size(),
                           fmt::join(o.fabrics, " "));
    if (o.what == command::price)
        for (const uint64_t n : o.cost.sizes)
            if (n == 0) return "price: --sizes: a vector has 1 byte or more";
    if (int(o.svg == "-") + int(o.write == "-") + int(o.json) > 1)
        return "show: --json, --svg - and --write - cannot share standard output: give files";
    if (o.what == command::map && !o.plan.algorithm.empty() && o.plan.algorithm != "hdrm" &&
        o.plan.algorithm != "ring")
        return fmt::format("map: --algorithm: \"{}\" is none of hdrm, ring", o.plan.algorithm);
    return why;
}

}  // namespace

std::string_view command_name(command c) noexcept {
    for (const command_entry& e : commands)
        if (e.what == c) return e.name;
    return "?";
}

std::string_view collective_name(ef_collective_t c) noexcept {
    for (const named_collective& n : collectives)
        if (n.coll == c) return n.name;
    return "?";
}

std::optional<int> parse_options(int argc, char** argv, options& o) {
    CLI::App app(
        "Plan collectives on a fabric: show it, prove that no link is shared, predict times, and "
        "place the ranks.",
        "ef_plan");
    app.set_version_flag("-V,--version", fmt::format("ef_plan {}", ef_version()));
    app.set_help_all_flag("--help-all", "Print the options of all commands and exit");
    app.require_subcommand(1);
    app.formatter(std::make_shared<help_formatter>());
    for (const command_entry& e : commands) {
        CLI::App* sub = app.add_subcommand(e.name, e.says);
        sub->formatter(std::make_shared<help_formatter>());
        sub->callback([&o, what = e.what] { o.what = what; });
        e.add(*sub, o);
    }
    app.footer(
        "Example: ef_plan prove bigraph:S=4,H=2\nExit status: 0 good, 1 failed, 2 usage, 3 not "
        "free of congestion, 4 wrong values.");
    std::string wrong = check_command(argc, argv);
    try {
        if (wrong.empty()) {
            app.parse(argc, argv);
            wrong = complete(o);
        }
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version: stdout
        wrong = e.what();
    }
    if (wrong.empty()) return std::nullopt;
    std::replace(wrong.begin(), wrong.end(), '\n', ' ');
    fmt::print(stderr, "ef_plan: {}\n", wrong);
    return perf::exit_usage;
}

}  // namespace ef::planning
