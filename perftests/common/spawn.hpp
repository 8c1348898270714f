// --ranks N: a job of N processes on this host, without a launcher.
//
// The parent forks before it has any thread, and then only waits. Rank 0 (or the one that is
// asked for) inherits the listening socket of the job, so there is no port to guess; the job's key is random and never leaves these
// processes. No child outlives the parent (PR_SET_PDEATHSIG), and when one fails the others get a
// moment to notice, and are then killed.
#pragma once

#include <functional>
#include <string>

namespace ef::perf {

/// Where a process sits in its job. Default: ask the launcher.
struct seat {
    int rank = -1;  // EF_FROM_LAUNCHER
    int nranks = -1;
    int listen_fd = 0;  // the listening rank of a spawned job
    std::string root;   // "127.0.0.1:port"
    std::string key;
    bool spawned() const noexcept { return nranks > 0; }
};

/// How long the other ranks may go on after one has failed: they notice within 2 s.
inline constexpr unsigned failure_grace_ms = 3000;

/// Run `body` once in each of `nranks` children and return the exit status of the whole: that of
/// rank 0 if all ended well, otherwise that of the first failure, whose words are printed to stderr
/// behind `program`. What a body throws as `failure` is such a failure. `grace_ms` is how long the
/// others may go on after the first has ended well. `listening_rank` inherits the listening socket.
int run_local(const char* program, int nranks, unsigned grace_ms,
              const std::function<int(const seat&)>& body, int listening_rank = 0);

}  // namespace ef::perf
