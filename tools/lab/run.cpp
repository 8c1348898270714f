#include "tools/lab/run.hpp"

#include "tools/lab/line_pipe.hpp"
#include "tools/lab/namespaces.hpp"
#include "transport/base/clock.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <set>

namespace ef::lab {
namespace {

using namespace fabric;

constexpr unsigned polite_ms = 2000;  // between SIGTERM and SIGKILL
constexpr unsigned drain_ms = 1000;   // for output that is still in a pipe

result<std::string> random_key() {
    unsigned char raw[32];
    if (getrandom(raw, sizeof raw, 0) != ssize_t(sizeof raw))
        return system_error("getrandom", errno);
    std::string text;
    for (const unsigned char c : raw) text += fmt::format("{:02x}", c);
    return text;
}

/// Below the ports that kernels give to connections by themselves.
unsigned root_port(const std::string& key) {
    return 20'000 + unsigned(std::stoul(key.substr(0, 8), nullptr, 16) % 10'000);
}

struct child {
    pid_t pid = 0, group = 0;
};

/// Of this process, dead ones too that nobody has waited for.
std::vector<child> children() {
    std::vector<child> all;
    for (const pid_t pid : all_processes()) {
        const std::unique_ptr<FILE, int (*)(FILE*)> f(
            fopen(fmt::format("/proc/{}/stat", pid).c_str(), "re"), fclose);
        char text[512] = {};
        if (!f || fread(text, 1, sizeof text - 1, f.get()) == 0) continue;
        const char* const after_name = strrchr(text, ')');
        int parent = 0, group = 0;
        if (after_name && sscanf(after_name + 1, " %*c %d %d", &parent, &group) == 2 &&
            parent == getpid())
            all.push_back({pid, group});
    }
    return all;
}

class job {
public:
    job(const lab& l, const run_options& o) : lab_(l), o_(o) {}
    ~job();
    status start();
    run_end finish();

private:
    status hear_signals();
    status open_pipes();
    std::vector<std::string> environment(int rank, const std::string& key) const;
    std::string name_of(const rank_process& p) const;
    int reap();
    void note_end(const rank_process& p, int how);
    void read_signals();
    void wait_for_news(int ms);
    void fail(int exit_status, std::string why);
    void end_all(int signal);
    void end_strays();
    std::string still_running() const;

    const lab& lab_;
    const run_options& o_;
    std::vector<rank_process> ranks_;
    std::vector<line_pipe> pipes_;
    fd signals_;
    sigset_t old_mask_{};
    bool masked_ = false;
    run_end end_;
    std::optional<deadline> until_;    // then the others are ended
    std::optional<deadline> kill_at_;  // SIGTERM has been sent
};

job::~job() {
    for (const rank_process& p : ranks_)
        if (p.running) {
            kill(-p.pid, SIGKILL);
            kill(p.pid, SIGKILL);
            waitpid(p.pid, nullptr, 0);
        }
    if (!ranks_.empty()) end_strays();
    if (masked_) sigprocmask(SIG_SETMASK, &old_mask_, nullptr);
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

status job::hear_signals() {
    // What ranks leave behind becomes our child, and so is found and ended.
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return system_error("subreaper", errno);
    sigset_t heard;
    sigemptyset(&heard);
    sigaddset(&heard, SIGCHLD);
    // One that is ignored (nohup) stays so.
    for (const int s : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
        struct sigaction now {};
        if (sigaction(s, nullptr, &now) == 0 && now.sa_handler == SIG_DFL) sigaddset(&heard, s);
    }
    if (sigprocmask(SIG_BLOCK, &heard, &old_mask_) != 0) return system_error("sigprocmask", errno);
    masked_ = true;
    signals_ = fd(signalfd(-1, &heard, SFD_CLOEXEC | SFD_NONBLOCK));
    return signals_ ? status() : system_error("signalfd", errno);
}

status job::open_pipes() {
    for (size_t r = 0; r < o_.place.size(); ++r) {
        std::string prefix;
        if (o_.prefix == line_prefix::host)
            prefix = fmt::format("[{}] ", lab_.net().at(o_.place[r]).name);
        if (o_.prefix == line_prefix::rank) prefix = fmt::format("[{}] ", r);
        for (const int to : {STDOUT_FILENO, STDERR_FILENO}) {
            result<line_pipe> p = line_pipe::open(to, prefix);
            if (!p.ok()) return p.why();
            pipes_.push_back(std::move(*p));
        }
    }
    return {};
}

std::vector<std::string> job::environment(int rank, const std::string& key) const {
    const node_id host = o_.place[size_t(rank)];
    std::vector<std::string> e = {
        fmt::format("EFLOPS_RANK={}", rank),
        fmt::format("EFLOPS_NRANKS={}", o_.place.size()),
        fmt::format("EFLOPS_ROOT={}:{}", text_of(lab_.address_of(o_.place[0])), root_port(key)),
        fmt::format("EFLOPS_KEY={}", key),
        fmt::format("EFLOPS_HOST_ID={}", lab_.net().at(host).name),
        "EFLOPS_INTERFACE=eth0",
        fmt::format("EF_LAB={}", lab_.how().name),
    };
    if (!o_.fabric.empty()) e.push_back("EFLOPS_FABRIC=" + o_.fabric);
    return e;
}

status job::start() {
    if (status s = hear_signals(); !s.ok()) return s;
    if (status s = open_pipes(); !s.ok()) return s;
    const result<std::string> key = random_key();
    if (!key.ok()) return key.why();
    fflush(nullptr);  // or each child would print it again
    const pid_t self = getpid();
    for (size_t r = 0; r < o_.place.size(); ++r) {
        rank_process p;
        p.rank = int(r);
        p.host = o_.place[r];
        rank_start s;
        s.where = name_of(p);
        s.namespace_name = lab_.namespace_name(p.host);
        s.hostname = lab_.net().at(p.host).name;
        s.environment = environment(p.rank, *key);
        s.out = pipes_[2 * r].write_end();
        s.err = pipes_[2 * r + 1].write_end();
        s.parent = self;
        p.pid = fork();
        if (p.pid < 0) return system_error("fork", errno);
        if (p.pid == 0) become_rank(s, o_.command);
        setpgid(p.pid, p.pid);  // here too, so that it is done when the next line is reached
        p.running = true;
        ranks_.push_back(p);
    }
    for (line_pipe& p : pipes_) p.close_write_end();
    return {};
}

std::string job::name_of(const rank_process& p) const {
    return p.pid > 0
               ? fmt::format("rank {} ({}, pid {})", p.rank, lab_.net().at(p.host).name, p.pid)
               : fmt::format("rank {} ({})", p.rank, lab_.net().at(p.host).name);
}

std::string job::still_running() const {
    std::string who;
    for (const rank_process& p : ranks_)
        if (p.running) who += (who.empty() ? "" : ", ") + name_of(p);
    return who;
}

run_end job::finish() {
    const deadline limit = deadline::in_ms(o_.timeout_ms);
    while (reap() > 0) {
        if (kill_at_ && kill_at_->passed()) {
            end_all(SIGKILL);
            wait_for_news(100);
            continue;
        }
        const bool late = limit.passed();
        if (!kill_at_ && (late || (until_ && until_->passed()))) {
            const std::string who = still_running();
            if (late) fail(1, fmt::format("no end after {} ms: {}", o_.timeout_ms, who));
            else
                fmt::print(stderr, "ef_lab: {} ms later these still ran and are ended: {}\n",
                           o_.grace_ms, who);
            end_all(SIGTERM);
        }
        const deadline& next = kill_at_ ? *kill_at_ : until_ ? *until_ : limit;
        wait_for_news(std::min(next.left_ms(1000), limit.left_ms(1000) + 1));
    }
    end_strays();
    const deadline drained = deadline::in_ms(drain_ms);
    while (!drained.passed() && std::any_of(pipes_.begin(), pipes_.end(),
                                            [](const line_pipe& p) { return p.is_open(); }))
        wait_for_news(drained.left_ms());
    for (line_pipe& p : pipes_) p.finish();
    return end_;
}

/// The first failure counts; the others often only notice it.
void job::fail(int exit_status, std::string why) {
    if (end_.exit_status != 0) return;
    // Now, not at the end: the others may take a while.
    fmt::print(stderr, "ef_lab: {}\n", why);
    end_ = {exit_status, std::move(why)};
    until_ = deadline::in_ms(o_.grace_ms);
}

int job::reap() {
    int running = 0;
    for (rank_process& p : ranks_) {
        if (!p.running) continue;
        int how = 0;
        const pid_t got = waitpid(p.pid, &how, WNOHANG);
        if (got == 0 || (got < 0 && errno == EINTR)) {
            ++running;
            continue;
        }
        p.running = false;
        kill(-p.pid, SIGKILL);  // what it left in its process group
        note_end(p, got < 0 ? 1 << 8 : how);
    }
    return running;
}

void job::note_end(const rank_process& p, int how) {
    if (kill_at_) return;  // by us
    if (WIFSIGNALED(how))
        fail(128 + WTERMSIG(how), fmt::format("{} was killed by signal {} ({})", name_of(p),
                                              WTERMSIG(how), strsignal(WTERMSIG(how))));
    else if (WEXITSTATUS(how) != 0)
        fail(WEXITSTATUS(how),
             fmt::format("{} ended with status {}", name_of(p), WEXITSTATUS(how)));
}

void job::end_all(int signal) {
    if (!kill_at_) kill_at_ = deadline::in_ms(polite_ms);
    for (const rank_process& p : ranks_) {
        if (!p.running) continue;
        kill(-p.pid, signal);
        kill(p.pid, signal);
        kill(-p.pid, SIGCONT);  // a paused one could not end
    }
}

/// What ranks started and did not wait for is our child by now: in the process group of its rank,
/// or at least on its host.
void job::end_strays() {
    std::set<ino_t> hosts;
    std::set<pid_t> groups, ended;
    for (const rank_process& p : ranks_) {
        groups.insert(p.pid);
        if (const result<fd> ns = open_namespace(lab_.namespace_name(p.host)); ns.ok())
            hosts.insert(identity_of_namespace(ns->get()));
    }
    const deadline limit = deadline::in_ms(polite_ms);
    for (bool found = true; found && !limit.passed();) {
        found = false;
        for (const child& c : children()) {
            const bool of_ours = groups.count(c.group) != 0 || ended.count(c.pid) != 0 ||
                                 hosts.count(namespace_of_process(c.pid)) != 0;
            if (!of_ours) continue;
            found = true;
            kill(c.pid, SIGKILL);
            ended.insert(c.pid);  // dead, it has neither
            waitpid(c.pid, nullptr, WNOHANG);
        }
        if (found) usleep(1000);
    }
}

void job::read_signals() {
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof info) == ssize_t(sizeof info)) {
        if (info.ssi_signo == SIGCHLD) continue;
        const int s = int(info.ssi_signo);
        fail(128 + s, fmt::format("ended by signal {} ({})", s, strsignal(s)));
        end_all(kill_at_ ? SIGKILL : SIGTERM);
    }
}

/// Sleep until a rank has ended or written something, or a signal came.
void job::wait_for_news(int ms) {
    std::vector<pollfd> p{{signals_.get(), POLLIN, 0}};
    for (const line_pipe& pipe : pipes_) p.push_back({pipe.read_end(), POLLIN, 0});
    if (poll(p.data(), p.size(), ms) <= 0) return;
    for (size_t i = 0; i < pipes_.size(); ++i)
        if (p[i + 1].revents != 0) pipes_[i].pump();
    if (p[0].revents != 0) read_signals();
}

}  // namespace

result<run_end> run(const lab& l, const run_options& o) {
    if (o.place.empty() || o.command.empty())
        return status(EF_INVALID, "run: no ranks or no command");
    job j(l, o);
    if (status s = j.start(); !s.ok()) return s;
    return j.finish();
}

}  // namespace ef::lab
