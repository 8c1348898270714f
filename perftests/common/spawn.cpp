#include "perftests/common/spawn.hpp"

#include "perftests/common/exit_code.hpp"
#include "transport/base/clock.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

namespace ef::perf {
namespace {

[[noreturn]] void fail_errno(const char* what) {
    throw failure(exit_failed, fmt::format("{}: {} (errno {})", what, std::strerror(errno), errno));
}

/// A descriptor of this file: closed with its owner.
class descriptor {
public:
    descriptor() = default;
    explicit descriptor(int n) : n_(n) {}
    descriptor(const descriptor&) = delete;
    descriptor& operator=(const descriptor&) = delete;
    ~descriptor() { reset(); }
    int get() const { return n_; }
    void set(int n) {
        reset();
        n_ = n;
    }
    void reset() {
        if (n_ >= 0) close(n_);
        n_ = -1;
    }

private:
    int n_ = -1;
};

/// What a failing child tells its parent. Not longer than PIPE_BUF, so that a write is atomic.
struct report {
    int rank;
    int code;
    int secondary;
    char text[2048];
};
static_assert(sizeof(report) <= 4096);

struct child {
    pid_t pid = -1;
    bool running = false;
    int code = 0;
};

/// The worst that is known: a signal beats a failure of one's own, which beats having noticed
/// another's.
struct verdict {
    int rank_of_cause = 3;
    int code = exit_good;
    std::string text;
    void consider(int cause, int exit_status, const std::string& words) {
        if (cause >= rank_of_cause) return;
        rank_of_cause = cause;
        code = exit_status;
        text = words;
    }
    bool failed() const { return rank_of_cause < 3; }
};

std::string random_key() {
    unsigned char raw[32];
    if (getrandom(raw, sizeof raw, 0) != ssize_t(sizeof raw)) fail_errno("getrandom");
    std::string text;
    for (const unsigned char c : raw) text += fmt::format("{:02x}", c);
    return text;
}

class local_job {
public:
    local_job(const char* program, int nranks, int listening_rank)
        : program_(program), children_(size_t(nranks)), listening_rank_(listening_rank) {
        sigset_t heard;
        sigemptyset(&heard);
        sigaddset(&heard, SIGCHLD);
        signal(SIGCHLD, SIG_DFL);  // ignored by whoever started us, it would reap behind our back
        // What ends us is taken in order, so that the ranks are reaped and not left to init. One
        // that is ignored (nohup) stays so.
        for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
            struct sigaction now {};
            if (sigaction(s, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) sigaddset(&heard, s);
        }
        if (sigprocmask(SIG_BLOCK, &heard, &old_mask_) != 0) fail_errno("sigprocmask");
        signals_.set(signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK));
        if (signals_.get() < 0) fail_errno("signalfd");
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) != 0) fail_errno("pipe");
        read_end_.set(ends[0]);
        write_end_.set(ends[1]);
        fcntl(read_end_.get(), F_SETFL, O_NONBLOCK);
        seat_.nranks = nranks;
        seat_.key = random_key();
        listen_on_loopback();
    }

    ~local_job() {
        kill_rest();
        for (child& c : children_)
            if (c.running) waitpid(c.pid, nullptr, 0);
        sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
        if (ended_by_ != 0) raise(ended_by_);  // to end by it, as the sender expects
    }

    void start(const std::function<int(const seat&)>& body) {
        fflush(nullptr);  // or each child would print it again
        const pid_t parent = getpid();
        for (int r = 0; r < seat_.nranks; ++r) {
            const pid_t pid = fork();
            if (pid < 0) fail_errno("fork");
            if (pid == 0) run_child(r, parent, body);
            children_[size_t(r)].pid = pid;
            children_[size_t(r)].running = true;
        }
        listener_.reset();
        write_end_.reset();
    }

    int finish(unsigned grace_ms) {
        std::optional<deadline> after_end, after_failure;
        while (reap() > 0) {
            read_reports();
            if (ended_by_ != 0) return exit_failed;  // the destructor ends and reaps them
            if (!after_end && ended_ > 0) after_end = deadline::in_ms(grace_ms);
            if (!after_failure && verdict_.failed())
                after_failure = deadline::in_ms(std::min(grace_ms, failure_grace_ms));
            const auto& until = after_failure ? after_failure : after_end;
            if (until && until->passed()) end_stragglers();
            else wait_for_news(until ? until->left_ms(1000) : -1);
        }
        read_reports();
        if (!verdict_.failed()) return children_[0].code;
        fmt::print(stderr, "{}: {}\n", program_, verdict_.text);
        return verdict_.code;
    }

private:
    void listen_on_loopback() {
        listener_.set(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t bytes = sizeof at;
        if (listener_.get() < 0 ||
            bind(listener_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0 ||
            listen(listener_.get(), std::max(128, seat_.nranks)) != 0 ||
            getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&at), &bytes) != 0)
            fail_errno("listening on 127.0.0.1");
        seat_.root = fmt::format("127.0.0.1:{}", ntohs(at.sin_port));
    }

    [[noreturn]] void run_child(int rank, pid_t parent, const std::function<int(const seat&)>& f) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(exit_failed);  // it died before the line above
        sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
        for (child& c : children_) c.running = false;  // they are not ours
        read_end_.reset();
        signals_.reset();
        if (rank != listening_rank_) listener_.reset();
        seat mine = seat_;
        mine.rank = rank;
        if (rank == listening_rank_) mine.listen_fd = listener_.get();
        int code = exit_failed;
        try {
            code = f(mine);
        } catch (const failure& e) {
            code = e.code();
            tell(rank, code, e.secondary(), e.what());
        } catch (const std::exception& e) {
            tell(rank, code, false, e.what());
        }
        fflush(nullptr);
        std::exit(code);
    }

    void tell(int rank, int code, bool secondary, const char* text) {
        report r{};
        r.rank = rank;
        r.code = code;
        r.secondary = secondary;
        snprintf(r.text, sizeof r.text, "%s", text);
        if (write(write_end_.get(), &r, sizeof r) != ssize_t(sizeof r))
            fmt::print(stderr, "{}: rank {}: {}\n", program_, rank, text);
    }

    void read_reports() {
        report r;
        while (read(read_end_.get(), &r, sizeof r) == ssize_t(sizeof r))
            verdict_.consider(r.secondary ? 2 : 1, r.code,
                              fmt::format("rank {}: {}", r.rank, r.text));
    }

    /// Collect who has ended; returns how many run.
    int reap() {
        int running = 0;
        for (size_t r = 0; r < children_.size(); ++r) {
            child& c = children_[r];
            if (!c.running) continue;
            int how = 0;
            const pid_t got = waitpid(c.pid, &how, WNOHANG);
            if (got == 0 || (got < 0 && errno == EINTR)) {
                ++running;
                continue;
            }
            c.running = false;
            ++ended_;
            note_end(int(r), c, got < 0 ? exit_failed << 8 : how);
        }
        return running;
    }

    void note_end(int rank, child& c, int how) {
        if (WIFSIGNALED(how)) {
            c.code = exit_failed;
            if (!killing_)
                verdict_.consider(0, exit_failed,
                                  fmt::format("rank {} (pid {}) was killed by signal {} ({})", rank,
                                              c.pid, WTERMSIG(how), strsignal(WTERMSIG(how))));
            return;
        }
        c.code = WEXITSTATUS(how);
        read_reports();  // its words, if it left any, come before the bare number
        if (c.code != exit_good && rank != 0)
            verdict_.consider(
                2, c.code,
                fmt::format("rank {} (pid {}) ended with status {}", rank, c.pid, c.code));
    }

    void end_stragglers() {
        std::string who;
        for (size_t r = 0; r < children_.size(); ++r)
            if (children_[r].running)
                who += fmt::format("{}{} (pid {})", who.empty() ? "" : ", ", r, children_[r].pid);
        verdict_.consider(
            2, exit_failed,
            fmt::format("rank {} had to be killed: it did not end after another had", who));
        kill_rest();
        wait_for_news(1000);
    }

    void kill_rest() {
        killing_ = true;
        for (const child& c : children_)
            if (c.running) kill(c.pid, SIGKILL);
    }

    /// Sleep until a child has ended or told something. The measurement must not feel us.
    void wait_for_news(int ms) {
        // Once all writers have closed, the pipe would be readable for ever.
        pollfd p[2] = {{signals_.get(), POLLIN, 0}, {pipe_open_ ? read_end_.get() : -1, POLLIN, 0}};
        if (poll(p, 2, ms) <= 0) return;
        if ((p[1].revents & POLLHUP) && !(p[1].revents & POLLIN)) pipe_open_ = false;
        signalfd_siginfo info;
        while (read(signals_.get(), &info, sizeof info) == ssize_t(sizeof info))
            if (info.ssi_signo != SIGCHLD) ended_by_ = int(info.ssi_signo);
    }

    const char* program_;
    std::vector<child> children_;
    int listening_rank_;
    seat seat_;
    sigset_t old_mask_{};
    descriptor signals_, read_end_, write_end_, listener_;
    verdict verdict_;
    int ended_ = 0;     // children
    int ended_by_ = 0;  // signal that asked this process to end
    bool killing_ = false;
    bool pipe_open_ = true;
};

}  // namespace

int run_local(const char* program, int nranks, unsigned grace_ms,
              const std::function<int(const seat&)>& body, int listening_rank) {
    local_job job(program, nranks, listening_rank);
    job.start(body);
    return job.finish(grace_ms);
}

}  // namespace ef::perf
