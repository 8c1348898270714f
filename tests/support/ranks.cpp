#include "tests/support/ranks.hpp"

#include "transport/base/clock.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <thread>

namespace ef::test {
namespace {

std::string random_key() {
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) throw std::runtime_error("getrandom");
    std::string key;
    for (unsigned char b : bytes) key += fmt::format("{:02x}", b);
    return key;
}

void send_line(int socket, std::string line) {
    line += '\n';
    for (size_t at = 0; at < line.size();) {
        const ssize_t n = ::send(socket, line.data() + at, line.size() - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;  // the other end is gone: its end is found elsewhere
        at += size_t(n);
    }
}

std::optional<std::string> take_line(std::string& heard) {
    const size_t end = heard.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = heard.substr(0, end);
    heard.erase(0, end + 1);
    return line;
}

// Where RDMA devices are lent to the tests ("rxe0,rxe1,..."), each imitated host has one of its own.
void use_device_of(size_t host) {
    const char* lent = getenv("EF_TEST_RAILS");
    if (!lent) return;
    std::vector<std::string> all;
    std::istringstream list(lent);
    for (std::string one; std::getline(list, one, ',');) all.push_back(one);
    if (!all.empty()) setenv("EFLOPS_DEVICE", all[host % all.size()].c_str(), 1);
}

}  // namespace

// g++ says so with macros, clang with features.
#if defined(__has_feature)
#define EF_HAS_FEATURE(x) __has_feature(x)
#else
#define EF_HAS_FEATURE(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    EF_HAS_FEATURE(address_sanitizer) || EF_HAS_FEATURE(thread_sanitizer)
constexpr int usual_patience = 2;  // not more: some tests wait for such a time to pass
#else
constexpr int usual_patience = 1;
#endif

int patience() {
    if (const char* p = getenv("EF_TEST_PATIENCE")) return std::max(1, atoi(p));
    return usual_patience;
}

int repeats(int usual) {
    const char* r = getenv("EF_TEST_REPEATS");
    return r ? std::max(1, atoi(r)) : usual;
}

int listen_on_loopback(std::string& address) {
    const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t n = sizeof(a);
    if (s < 0 || bind(s, reinterpret_cast<sockaddr*>(&a), n) != 0 || listen(s, 64) != 0 ||
        getsockname(s, reinterpret_cast<sockaddr*>(&a), &n) != 0)
        throw std::runtime_error(std::string("listen on 127.0.0.1: ") + strerror(errno));
    address = fmt::format("127.0.0.1:{}", ntohs(a.sin_port));
    return s;
}

// ---------------------------------------------------------------- in a rank

ef_comm_options rank_process::options(int i) const {
    ef_comm_options o{};
    o.size = sizeof(o);
    o.timeout_ms = timeout_ms_;
    o.listen_fd = rank == 0 ? listeners_[size_t(i)] : 0;
    o.root = roots_[size_t(i)].c_str();
    o.key = key_.c_str();
    o.interface_ = "127.0.0.0/8";
    return o;
}

ef_comm_t rank_process::join(int i) {
    const ef_comm_options o = options(i);
    ef_comm_t comm = nullptr;
    must(ef_comm_create(rank, nranks, &o, &comm), "ef_comm_create");
    return comm;
}

void rank_process::say(const std::string& line) { send_line(socket_, line); }

std::string rank_process::hear() {
    const deadline end = deadline::in_ms(60'000);
    for (;;) {
        if (auto line = take_line(heard_)) return *line;
        pollfd p{socket_, POLLIN, 0};
        if (::poll(&p, 1, end.left_ms()) <= 0) {
            if (end.passed()) fail("the test said nothing for 60 s");
            continue;
        }
        char buffer[256];
        const ssize_t n = ::read(socket_, buffer, sizeof(buffer));
        if (n <= 0) _exit(1);  // the test is gone
        heard_.append(buffer, size_t(n));
    }
}

void rank_process::fail(const std::string& why) {
    say("FAIL " + why);
    _exit(1);
}

void rank_process::must(ef_status_t s, const char* what) {
    if (s != EF_OK) fail(fmt::format("{}: {}: {}", what, ef_status_name(s), ef_last_error()));
}

std::string outcome::text() const {
    if (overdue) return "did not end in time and was killed";
    if (signal) return fmt::format("ended by signal {}", signal);
    return fmt::format("exit status {}", code);
}

// ---------------------------------------------------------------- in the test

job::job(job_setup setup, std::function<void(rank_process&)> body)
    : setup_(std::move(setup)), key_(random_key()) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int i = 0; i < setup_.roots; ++i)
        listeners_.push_back(listen_on_loopback(roots_.emplace_back()));
    const size_t n = size_t(setup_.nranks);
    ranks_.resize(n);
    child_ends_.resize(n);
    for (size_t r = 0; r < n; ++r) {
        int ends[2];
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
            throw std::runtime_error("socketpair");
        ranks_[r].socket = ends[0];
        child_ends_[r] = ends[1];
    }
    fflush(nullptr);
    for (int r = 0; r < setup_.nranks; ++r) {
        const int last = setup_.as_threads ? setup_.nranks : r + 1;
        const pid_t pid = fork();
        if (pid < 0) throw std::runtime_error("fork");
        if (pid == 0) {
            run(r, last, body);
            _exit(0);
        }
        for (int t = r; t < last; ++t) ranks_[size_t(t)].pid = pid;
        if (setup_.as_threads) break;
    }
    for (int s : child_ends_) close(s);
    for (int l : listeners_) close(l);
}

// The child: keep nothing of the harness but this rank's ends.
void job::run(int first, int last, const std::function<void(rank_process&)>& body) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int r = 0; r < setup_.nranks; ++r) {
        close(ranks_[size_t(r)].socket);
        if (r < first || r >= last) close(child_ends_[size_t(r)]);
    }
    if (first != 0)
        for (int l : listeners_) close(l);
    for (const auto& [name, value] : setup_.environment) setenv(name.c_str(), value.c_str(), 1);
    if (!setup_.host_of.empty()) {
        const size_t h = size_t(setup_.host_of[size_t(first)]);
        const std::string name =
            setup_.host_names.empty() ? fmt::format("host{}", h) : setup_.host_names[h];
        setenv("EFLOPS_HOST_ID", name.c_str(), 1);
        use_device_of(h);
    }
    std::vector<rank_process> all;
    for (int r = first; r < last; ++r) all.push_back(make(r));
    if (!setup_.as_threads) return body(all.front());
    std::vector<std::thread> threads;
    for (rank_process& p : all) threads.emplace_back([&] { body(p); });
    for (std::thread& t : threads) t.join();
}

rank_process job::make(int rank) {
    rank_process p;
    p.rank = rank;
    p.nranks = setup_.nranks;
    p.socket_ = child_ends_[size_t(rank)];
    p.timeout_ms_ = setup_.timeout_ms;
    p.listeners_ = listeners_;
    p.roots_ = roots_;
    p.key_ = key_;
    return p;
}

job::~job() {
    for (state& s : ranks_) {
        if (!s.over && s.pid > 0) {
            ::kill(s.pid, SIGKILL);
            waitpid(s.pid, nullptr, 0);
            for (state& t : ranks_)
                if (t.pid == s.pid) t.over = true;
        }
        close(s.socket);
    }
}

bool job::fill(state& s, int ms) {
    pollfd p{s.socket, POLLIN, 0};
    if (::poll(&p, 1, ms) <= 0) return false;
    char buffer[4096];
    const ssize_t n = ::read(s.socket, buffer, sizeof(buffer));
    if (n <= 0) return false;
    s.heard.append(buffer, size_t(n));
    return true;
}

std::optional<std::string> job::hear(int rank, int ms) {
    state& s = ranks_[size_t(rank)];
    const deadline end = deadline::in_ms(uint64_t(ms) * uint64_t(patience()));
    for (;;) {
        if (auto line = take_line(s.heard)) return line;
        if (!fill(s, end.left_ms())) return std::nullopt;
    }
}

void job::tell(int rank, const std::string& line) { send_line(ranks_[size_t(rank)].socket, line); }

void job::signal(int rank, int number) { ::kill(pid(rank), number); }

outcome job::finish(int rank, int ms) {
    state& s = ranks_[size_t(rank)];
    const deadline end = deadline::in_ms(uint64_t(ms) * uint64_t(patience()));
    while (!s.over) {
        int status = 0;
        pid_t r = waitpid(s.pid, &status, WNOHANG);
        if (r == 0 && end.passed()) {
            s.end.overdue = true;
            ::kill(s.pid, SIGKILL);
            r = waitpid(s.pid, &status, 0);
        }
        if (r == 0) {
            // A rank's end of the socket closes when it ends: that is the event to wait for, but a
            // stopped process or a thread's rank gives none.
            if (!fill(s, 5)) usleep(1000);
            continue;
        }
        outcome o = s.end;
        if (r > 0 && WIFEXITED(status)) o.code = WEXITSTATUS(status);
        if (r > 0 && WIFSIGNALED(status)) o.signal = WTERMSIG(status);
        for (state& t : ranks_)
            if (t.pid == s.pid) t.end = o, t.over = true;
    }
    while (fill(s, 0)) {
    }
    return s.end;
}

std::string job::finish_all(int ms) {
    const deadline end = deadline::in_ms(uint64_t(ms));
    std::string text;
    for (int r = 0; r < setup_.nranks; ++r) {
        const outcome o = finish(r, std::max(1, end.left_ms()));
        std::string words;
        while (auto line = take_line(ranks_[size_t(r)].heard)) words += "\n    " + *line;
        if (!o.good()) text += fmt::format("rank {}: {}{}\n", r, o.text(), words);
    }
    return text;
}

}  // namespace ef::test
