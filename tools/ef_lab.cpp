// ef_lab: a fabric of network namespaces on this machine: built, used, broken, measured, removed.
#include "affinity/fabric/load.hpp"
#include "perftests/common/exit_code.hpp"
#include "perftests/common/sizes.hpp"
#include "tools/lab/lab.hpp"
#include "tools/lab/planned.hpp"
#include "tools/lab/print.hpp"
#include "tools/lab/private.hpp"
#include "tools/lab/run.hpp"
#include "transport/base/clock.hpp"

#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace {

using namespace ef;

struct arguments {
    lab::options built;
    std::string fabric;
    // run
    lab::run_options job;
    int ranks = 0;
    double timeout_s = 300, grace_s = 10;
    std::string order = "fabric", place;
    bool tell_fabric = false;
    // fault
    std::string where;
    lab::fault_kind what = lab::fault_kind::down;
    double amount = -1;
    bool no_reroute = false, one_way = false;
    // show, counters, down
    bool json = false, reset = false, all = false;
    std::string beside, vector = "0";
};

const std::map<std::string, lab::fault_kind> faults = {
    {"down", lab::fault_kind::down},   {"up", lab::fault_kind::up},
    {"slow", lab::fault_kind::slow},   {"lossy", lab::fault_kind::lossy},
    {"pause", lab::fault_kind::pause}, {"resume", lab::fault_kind::resume},
    {"kill", lab::fault_kind::kill},
};
const std::map<std::string, lab::line_prefix> prefixes = {{"host", lab::line_prefix::host},
                                                          {"rank", lab::line_prefix::rank},
                                                          {"none", lab::line_prefix::none}};

int complain(const status& s) {
    fmt::print(stderr, "ef_lab: {}\n", s.text());
    if (s.code() == EF_UNSUPPORTED) return perf::exit_cannot_run;
    return s.code() == EF_INVALID ? perf::exit_usage : perf::exit_failed;
}

// ---------------------------------------------------------------- commands

result<lab::lab> build(const arguments& a) {
    result<fabric::graph> g = fabric::load_fabric(a.fabric);
    if (!g.ok()) return g.why();
    lab::options o = a.built;
    o.source = a.fabric;
    return lab::lab::build(*g, o);
}

int up(const arguments& a) {
    const uint64_t start = now_ns();
    const result<lab::lab> l = build(a);
    if (!l.ok()) return complain(l.why());
    const fabric::graph& g = l->net();
    fmt::print("lab {}: {}: {} hosts, {} switches, {} cables, up in {:.2f} s\n", l->how().name,
               g.name, g.hosts().size(), g.switches().size(), g.links().size() / 2,
               double(now_ns() - start) / 1e9);
    return perf::exit_good;
}

int with(const arguments& a) {
    std::vector<std::string> command = a.job.command;
    const char* const shell = getenv("SHELL");
    if (command.empty()) command = {shell && *shell ? shell : "/bin/sh"};
    const result<int> code = lab::in_private_world([&]() -> int {
        const result<lab::lab> l = build(a);
        if (!l.ok()) return complain(l.why());
        setenv("EF_LAB", l->how().name.c_str(), 1);
        const result<int> end = lab::run_to_its_end(command);
        if (const result<size_t> gone = lab::lab::remove(l->how().name); !gone.ok())
            complain(gone.why());
        return end.ok() ? *end : complain(end.why());
    });
    return code.ok() ? *code : complain(code.why());
}

int run(arguments& a) {
    const result<lab::lab> l = lab::lab::open(a.built.name);
    if (!l.ok()) return complain(l.why());
    result<std::vector<fabric::node_id>> place = a.place.empty()
                                                     ? lab::place_in_order(l->net(), a.order)
                                                     : lab::place_from_file(l->net(), a.place);
    if (!place.ok()) return complain(place.why());
    if (a.ranks > 0 && size_t(a.ranks) > place->size())
        return complain(
            status(EF_INVALID, fmt::format("-n {}: there are {} places; --place can put "
                                           "several ranks on a host",
                                           a.ranks, place->size())));
    if (a.ranks > 0) place->resize(size_t(a.ranks));
    a.job.place = std::move(*place);
    a.job.timeout_ms = unsigned(a.timeout_s * 1000);
    a.job.grace_ms = unsigned(a.grace_s * 1000);
    if (a.tell_fabric) a.job.fabric = l->fabric_file();
    const result<lab::run_end> end = lab::run(*l, a.job);
    return end.ok() ? end->exit_status : complain(end.why());
}

int fault(const arguments& a) {
    const bool takes = a.what == lab::fault_kind::slow || a.what == lab::fault_kind::lossy;
    if (takes != (a.amount >= 0))
        return complain(status(EF_INVALID, takes ? "slow takes Mbit/s and lossy percent"
                                                 : "this fault takes no number"));
    result<lab::lab> l = lab::lab::open(a.built.name);
    if (!l.ok()) return complain(l.why());
    const status s = l->inject(a.where, {a.what, a.amount, !a.no_reroute, a.one_way});
    return s.ok() ? perf::exit_good : complain(s);
}

int counters(const arguments& a) {
    result<lab::lab> l = lab::lab::open(a.built.name);
    if (!l.ok()) return complain(l.why());
    const result<std::vector<lab::traffic>> t = l->counters();
    if (!t.ok()) return complain(t.why());
    std::vector<double> planned;
    if (!a.beside.empty()) {
        const auto bytes = perf::parse_size(a.vector);
        if (!bytes || *bytes == 0)
            return complain(status(EF_INVALID,
                                   "--beside needs --vector, the bytes that were "
                                   "reduced, such as 64M"));
        result<std::vector<double>> p = lab::planned_bytes(*l, a.beside, double(*bytes));
        if (!p.ok()) return complain(p.why());
        planned = std::move(*p);
    }
    fmt::print("{}", a.json ? lab::counters_json(*l, *t, planned)
                            : lab::counters_text(*l, *t, planned, a.all));
    if (!a.reset) return perf::exit_good;
    const status s = l->reset_counters();
    return s.ok() ? perf::exit_good : complain(s);
}

int show(const arguments& a) {
    const result<lab::lab> l = lab::lab::open(a.built.name);
    if (!l.ok()) return complain(l.why());
    fmt::print("{}", a.json ? lab::show_json(*l) : lab::show_text(*l));
    return perf::exit_good;
}

int down(const arguments& a) {
    const std::vector<std::string> names =
        a.all ? lab::lab::all() : std::vector<std::string>{a.built.name};
    for (const std::string& name : names) {
        const result<size_t> gone = lab::lab::remove(name);
        if (!gone.ok()) return complain(gone.why());
        if (*gone > 0) fmt::print("lab {}: {} namespaces removed\n", name, *gone);
        else fmt::print("lab {}: there was nothing\n", name);
    }
    return perf::exit_good;
}

// ---------------------------------------------------------------- command line

void add_building(CLI::App* c, arguments& a) {
    c->add_option("FABRIC", a.fabric, "a generator such as bigraph:S=4,H=2,L=1, or a file")
        ->required();
    c->add_option("--rate", a.built.host_mbit,
                  "Mbit/s of the first host's link; others in proportion")
        ->capture_default_str();
    c->add_option("--mtu", a.built.mtu, "bytes of IP in a packet")->capture_default_str();
    c->add_option("--burst", a.built.burst_bytes,
                  "bytes in a token bucket (0: 70000, 2 MTU or 1 ms of the rate)")
        ->capture_default_str();
    c->add_option("--queue", a.built.queue_bytes, "bytes that may wait at a link")
        ->capture_default_str();
    c->add_option("--seed", a.built.seed, "of the switches' ECMP hashes")->capture_default_str();
    c->add_option("--congestion", a.built.congestion, "TCP's congestion control on the hosts")
        ->capture_default_str();
}

void add_run(CLI::App* c, arguments& a) {
    c->add_option("-n,--ranks", a.ranks, "number of ranks; default: one per host")
        ->check(CLI::Range(1, 1 << 20));
    CLI::Option* const order =
        c->add_option("--ranks-order", a.order,
                      "which host has which rank: fabric, reverse, random[:SEED], halving, ring")
            ->capture_default_str();
    c->add_option("--place", a.place, "a file with the host of each rank, one per line")
        ->excludes(order);
    c->add_option("--timeout", a.timeout_s, "seconds after which all ranks are ended")
        ->check(CLI::Range(0.001, 1e6))
        ->capture_default_str();
    c->add_option("--grace", a.grace_s, "seconds that others may go on after a rank has failed")
        ->check(CLI::Range(0.0, 1e6))
        ->capture_default_str();
    c->add_option("--prefix", a.job.prefix, "of each line of output: host, rank or none")
        ->transform(CLI::CheckedTransformer(prefixes).description(""))
        ->default_str("host");
    c->add_flag("--fabric", a.tell_fabric,
                "set EFLOPS_FABRIC to the fabric that the lab was built of");
}

void add_fault(CLI::App* c, arguments& a) {
    c->add_option("WHERE", a.where, "a link (U0-L1, U0-L1/1 for lane 1), host or switch")
        ->required();
    c->add_option("WHAT", a.what, "down, up, slow, lossy, pause, resume or kill")
        ->transform(CLI::CheckedTransformer(faults).description(""))
        ->required();
    c->add_option("AMOUNT", a.amount, "slow: Mbit/s; lossy: percent")
        ->check(CLI::NonNegativeNumber.description(""));
    c->add_flag("--no-reroute", a.no_reroute,
                "down, up: leave the routes of the switches as they are");
    c->add_flag("--one-way", a.one_way, "slow, lossy: only in the direction that is named");
}

using command_table = std::map<const CLI::App*, int (*)(arguments&)>;

command_table add_commands(CLI::App& app, arguments& a) {
    command_table commands;
    app.require_subcommand(1);
    app.set_version_flag("-V,--version", fmt::format("ef_lab {}", ef_version()));
    const auto add = [&](const char* name, const char* what, int (*f)(arguments&)) {
        CLI::App* const c = app.add_subcommand(name, what);
        c->add_option("--name", a.built.name, "which lab ($EF_LAB)")->capture_default_str();
        commands[c] = f;
        return c;
    };
    add_building(add("up", "build a lab", [](arguments& x) { return up(x); }), a);
    add_run(add("run", "run -- COMMAND ARGS..: one process per host", run), a);
    add_fault(add("fault", "break something, or mend it", [](arguments& x) { return fault(x); }),
              a);
    CLI::App* const c = add("counters", "bytes that each directed link has carried",
                            [](arguments& x) { return counters(x); });
    c->add_flag("--json", a.json, "print JSON instead of text");
    c->add_flag("--all", a.all, "also links that carried nothing");
    c->add_flag("--reset", a.reset, "count from 0 after this");
    c->add_option("--beside", a.beside,
                  "what a plan says beside it: the JSON that ef_plan show prints");
    c->add_option("--vector", a.vector,
                  "with --beside: bytes reduced since the last reset, as 64M");
    add("show", "hosts, links, addresses, faults", [](arguments& x) {
        return show(x);
    })->add_flag("--json", a.json, "print JSON instead of text");
    add("down", "remove a lab and end what runs in it", [](arguments& x) {
        return down(x);
    })->add_flag("--all", a.all, "all labs");
    add_building(add("with",
                     "with FABRIC -- COMMAND ARGS..: build a lab, run COMMAND, remove the "
                     "lab; also for ordinary users",
                     [](arguments& x) { return with(x); }),
                 a);
    return commands;
}

/// Everything behind "--" is the command of run and with, whatever it looks like.
std::vector<std::string> take_command(int& argc, char** argv) {
    for (int i = 1; i < argc; ++i)
        if (std::string_view(argv[i]) == "--") {
            const std::vector<std::string> command(argv + i + 1, argv + argc);
            argc = i;
            return command;
        }
    return {};
}

}  // namespace

int main(int argc, char** argv) {
    // Who reads our output may end before us.
    signal(SIGPIPE, SIG_IGN);
    arguments a;
    if (const char* const name = getenv("EF_LAB"); name && *name) a.built.name = name;
    a.job.command = take_command(argc, argv);

    CLI::App app(
        "Build a fabric of hosts and switches on this machine as network namespaces, run "
        "jobs in it, break it and count what its links carry.",
        "ef_lab");
    const auto commands = add_commands(app, a);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
        const bool general = app.get_subcommands().empty();
        fmt::print("{}", general ? app.help("", CLI::AppFormatMode::All)
                                 : app.get_subcommands()[0]->help());
        return perf::exit_good;
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // --version: to stdout
        fmt::print(stderr, "ef_lab: {}\n", e.what());
        return perf::exit_usage;
    }
    const CLI::App* const chosen = app.get_subcommands()[0];
    const std::string name = chosen->get_name();
    if (a.job.command.empty() && name == "run") {
        fmt::print(stderr, "ef_lab: run: a command is missing: ef_lab run -- COMMAND ARGS..\n");
        return perf::exit_usage;
    }
    if (!a.job.command.empty() && name != "run" && name != "with") {
        fmt::print(stderr, "ef_lab: {}: takes no command\n", name);
        return perf::exit_usage;
    }
    return commands.at(chosen)(a);
}
