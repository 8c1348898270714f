// options of ef_plan: one struct for all commands, so that an option has the same name, unit and
// default in each command that has it.
#pragma once

#include <eflops/allreduce.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ef::planning {

enum class command { show, prove, price, compare, map };

/// Who takes part and in what order.
struct ranks_options {
    int ranks = 0;      // 0: one per host
    std::string place;  // file: by rank, its host; empty: rank r on host r
    std::string order;  // hdrm, ring, block, random or a file; empty: as placed
};

/// What is proved or drawn.
struct plan_options {
    std::string algorithm;  // empty: hdrm; with an order halving_doubling
    ef_collective_t coll = EF_ALLREDUCE;
    std::string routing = "ecmp";
    uint64_t seed = 1;
    unsigned subflows = 1;
};

/// What a prediction assumes.
struct cost_options {
    std::vector<uint64_t> sizes;  // bytes
    double alpha_us = 5;
    double gamma_ns_per_byte = 0;
    double efficiency = 1;
    unsigned trials = 20;         // random placements that are averaged
    std::string policy = "step";  // step: closed form; else simulated
    double skew_us = 0, jitter_us = 0;
};

struct options {
    command what = command::show;
    std::vector<std::string> fabrics;  // one; compare takes several
    std::vector<std::string> fail;     // links and switches that are down
    ranks_options who;
    plan_options plan;
    cost_options cost;
    std::string svg;    // file, "-" for stdout
    std::string write;  // file that gets the fabric, "-" for stdout
    std::string launcher = "hosts";
    bool all = false;  // compare: the whole table
    bool json = false;
};

std::string_view command_name(command c) noexcept;
std::string_view collective_name(ef_collective_t c) noexcept;

/// Returns an exit status where the program is to end now: after --help and --version (0), or with
/// one line on stderr (2).
std::optional<int> parse_options(int argc, char** argv, options& o);

}  // namespace ef::planning
