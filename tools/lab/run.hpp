// run: a job in a lab. One process per rank, each in the namespace of its host with that host's
// name, told by environment who it is; their output line by line behind a prefix.
#pragma once

#include "tools/lab/lab.hpp"

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace ef::lab {

enum class line_prefix : uint8_t { host, rank, none };

struct run_options {
    std::vector<fabric::node_id> place;  // by rank: its host
    std::vector<std::string> command;
    std::string fabric;             // EFLOPS_FABRIC for all ranks; empty: as it is
    unsigned timeout_ms = 300'000;  // for the whole job
    unsigned grace_ms = 10'000;     // how long the others may go on after one has failed
    line_prefix prefix = line_prefix::host;
};

struct run_end {
    int exit_status = 0;  // of the first rank that failed: its own, or 128 + the signal
    std::string why;      // "rank 3 (U1p1, pid 4711) ended with status 4"; empty if all went well
};

/// Start, wait, say on standard error at once which rank failed first, and leave no process behind, also not those that ranks started and forgot. SIGINT,
/// SIGTERM, SIGHUP and SIGQUIT to the caller end all ranks. An error: it could not start.
result<run_end> run(const lab& l, const run_options& o);

/// Hosts by rank in an order of this name: "fabric" (as the graph lists them), "reverse",
/// "random" or "random:SEED", "halving" and "ring" (as our library would arrange ranks for these
/// algorithms, so that rank = position).
result<std::vector<fabric::node_id>> place_in_order(const fabric::graph& g, std::string_view order);
/// A file with a host per line, for ranks 0, 1, ..; a host may have several. '#' begins a comment.
result<std::vector<fabric::node_id>> place_from_file(const fabric::graph& g,
                                                     const std::string& file);

// ---------------------------------------------------------------- the process of a rank

struct rank_process {
    int rank = 0;
    fabric::node_id host = fabric::none;
    pid_t pid = -1;
    bool running = false;
};

/// What the process of one rank becomes. `out`, `err`: the ends of pipes that it writes to. Runs in
/// the child of a fork and does not return.
struct rank_start {
    std::string where;                     // "rank 3 on U1p1"
    std::string namespace_name, hostname;  // of its host
    std::vector<std::string> environment;  // "EFLOPS_RANK=3"
    int out = -1, err = -1;
    pid_t parent = 0;
};
[[noreturn]] void become_rank(const rank_start& s, const std::vector<std::string>& command);

}  // namespace ef::lab
