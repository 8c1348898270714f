// ranks: a job for tests. Each rank is a forked process (or a thread of one) with its own options;
// the test and a rank exchange lines of text, so that no sleep has to stand for an event, and
// everything has a deadline, after which the harness kills what is left.
//
//   test                          rank process
//   job j(setup, body);   fork    body(me)
//   j.hear(2, ms)         <-----  me.say("ready")
//   j.tell(2, "go")       ----->  me.hear()
//   j.finish(2, ms)               returns: exit status 0; me.fail("why"): says so, status 1
//
// The test process takes in orphans, so that a process that outlives its rank is found.
#pragma once

#include <eflops/allreduce.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ef::test {

/// Deadlines of tests are multiplied by this: sanitizers are slow. EF_TEST_PATIENCE overrides.
int patience();
/// EF_TEST_REPEATS, else `usual`.
int repeats(int usual);

struct job_setup {
    int nranks = 2;
    std::vector<int> host_of;  // by rank: which imitated host it is on; empty: all on one
    std::vector<std::string> host_names;  // of those hosts; empty: host0, host1, ..
    uint32_t timeout_ms = 20000;
    int roots = 1;  // how many communicators can be made with options(0 .. roots-1)
    bool as_threads = false;
    std::vector<std::pair<std::string, std::string>> environment;
};

/// What a rank's body is given.
class rank_process {
public:
    int rank = 0, nranks = 1;

    /// Options to join the i-th communicator; strings live as long as this object.
    ef_comm_options options(int i = 0) const;
    /// ef_comm_create with options(i); fails the rank if it fails.
    ef_comm_t join(int i = 0);

    void say(const std::string& line);
    /// The next line from the test; fails the rank if there is none within 60 s.
    std::string hear();
    [[noreturn]] void fail(const std::string& why);
    /// fail() with ef_last_error() unless `s` is EF_OK.
    void must(ef_status_t s, const char* what);

private:
    friend class job;
    int socket_ = -1;
    uint32_t timeout_ms_ = 0;
    bool thread_ = false;
    std::vector<int> listeners_;
    std::vector<std::string> roots_;
    std::string key_, heard_;
};

struct outcome {
    int code = -1;         // exit status, -1 if it did not exit
    int signal = 0;        // that ended it
    bool overdue = false;  // the harness had to kill it
    std::string text() const;
    bool good() const { return code == 0; }
};

class job {
public:
    job(job_setup setup, std::function<void(rank_process&)> body);
    ~job();
    job(const job&) = delete;

    pid_t pid(int rank) const { return ranks_[size_t(rank)].pid; }
    int nranks() const { return setup_.nranks; }
    const std::string& key() const { return key_; }
    /// "127.0.0.1:port" of rank 0's listener.
    const std::string& root() const { return roots_.front(); }

    /// The next line that the rank says; nothing if none comes in time or it has ended.
    std::optional<std::string> hear(int rank, int ms);
    void tell(int rank, const std::string& line);
    void signal(int rank, int number);
    /// Wait for the end of a rank; one that does not end in time is killed.
    outcome finish(int rank, int ms);
    /// Of all ranks, in `ms` together; "" if all were good, else what each came to with its last
    /// words.
    std::string finish_all(int ms);

private:
    struct state {
        pid_t pid = -1;
        int socket = -1;
        bool over = false;
        outcome end;
        std::string heard;
    };
    void run(int first, int last, const std::function<void(rank_process&)>& body);
    rank_process make(int rank);
    bool fill(state& s, int ms);

    job_setup setup_;
    std::string key_;
    std::vector<int> listeners_;
    std::vector<std::string> roots_;
    std::vector<state> ranks_;
    std::vector<int> child_ends_;
};

/// A TCP socket listening on 127.0.0.1, and its "127.0.0.1:port".
int listen_on_loopback(std::string& address);

}  // namespace ef::test
