#include "perftests/compare/contest.hpp"

#include "perftests/common/facts.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace compare {
namespace {

constexpr int start_ms = 30'000;
constexpr int answer_ms = 60'000;
constexpr double block_us_wanted = 10'000;

int64_t now_ms() {
    using namespace std::chrono;
    return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

// Exactly n bytes before `until_ms`.
bool read_whole(int fd, void* p, size_t n, int64_t until_ms) {
    for (char* at = static_cast<char*>(p); n;) {
        pollfd f{fd, POLLIN, 0};
        const int64_t left = until_ms - now_ms();
        if (left <= 0 || poll(&f, 1, int(left)) != 1) return false;
        const ssize_t k = read(fd, at, n);
        if (k <= 0) return false;
        at += k;
        n -= size_t(k);
    }
    return true;
}

}  // namespace

void contest::launch(player& p) {
    p.ranks.assign(size_t(nranks), -1);
    p.pids.assign(size_t(nranks), 0);
    p.group = fork();
    if (p.group != 0) return;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // a launcher that is told to end takes its ranks along
    setenv("EF_COMPARE_SOCKET", path_.c_str(), 1);
    setenv("EF_COMPARE_NAME", p.name.c_str(), 1);
    execl("/bin/sh", "sh", "-c", p.command.c_str(), nullptr);
    _exit(127);
}

bool contest::start() {
    path_ = fmt::format("{}/socket{}", folder, getpid());
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    if (path_.size() >= sizeof(a.sun_path))
        return fmt::print(stderr, "coordinator: {}: too long for a socket\n", path_), false;
    memcpy(a.sun_path, path_.c_str(), path_.size());
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(listener, reinterpret_cast<sockaddr*>(&a), sizeof(a)) != 0 ||
        listen(listener, 256) != 0)
        return perror(path_.c_str()), false;
    for (player& p : players_) launch(p);
    const int64_t until = now_ms() + start_ms;
    while (!all_here() && now_ms() < until) {
        pollfd f{listener, POLLIN, 0};
        if (poll(&f, 1, 100) == 1) welcome(listener);
        for (player& p : players_)
            if (p.group > 0 && p.out.empty() && waitpid(p.group, nullptr, WNOHANG) == p.group)
                drop(p, "it has ended");
    }
    for (player& p : players_)
        if (std::count(p.ranks.begin(), p.ranks.end(), -1) && p.out.empty())
            drop(p, "not all of its ranks have come");
    close(listener);
    unlink(path_.c_str());
    return std::any_of(players_.begin(), players_.end(),
                       [](const player& p) { return p.out.empty(); });
}

void contest::welcome(int listener) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    hello h{};
    if (fd < 0 || !read_whole(fd, &h, sizeof(h), now_ms() + 1000)) {
        if (fd >= 0) close(fd);
        return;
    }
    for (player& p : players_) {
        if (p.name != h.contender || h.rank >= uint32_t(nranks)) continue;
        // An MPI that took its ranks for as many jobs of one would flatter itself.
        if (h.nranks != uint32_t(nranks))
            drop(p, fmt::format("it started {} ranks, not {}", h.nranks, nranks));
        ucred who{};
        socklen_t n = sizeof(who);
        if (!p.out.empty() || p.ranks[h.rank] >= 0 ||
            getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) != 0)
            break;
        p.ranks[h.rank] = fd;
        p.pids[h.rank] = who.pid;
        return;
    }
    close(fd);
}

bool contest::all_here() const {
    return std::all_of(players_.begin(), players_.end(), [](const player& p) {
        return !p.out.empty() || std::count(p.ranks.begin(), p.ranks.end(), -1) == 0;
    });
}

void contest::kill_ranks(player& p) noexcept {
    if (p.group <= 0) return;
    for (int pid : p.pids)
        if (pid > 0) kill(pid, SIGKILL);
    kill(-p.group, SIGKILL);
    waitpid(p.group, nullptr, 0);
    p.group = -1;
}

void contest::drop(player& p, const std::string& why) {
    p.out = why;
    fmt::print("# {} is left out: {}\n", p.name, why);
    kill_ranks(p);
    for (int& fd : p.ranks)
        if (fd >= 0) close(std::exchange(fd, -1));
}

bool contest::order_all(player& p, const command& c, std::vector<answer>& answers, int timeout_ms) {
    answers.assign(size_t(nranks), {});
    for (int fd : p.ranks)
        if (write(fd, &c, sizeof(c)) != ssize_t(sizeof(c)))
            return drop(p, "a rank has gone"), false;
    const int64_t until = now_ms() + timeout_ms;
    for (int r = 0; r < nranks; ++r) {
        if (!read_whole(p.ranks[size_t(r)], &answers[size_t(r)], sizeof(answer), until))
            return drop(p, fmt::format("rank {} did not answer", r)), false;
        if (answers[size_t(r)].failed)
            return drop(p, fmt::format("rank {}: its library returned an error", r)), false;
    }
    return true;
}

double contest::block_us(player& p, uint64_t bytes, uint32_t iterations) {
    std::vector<answer> a;
    if (!order_all(p, {order::run, iterations, bytes}, a, answer_ms)) return -1;
    double slowest = 0;
    for (const answer& x : a) slowest = std::max(slowest, x.seconds);
    return slowest * 1e6 / iterations;
}

// Two buffers per rank, and for what a library keeps inside as much again.
bool contest::enough_memory(uint64_t bytes) const {
    const auto playing = std::count_if(players_.begin(), players_.end(),
                                       [](const player& p) { return p.out.empty(); });
    const uint64_t needed = 4 * bytes * uint64_t(nranks) * uint64_t(playing),
                   there = ef::perf::available_bytes();
    if (there == 0 || needed <= there) return true;
    fmt::print("# {} bytes are skipped: {} MiB may be needed, {} MiB are available\n", bytes,
               needed >> 20, there >> 20);
    return false;
}

row contest::measure(uint64_t bytes) {
    row out;
    out.bytes = bytes;
    if (!enough_memory(bytes)) return out;
    std::vector<player*> playing;
    for (player& p : players_) {
        std::vector<answer> a;
        if (!p.out.empty() || !order_all(p, {order::prepare, 0, bytes}, a, answer_ms)) continue;
        row::entry e{p.name, {}, 0, 0, a[0].read, a[0].written, a[0].plan};
        for (const answer& x : a) e.wrong += x.wrong;
        const double once =
            block_us(p, bytes, 2);  // not counted: warms up, and tells how many fill a block
        if (once < 0) continue;
        const double fewest = once < 100'000 ? 2 : 1;
        e.iterations =
            uint32_t(std::clamp(block_us_wanted / std::max(once, 0.05), fewest, 20'000.0));
        playing.push_back(&p);
        out.entries.push_back(std::move(e));
    }
    for (int t = 0; t < turns; ++t)
        for (size_t i = 0; i < playing.size(); ++i) {
            if (!playing[i]->out.empty()) continue;
            const double us = block_us(*playing[i], bytes, out.entries[i].iterations);
            if (us >= 0) out.entries[i].us.push_back(us);
        }
    std::vector<answer> a;
    for (player* p : playing)
        if (p->out.empty()) order_all(*p, {order::release, 0, bytes}, a, answer_ms);
    // Who fell out on the way has too few turns to be compared.
    std::erase_if(out.entries, [&](const row::entry& e) { return int(e.us.size()) < turns; });
    return out;
}

std::map<std::string, std::string> contest::left_out() const {
    std::map<std::string, std::string> who;
    for (const player& p : players_)
        if (!p.out.empty()) who[p.name] = p.out;
    return who;
}

void contest::stop() {
    const command quit{order::quit, 0, 0};
    for (player& p : players_)
        for (int fd : p.ranks)
            if (fd >= 0 && write(fd, &quit, sizeof(quit)) < 0) continue;
    const int64_t until = now_ms() + 5000;
    for (player& p : players_)
        while (p.group > 0 && now_ms() < until)
            if (waitpid(p.group, nullptr, WNOHANG) == p.group) p.group = -1;
            else usleep(10'000);
    kill_all();
}

void contest::kill_all() noexcept {
    for (player& p : players_) kill_ranks(p);
}

}  // namespace compare
