#include "perftests/common/facts.hpp"

#include "transport/base/clock.hpp"

#include <eflops/eflops.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <ctime>
#include <fstream>
#include <thread>

namespace ef::perf {
namespace {

std::string cpu_model() {
    std::ifstream in("/proc/cpuinfo");
    std::string line;
    while (std::getline(in, line)) {
        // x86 says "model name", arm "Processor" or nothing.
        if (line.rfind("model name", 0) == 0 || line.rfind("Processor", 0) == 0) {
            const size_t at = line.find(": ");
            if (at != std::string::npos) return line.substr(at + 2);
        }
    }
    return "unknown";
}

std::vector<int> allowed_cores() {
    std::vector<int> cores;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
    for (int c = 0; c < CPU_SETSIZE; ++c)
        if (CPU_ISSET(c, &set)) cores.push_back(c);
    return cores;
}

double clock_cost_ns() {
    constexpr int reads = 2000;
    const uint64_t start = now_ns();
    uint64_t last = start;
    for (int i = 0; i < reads; ++i) last = now_ns();
    return double(last - start) / reads;
}

struct alignas(128) ping_line {
    std::atomic<uint32_t> turn{0};
};

/// Wait for `turn` to become `want`; false after a second, so that a core that is never given to us
/// ends the probe and not the program.
bool wait_for(const ping_line& l, uint32_t want, const deadline& whole) {
    for (uint32_t spins = 0; l.turn.load(std::memory_order_acquire) != want; ++spins) {
        cpu_relax();
        if (spins > 100'000) {
            while (l.turn.load(std::memory_order_acquire) != want)
                if (whole.passed()) return false;
            return true;
        }
    }
    return true;
}

}  // namespace

bool bind_to_core(int core) noexcept {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(size_t(core), &set);
    return sched_setaffinity(0, sizeof set, &set) == 0;
}

machine_facts read_machine() {
    machine_facts m;
    const std::time_t now = std::time(nullptr);
    tm utc{};
    gmtime_r(&now, &utc);
    char text[32];
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    m.time_utc = text;
    utsname u{};
    if (uname(&u) == 0) {
        m.host = u.nodename;
        m.kernel = fmt::format("{} {} {}", u.sysname, u.release, u.machine);
    }
    m.cpu = cpu_model();
    m.library = ef_version();
    m.cores = allowed_cores();
    m.clock_read_ns = clock_cost_ns();
    return m;
}

double cpu_pressure_percent() {
    std::ifstream in("/proc/pressure/cpu");
    std::string word;
    while (in >> word)
        if (word.rfind("avg10=", 0) == 0) return std::strtod(word.c_str() + 6, nullptr);
    return -1;
}

unsigned long long available_bytes() {
    std::ifstream in("/proc/meminfo");
    std::string word;
    while (in >> word) {
        unsigned long long kib = 0;
        if (word == "MemAvailable:" && in >> kib) return kib << 10;
    }
    return 0;
}

double core_round_trip_ns(int a, int b) {
    constexpr uint32_t rounds = 1000;
    constexpr size_t batches = 21;
    ping_line line;
    std::array<double, batches> ns{};
    const deadline whole = deadline::in_ms(1000);  // a few milliseconds where both have a core
    std::atomic<bool> bound_a{false}, bound_b{false}, good{true};
    // Even: the line is a's to write, odd: b's.
    std::thread echo([&] {
        bound_b = bind_to_core(b);
        for (uint32_t i = 0; i < rounds * batches && good; ++i) {
            if (!wait_for(line, 2 * i + 1, whole)) good = false;
            line.turn.store(2 * i + 2, std::memory_order_release);
        }
    });
    std::thread serve([&] {
        bound_a = bind_to_core(a);
        for (uint32_t i = 0; i < rounds * batches && good;) {
            const uint64_t start = now_ns();
            for (uint32_t r = 0; r < rounds && good; ++r, ++i) {
                line.turn.store(2 * i + 1, std::memory_order_release);
                if (!wait_for(line, 2 * i + 2, whole)) good = false;
            }
            // Given up within the first batch, i stands before its end.
            if (good) ns[i / rounds - 1] = double(now_ns() - start) / rounds;
        }
    });
    serve.join();
    echo.join();
    if (!good || !bound_a || !bound_b) return -1;
    std::nth_element(ns.begin(), ns.begin() + batches / 2, ns.end());
    return ns[batches / 2];
}

}  // namespace ef::perf
