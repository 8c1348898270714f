#include "perftests/p2p/options.hpp"

#include "perftests/common/exit_code.hpp"
#include "perftests/common/help.hpp"
#include "perftests/common/sizes.hpp"
#include "perftests/p2p/perftest_options.hpp"

#include <CLI/CLI.hpp>

namespace ef::perf::p2p {
namespace {

constexpr uint32_t most_depth = 1024;
constexpr uint32_t most_qps = 64;

CLI::Option* add_count(CLI::App& app, const char* name, uint32_t& to, uint32_t most,
                       const char* meaning) {
    return app.add_option(name, to, meaning)->type_name("N")->check(CLI::Range(1u, most));
}

void add_traffic(CLI::App& app, const test& what, traffic_options& o) {
    if (what.what != kind::atomic_lat) {
        auto* size =
            app.add_option_function<std::string>(
                   "-s,--size",
                   [&o](const std::string& text) {
                       std::string why;
                       o.sizes = parse_sizes(text, why);
                       if (o.sizes.empty()) throw CLI::ValidationError(why);
                   },
                   fmt::format("bytes of a message: N, FIRST:LAST[:xN|:+N], or a list by commas; K "
                               "M G are 2^10.. [{}]",
                               what.default_sizes))
                ->type_name("SIZES");
        app.add_flag_callback(
               "-a,--all",
               [&o] {
                   std::string why;
                   o.sizes = parse_sizes("2:8M:x2", why);
               },
               "sizes 2, 4, 8 .. 8M")
            ->excludes(size);
    }
    add_count(app, "-q,--qp", o.qps, most_qps, "connections (QPs) at once [1]");
    if (!what.latency) {
        add_count(app, "-t,--tx-depth", o.depth, most_depth, "messages under way per QP [128]");
        add_count(app, "-l,--post_list", o.post_list, most_depth, "messages per post [1]");
        add_count(app, "-Q,--cq-mod", o.signal_every, most_depth,
                  "one completion per N messages [1 from 8K on, depth/8 below]");
        app.add_flag("-b,--bidirectional", o.bidirectional,
                     "both ends send; the sum of both is shown");
    }
    app.add_option_function<std::string>(
           "-I,--inline_size",
           [&o](const std::string& text) {
               const auto n = parse_size(text);
               if (!n) throw CLI::ValidationError(fmt::format("\"{}\" is not a size", text));
               o.inline_bytes = *n;
           },
           "messages up to this size go with the work itself, if the transport can [220]")
        ->type_name("SIZE");
    app.add_flag("--verify", o.verify,
                 "compare data before and after timing each size; exit 4 if any is wrong");
}

void add_effort(CLI::App& app, effort_options& o) {
    o.precision_percent = 1;
    o.bound_s = 3;
    auto* iterations = app.add_option("-n,--iters", o.iterations,
                                      "exactly this many timed messages per size [until settled]")
                           ->type_name("N")
                           ->check(CLI::PositiveNumber);
    app.add_option("-D,--duration", o.duration_s, "seconds per size [until settled]")
        ->type_name("SECONDS")
        ->check(CLI::PositiveNumber)
        ->excludes(iterations);
    app.add_option_function<uint64_t>(
           "--warmup", [&o](const uint64_t& w) { o.warmup = w; },
           "untimed messages per size [50 ms of them]")
        ->type_name("N");
    app.add_option("--precision", o.precision_percent,
                   "settled when the mean is known to +-this many percent (95 %) [1]")
        ->type_name("PERCENT")
        ->check(CLI::PositiveNumber);
    app.add_option("--bound", o.bound_s, "seconds after which a size ends unsettled [3]")
        ->type_name("SECONDS")
        ->check(CLI::PositiveNumber);
}

void add_connection(CLI::App& app, p2p_options& o, bool& ignored) {
    app.add_option("host", o.host, "where the server runs; without it this is the server")
        ->type_name("HOST");
    app.add_option("-p,--port", o.port, "port of the server [18515]")
        ->type_name("PORT")
        ->check(CLI::Range(1u, 65535u));
    app.add_option_function<std::string>(
           "-d,--ib-dev,--device",
           [&o](const std::string& name) {
               const bool known =
                   name == "auto" || name == "shm" || name == "tcp" || name.rfind("verbs:", 0) == 0;
               o.device = known ? name : "verbs:" + name;
           },
           "auto, shm, tcp, or an RDMA device such as mlx5_0 or verbs:mlx5_0/1 [auto]")
        ->type_name("NAME");
    app.add_option("-x,--gid-index", o.gid_index, "GID to use, verbs only [chosen]")
        ->type_name("INDEX")
        ->check(CLI::Range(0, 255));
    app.add_flag("-R,--rdma_cm", o.rdma_cm, "connect by rdma_cm, verbs only");
    for (const perftest_option& p : perftest_options()) {
        if (std::string_view(p.verdict) != "ignored") continue;
        const std::string letter = p.letter ? fmt::format("-{},", p.letter) : std::string();
        app.add_flag(fmt::format("{}--{}", letter, p.name), ignored,
                     fmt::format("accepted, without meaning: {}", p.words));
    }
    app.add_flag("--serve", o.serve, "server: keep serving, one client after the other");
    app.add_flag("--self", o.self, "start the server on this host too: one command");
    app.add_flag_callback(
        "--no-pin", [&o] { o.pin = false; }, "with --self: do not bind each end to a core");
    app.add_option("--timeout", o.timeout_s,
                   "seconds that any wait lasts at most; with --serve also for a client's next "
                   "word [30]")
        ->type_name("SECONDS")
        ->check(CLI::Range(0.001, 4e6));
}

void add_output(CLI::App& app, const test& what, p2p_options& o) {
    app.add_flag("--json{-}", o.output.json,
                 "JSON lines instead of the table; with FILE: beside it, in FILE");
    app.add_flag("--csv{-}", o.output.csv,
                 "CSV instead of the table; with FILE: beside it, in FILE");
    const auto add = [&app](const char* name, double& to, const char* meaning, const char* unit) {
        app.add_option(name, to, meaning)->type_name(unit)->check(CLI::PositiveNumber);
    };
    if (!what.latency) {
        add("--min-gbps", o.output.min_gbps,
            "exit 3 if any size's average is below (Gb/s, 10^9 bit/s)", "GBPS");
        add("--min-window-gbps", o.min_window_gbps,
            "exit 3 if any window of any size is below (Gb/s)", "GBPS");
    }
    add("--max-us", o.output.max_us,
        what.latency ? "exit 3 if any size's average is above (us)"
                     : "exit 3 if any size's 99th percentile is above (us)",
        "US");
}

std::string complete(const test& what, p2p_options& o) {
    std::string why;
    if (o.traffic.sizes.empty()) o.traffic.sizes = parse_sizes(what.default_sizes, why);
    for (const uint64_t n : o.traffic.sizes)
        if (n > (uint64_t(1) << 30)) return "--size: a message has 1G at most";
        else if (n == 0 && what.what == kind::write_lat)
            return "--size: write_lat waits for the last byte of a message, so 1 at least";
    if (what.latency) o.traffic.depth = 1;
    if (o.traffic.post_list > o.traffic.depth)
        return fmt::format("--post_list {} is more than --tx-depth {}", o.traffic.post_list,
                           o.traffic.depth);
    if (o.traffic.signal_every > o.traffic.depth)
        return fmt::format("--cq-mod {} is more than --tx-depth {}", o.traffic.signal_every,
                           o.traffic.depth);
    if (o.output.json == "-" && o.output.csv == "-")
        return "--json and --csv cannot both have standard output: give one a file";
    if (o.self && !o.host.empty()) return "--self starts its own server: give no host";
    if (o.serve && o.client()) return "--serve is for the server: give no host";
    return {};
}

/// What is said of an argument that no option takes: perftest's have their own words.
std::string unexpected(const std::string& argument) {
    const std::string name = argument.substr(0, argument.find('='));
    for (const perftest_option& p : perftest_options()) {
        const bool is_letter = p.letter && name.rfind(fmt::format("-{}", p.letter), 0) == 0 &&
                               name.rfind("--", 0) != 0;
        if (!is_letter && name != fmt::format("--{}", p.name)) continue;
        if (std::string_view(p.verdict) == "same")
            return fmt::format("{}: not an option of this test", argument);
        return fmt::format("{}: an option of perftest, here {}: {}", argument, p.verdict, p.words);
    }
    return fmt::format("{}: no such option", argument);
}

std::string number(double x) { return fmt::format("{:g}", x); }

}  // namespace

std::map<std::string, std::string> in_force(const p2p_options& o) {
    std::string sizes;
    for (const uint64_t n : o.traffic.sizes)
        sizes += fmt::format("{}{}", sizes.empty() ? "" : ",", n);
    const traffic_options& t = o.traffic;
    return {{"size", sizes},
            {"qp", fmt::format("{}", t.qps)},
            {"tx-depth", fmt::format("{}", t.depth)},
            {"post_list", fmt::format("{}", t.post_list)},
            {"cq-mod", fmt::format("{}", t.signal_every)},
            {"inline_size", fmt::format("{}", t.inline_bytes)},
            {"bidirectional", t.bidirectional ? "true" : "false"},
            {"verify", t.verify ? "true" : "false"},
            {"iters", fmt::format("{}", o.effort.iterations)},
            {"duration", number(o.effort.duration_s)}};
}

std::string adopt(const std::map<std::string, std::string>& theirs, p2p_options& o) {
    const auto count = [&](const char* name, uint64_t most, uint64_t least) -> uint64_t {
        const auto at = theirs.find(name);
        const auto n = at == theirs.end() ? std::nullopt : parse_size(at->second);
        if (!n || *n < least || *n > most) throw failure(exit_failed, name);
        return *n;
    };
    traffic_options& t = o.traffic;
    try {
        std::string why;
        t.sizes = parse_sizes(theirs.at("size"), why);
        if (t.sizes.empty()) return why;
        for (const uint64_t n : t.sizes)
            if (n > (uint64_t(1) << 30)) return "size";
        t.qps = uint32_t(count("qp", most_qps, 1));
        t.depth = uint32_t(count("tx-depth", most_depth, 1));
        t.post_list = uint32_t(count("post_list", t.depth, 1));
        t.signal_every = uint32_t(count("cq-mod", t.depth, 0));
        t.inline_bytes = count("inline_size", UINT64_MAX, 0);
        t.bidirectional = theirs.at("bidirectional") == "true";
        t.verify = theirs.at("verify") == "true";
        o.effort.iterations = count("iters", UINT64_MAX, 0);
    } catch (const failure& e) {
        return e.what();
    } catch (const std::out_of_range&) {
        return "one is missing";
    }
    return {};
}

std::string conflicts(const std::map<std::string, std::string>& theirs, const p2p_options& server) {
    std::string text;
    for (const auto& [name, mine] : in_force(server)) {
        const auto at = theirs.find(name);
        if (!server.given.count(name) || at == theirs.end() || at->second == mine) continue;
        text += fmt::format("{}--{}: {} on the client, {} on the server", text.empty() ? "" : "; ",
                            name, at->second, mine);
    }
    return text;
}

std::optional<int> parse_p2p(int argc, char** argv, const test& what, p2p_options& o) {
    CLI::App app(fmt::format("Measure {} between two processes: {} on one host, {} HOST on the "
                             "other. Options are given to the client.",
                             what.name, what.program, what.program),
                 what.program);
    app.set_version_flag("-V,--version", fmt::format("{} {}", what.program, ef_version()));
    app.formatter(std::make_shared<help_formatter>());
    app.allow_extras();
    bool ignored = false;
    add_connection(app, o, ignored);
    add_traffic(app, what, o.traffic);
    add_effort(app, o.effort);
    add_output(app, what, o);
    app.footer(fmt::format(
        "Example: {} --self\nExit status: 0 good, 1 failed, 2 usage, 3 threshold missed, 4 "
        "wrong data, 77 cannot run here.",
        what.program));
    std::string wrong;
    try {
        app.parse(argc, argv);
        const auto extras = app.remaining();
        wrong = extras.empty() ? complete(what, o) : unexpected(extras.front());
        const auto now = in_force(o);
        for (const CLI::Option* opt : app.get_options())
            if (opt->count() > 0 && !opt->get_lnames().empty()) {
                std::string name = opt->get_lnames().front();
                if (name == "all") name = "size";
                if (const auto at = now.find(name); at != now.end()) o.given.insert(*at);
            }
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version: stdout
        wrong = e.what();
    }
    if (wrong.empty()) return std::nullopt;
    fmt::print(stderr, "{}: {}\n{}: try --help\n", what.program, wrong, what.program);
    return exit_usage;
}

}  // namespace ef::perf::p2p
