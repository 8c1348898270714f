// coordinator: measures contenders against each other on a machine that does not hold still.
//
//   coordinator --ranks N --medium NAME --sizes A,B,... [--turns N] [--results FILE]
//   NAME=COMMAND...
//
// All contenders are started once and stay alive, blocked, until their turn: A B C A B C ..., a
// short block each, so that a neighbour that takes the machine away for a second takes it from all
// of them. Per size and contender the median over the turns of a block's time per run, the slowest
// rank counting.
//
// Contenders whose name begins with "eflops" are ours, with "limit" what the machine could do; all
// others are peers. Exit status 0: measured (missed bars are results), 1: wrong sums or nobody to
// measure.
#include "perftests/compare/contest.hpp"
#include "perftests/compare/verdict.hpp"

#include <fmt/core.h>

#include <csignal>
#include <cstdlib>
#include <sstream>

namespace {

compare::contest* running = nullptr;

void on_signal(int) {
    if (running) running->kill_all();
    _exit(130);
}

std::vector<uint64_t> parse_sizes(const std::string& list) {
    std::vector<uint64_t> out;
    std::stringstream in(list);
    for (std::string word; std::getline(in, word, ',');)
        out.push_back(strtoull(word.c_str(), nullptr, 10));
    return out;
}

}  // namespace

int main(int argc, char** argv) {
    compare::contest c;
    compare::verdict v;
    std::string results;
    for (int i = 1; i < argc; ++i) {
        const std::string arg = argv[i];
        const auto value = [&]() -> std::string { return i + 1 < argc ? argv[++i] : ""; };
        if (arg == "--ranks") c.nranks = atoi(value().c_str());
        else if (arg == "--medium") v.medium = value();
        else if (arg == "--sizes") c.sizes = parse_sizes(value());
        else if (arg == "--turns") c.turns = std::max(1, atoi(value().c_str()));
        else if (arg == "--results") results = value();
        else if (const size_t eq = arg.find('='); eq != std::string::npos)
            c.add(arg.substr(0, eq), arg.substr(eq + 1));
        else return fmt::print(stderr, "coordinator: {}: not understood\n", arg), 2;
    }
    running = &c;
    for (int s : {SIGINT, SIGTERM, SIGHUP}) signal(s, on_signal);
    signal(SIGPIPE, SIG_IGN);
    if (!c.start()) return 1;
    v.nranks = c.nranks;
    for (uint64_t bytes : c.sizes) v.add(c.measure(bytes));
    c.stop();
    v.print();
    if (!results.empty()) v.append_to(results);
    return v.wrong() ? 1 : 0;
}
