// coordinator: measures contenders against each other on a machine that does not hold still.
//
//   coordinator --ranks N --medium NAME --sizes A,B,... --folder DIR [--turns N] [--results FILE]
//               [--json FILE] NAME=COMMAND...
//
// All contenders are started once and stay alive, blocked, until their turn: A B C A B C ..., a
// short block each, so that a neighbour that takes the machine away for a second takes it from all
// of them. Per size and contender the median over the turns of a block's time per run, the slowest
// rank counting.
//
// Contenders whose name begins with "eflops" are ours, with "limit" what the machine could do; all
// others are peers. Exit status 0: measured (missed bars are results), 1: wrong sums or nobody to
// measure, 2: usage.
#include "perftests/compare/contest.hpp"
#include "perftests/compare/verdict.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <sstream>

namespace {

compare::contest* running = nullptr;

void on_signal(int) {
    if (running) running->kill_all();
    _exit(130);
}

// 8,4096,256K,64M; empty if one of them is no number of whole elements.
std::vector<uint64_t> parse_sizes(const std::string& list) {
    std::vector<uint64_t> out;
    std::stringstream in(list);
    for (std::string word; std::getline(in, word, ',');) {
        char* end = nullptr;
        uint64_t bytes = strtoull(word.c_str(), &end, 10);
        if (*end == 'K') bytes <<= 10, ++end;
        else if (*end == 'M') bytes <<= 20, ++end;
        if (*end || bytes == 0 || bytes % sizeof(float)) return {};
        out.push_back(bytes);
    }
    return out;
}

double probe(const ef::perf::machine_facts& m) {
    return m.cores.size() < 2 ? -1 : ef::perf::core_round_trip_ns(m.cores[0], m.cores[1]);
}

int measure_all(compare::contest& c, compare::verdict& v, const std::string& results,
                const std::string& json) {
    const ef::perf::machine_facts machine = ef::perf::read_machine();
    v.probe_before_ns = probe(machine);
    if (!c.start()) return 1;
    const bool watched = isatty(STDERR_FILENO);
    for (uint64_t bytes : c.sizes) {
        if (watched)
            fmt::print(stderr, "\r\033[K{} ranks, {}: {}", c.nranks, v.medium,
                       compare::size_text(bytes));
        v.add(c.measure(bytes));
    }
    if (watched) fmt::print(stderr, "\r\033[K");
    c.stop();
    v.left_out = c.left_out();
    v.probe_after_ns = probe(machine);
    v.print();
    if (!results.empty()) v.append_to(results);
    if (!json.empty()) v.append_json_to(json, machine);
    return v.wrong() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
    compare::contest c;
    compare::verdict v;
    std::string results, json;
    for (int i = 1; i < argc; ++i) {
        const std::string arg = argv[i];
        const auto value = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
        if (arg == "--ranks") c.nranks = atoi(value().c_str());
        else if (arg == "--medium") v.medium = value();
        else if (arg == "--sizes") c.sizes = parse_sizes(value());
        else if (arg == "--turns") c.turns = std::max(1, atoi(value().c_str()));
        else if (arg == "--folder") c.folder = value();
        else if (arg == "--results") results = value();
        else if (arg == "--json") json = value();
        else if (const size_t eq = arg.find('='); eq != std::string::npos)
            c.add(arg.substr(0, eq), arg.substr(eq + 1));
        else return fmt::print(stderr, "coordinator: {}: not understood\n", arg), 2;
    }
    if (c.nranks < 2 || c.sizes.empty() || c.folder.empty())
        return fmt::print(stderr,
                          "coordinator: needs --ranks of 2 or more, --sizes in whole floats "
                          "(8,4K,1M) and --folder\n"),
               2;
    v.nranks = c.nranks;
    v.turns = c.turns;
    running = &c;
    for (int s : {SIGINT, SIGTERM, SIGHUP}) signal(s, on_signal);
    signal(SIGPIPE, SIG_IGN);
    return measure_all(c, v, results, json);
}
