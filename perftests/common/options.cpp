#include "perftests/common/options.hpp"

#include "perftests/common/exit_code.hpp"
#include "perftests/common/help.hpp"
#include "perftests/common/names.hpp"
#include "perftests/common/sizes.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>

namespace ef::perf {
namespace {

/// "a,b" or "all", through `find`.
template <class T>
std::vector<T> parse_list(const std::string& text, const std::vector<T>& all,
                          std::string_view (*name)(T) noexcept,
                          std::optional<T> (*find)(std::string_view) noexcept) {
    if (text == "all") return all;
    std::vector<T> out;
    for (size_t from = 0; from <= text.size();) {
        const size_t to = std::min(text.find(',', from), text.size());
        const std::string item = text.substr(from, to - from);
        const auto found = find(item);
        if (!found) {
            std::string words = "all";
            for (const T t : all) words.append(", ").append(name(t));
            throw CLI::ValidationError(fmt::format("\"{}\" is none of {}", item, words));
        }
        out.push_back(*found);
        from = to + 1;
    }
    return out;
}

void add_sweep(CLI::App& app, const collective& what, sweep_options& o) {
    if (what.has_sizes) {
        app.add_option_function<std::string>(
               "-s,--sizes",
               [&o](const std::string& text) {
                   std::string why;
                   o.sizes = parse_sizes(text, why);
                   if (o.sizes.empty()) throw CLI::ValidationError(why);
               },
               "bytes: N, FIRST:LAST[:xN|:+N], or a list by commas; K M G are 2^10.. "
               "[8:64M:x2]")
            ->type_name("SIZES");
        app.add_option_function<std::string>(
               "-t,--type",
               [&o](const std::string& text) {
                   o.types = parse_list<ef_type_t>(text, all_types(), type_name, find_type);
               },
               "element types by commas, or all [float32]")
            ->type_name("TYPES");
        app.add_option_function<std::string>(
               "-m,--memory",
               [&o](const std::string& text) {
                   if (text != "malloc" && text != "shared" && text != "both")
                       throw CLI::ValidationError(
                           fmt::format("\"{}\" is none of malloc, shared, both", text));
                   o.malloc_memory = text != "shared";
                   o.shared_memory = text != "malloc";
               },
               "buffers: malloc, shared (ef_mem_alloc) or both [malloc]")
            ->type_name("KIND");
    }
    if (what.has_op)
        app.add_option_function<std::string>(
               "-o,--op",
               [&o](const std::string& text) {
                   o.ops = parse_list<ef_op_t>(text, all_ops(), op_name, find_op);
               },
               "operations by commas, or all [sum]")
            ->type_name("OPS");
    if (what.in_place) {
        // The last one given holds.
        app.add_flag_callback(
            "--in-place", [&o] { o.in_place = true, o.out_of_place = false; },
            "send and receive buffer are one");
        app.add_flag_callback(
            "--out-of-place", [&o] { o.in_place = false, o.out_of_place = true; },
            "two buffers (default)");
        app.add_flag_callback(
            "--both", [&o] { o.in_place = o.out_of_place = true; }, "out of place, then in place");
    }
    if (what.has_root)
        app.add_option("--root", o.root, "rank that sends [0]")
            ->type_name("RANK")
            ->check(CLI::NonNegativeNumber);
}

void add_effort(CLI::App& app, bool checkable, effort_options& o) {
    auto* iterations = app.add_option("-n,--iters", o.iterations,
                                      "exactly this many timed calls per row [until settled]")
                           ->type_name("N");
    app.add_option_function<uint64_t>(
           "-w,--warmup", [&o](const uint64_t& w) { o.warmup = w; },
           "untimed calls per row [about 20 ms of them, one at least]")
        ->type_name("N");
    app.add_option("-D,--duration", o.duration_s, "seconds per row [until settled]")
        ->type_name("SECONDS")
        ->check(CLI::PositiveNumber)
        ->excludes(iterations);
    app.add_option("--precision", o.precision_percent,
                   "settled when the mean is known to +-this many percent (95 %) [2]")
        ->type_name("PERCENT")
        ->check(CLI::PositiveNumber);
    app.add_option("--bound", o.bound_s, "seconds after which a row ends unsettled [1]")
        ->type_name("SECONDS")
        ->check(CLI::PositiveNumber);
    if (!checkable) {
        o.checks = 0;
        return;
    }
    auto* check =
        app.add_option_function<std::string>(
               "-c,--check",
               [&o](const std::string& text) {
                   const auto n = parse_size(text.empty() ? "1" : text);
                   if (!n || *n > 1'000'000)
                       throw CLI::ValidationError(fmt::format("\"{}\" is not a count", text));
                   o.checks = unsigned(*n);
               },
               "results to compare per row: the first before timing, more after it [1]")
            ->type_name("N")
            ->expected(0, 1);
    app.add_flag_callback(
           "--no-check", [&o] { o.checks = 0; }, "compare none")
        ->excludes(check);
}

void add_job(CLI::App& app, job_options& o) {
    app.add_option("-r,--ranks", o.ranks,
                   "start this many ranks on this host [ask the launcher: mpirun, srun, torchrun]")
        ->type_name("N")
        ->check(CLI::Range(1, 4096));
    app.add_flag_callback(
        "--no-pin", [&o] { o.pin = false; }, "with --ranks: do not bind each rank to a core");
    app.add_option("--timeout", o.timeout_s,
                   "seconds without progress that end the run [EFLOPS_TIMEOUT_MS, 60 s]")
        ->type_name("SECONDS")
        ->check(CLI::Range(0.001, 4e6));
    app.add_option("--transport", o.transport, "auto, shm or tcp [EFLOPS_TRANSPORT, auto]")
        ->type_name("NAME");
    app.add_option("--interface", o.interface_,
                   "network interface, address or prefix [EFLOPS_INTERFACE, automatic]")
        ->type_name("NAME");
    app.add_option("--algorithm", o.algorithm,
                   "force one, such as ring [EFLOPS_ALGORITHM, the planner's]")
        ->type_name("NAME");
    app.add_option_function<std::string>(
           "--chunk",
           [&o](const std::string& text) {
               const auto n = parse_size(text);
               if (!n || *n == 0)
                   throw CLI::ValidationError(fmt::format("\"{}\" is not a size", text));
               o.chunk_bytes = *n;
           },
           "pipelining unit in bytes [EFLOPS_CHUNK_BYTES, the planner's]")
        ->type_name("SIZE");
    app.add_option("--fabric", o.fabric,
                   "fabric file, or a generator such as bigraph:S=4,H=2 [EFLOPS_FABRIC, none]")
        ->type_name("FABRIC");
    app.add_option("--sync", o.sync,
                   "between the rounds of a plan: auto, none, pair or barrier [EFLOPS_SYNC, auto]")
        ->type_name("NAME");
    app.add_flag("--steer{on}", o.steer,
                 "choose tcp source ports so that flows share no link; with trace: only find the "
                 "ways they take [EFLOPS_STEER, off]");
}

void add_output(CLI::App& app, bool has_bandwidth, output_options& o) {
    app.add_flag("--json{-}", o.json,
                 "JSON lines instead of the table; with FILE: beside it, in FILE");
    app.add_flag("--csv{-}", o.csv, "CSV instead of the table; with FILE: beside it, in FILE");
    app.add_flag("--explain", o.explain,
                 "show the planner's candidates, and the bytes that each rank reads and writes");
    if (has_bandwidth)
        app.add_option("--min-gbps", o.min_gbps,
                       "exit 3 if the bus bandwidth of any row is below (Gb/s, 10^9 bit/s)")
            ->type_name("GBPS")
            ->check(CLI::PositiveNumber);
    app.add_option("--max-us", o.max_us, "exit 3 if the average time of any row is above (us)")
        ->type_name("US")
        ->check(CLI::PositiveNumber);
}

/// Defaults that depend on nothing but the program, and conflicts between options.
std::string complete(const collective& what, options& o) {
    if (!what.has_sizes) o.sweep.sizes = {0};
    if (o.sweep.sizes.empty()) {
        std::string why;
        o.sweep.sizes = parse_sizes("8:64M:x2", why);
    }
    if (o.sweep.types.empty()) o.sweep.types = {what.has_sizes ? EF_FLOAT32 : EF_UINT8};
    if (o.sweep.ops.empty()) o.sweep.ops = {EF_SUM};
    if (o.output.json == "-" && o.output.csv == "-")
        return "--json and --csv cannot both have standard output: give one a file";
    return {};
}

}  // namespace

std::optional<int> parse_options(int argc, char** argv, const collective& what, options& o) {
    CLI::App app(fmt::format("Measure {} of libeflops between processes.", what.name),
                 what.program);
    app.set_version_flag("-V,--version", fmt::format("{} {}", what.program, ef_version()));
    app.formatter(std::make_shared<help_formatter>());
    add_sweep(app, what, o.sweep);
    add_effort(app, what.has_sizes, o.effort);
    add_job(app, o.job);
    add_output(app, what.has_sizes, o.output);
    app.footer(fmt::format(
        "Example: {} --ranks 4\nExit status: 0 good, 1 failed, 2 usage, 3 threshold missed, 4 "
        "wrong data, 77 cannot run here.",
        what.program));
    std::string wrong;
    try {
        app.parse(argc, argv);
        wrong = complete(what, o);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version: stdout
        wrong = e.what();
    }
    if (wrong.empty()) return std::nullopt;
    fmt::print(stderr, "{}: {}\n{}: try --help\n", what.program, wrong, what.program);
    return exit_usage;
}

}  // namespace ef::perf
