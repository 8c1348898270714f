// The one table of options that all programs share, in groups: a program adds the groups that make
// sense for it, so an option has the same name, unit and default everywhere.
#pragma once

#include "perftests/common/collective.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace ef::perf {

/// What is run: every combination of these is a row.
struct sweep_options {
    std::vector<uint64_t> sizes;
    std::vector<ef_type_t> types;
    std::vector<ef_op_t> ops;
    bool out_of_place = true;
    bool in_place = false;
    bool malloc_memory = true;
    bool shared_memory = false;
    int root = 0;
};

/// How long, and when a number is good enough.
struct effort_options {
    uint64_t iterations = 0;         // 0: until settled, or the bound
    std::optional<uint64_t> warmup;  // iterations; nothing: by time
    double duration_s = 0;           // 0: until settled, or the bound
    double precision_percent = 2;    // half-width of the 95 % confidence interval
    double bound_s = 1;              // for one row
    unsigned checks = 1;             // calls whose results are compared
};

/// Who runs it and over what.
struct job_options {
    int ranks = 0;  // 0: from the launcher
    bool pin = true;
    double timeout_s = 0;  // 0: the library's
    std::string transport;
    std::string algorithm;
    std::string interface_;
    uint64_t chunk_bytes = 0;
    std::string fabric;
    std::string sync;
    std::string steer;
};

/// What becomes of the numbers.
struct output_options {
    std::string json;  // file, "-" for stdout, empty: none
    std::string csv;
    bool explain = false;
    double min_gbps = 0;  // 0: no threshold
    double max_us = 0;
};

struct options {
    sweep_options sweep;
    effort_options effort;
    job_options job;
    output_options output;
};

/// The command line of a collective's program. Returns an exit status where the program is to end
/// now: after --help and --version (0), or with the words on stderr (2).
std::optional<int> parse_options(int argc, char** argv, const collective& what, options& o);

}  // namespace ef::perf
