// worker: one rank of one contender. A contender gives its allreduce, its barrier and how it
// allocates; this does the rest alike for all: buffers of float32, out of place, inputs whose sums
// are exact.
#pragma once

#include "perftests/compare/protocol.hpp"

#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace compare {

struct contender {
    std::function<bool(const float* in, float* out, size_t count)> allreduce;
    std::function<bool()> barrier;
    std::function<void*(size_t bytes)> allocate = [](size_t bytes) { return malloc(bytes); };
    std::function<void(void*)> release = [](void* p) { free(p); };
    std::function<void(size_t count, answer&)> describe = [](size_t, answer&) {};
};

inline double now_s() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

// Where there is a core for every rank each gets its own: all contenders alike.
inline void pin(int rank, int nranks) {
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (nranks > cores) return;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(unsigned(rank % cores), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

inline bool whole(int fd, void* p, size_t n, bool write_it) {
    for (char* at = static_cast<char*>(p); n;) {
        const ssize_t k = write_it ? ::write(fd, at, n) : ::read(fd, at, n);
        if (k <= 0) return false;
        at += k;
        n -= size_t(k);
    }
    return true;
}

inline int connect_to_coordinator(int rank, int nranks) {
    const char *path = getenv("EF_COMPARE_SOCKET"), *name = getenv("EF_COMPARE_NAME");
    sockaddr_un a{};
    a.sun_family = AF_UNIX;
    if (!path || !name || strlen(path) >= sizeof(a.sun_path)) return -1;
    memcpy(a.sun_path, path, strlen(path));
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, reinterpret_cast<sockaddr*>(&a), sizeof(a)) != 0) return -1;
    hello h{};
    snprintf(h.contender, sizeof(h.contender), "%s", name);
    h.rank = uint32_t(rank);
    h.nranks = uint32_t(nranks);
    return whole(fd, &h, sizeof(h), true) ? fd : -1;
}

inline void prepare(const contender& c, float* in, float* out, size_t count, int rank, int nranks,
                    answer& a) {
    for (size_t i = 0; i < count; ++i) in[i] = float(i % 64) + float(rank), out[i] = -1;
    a.failed = !c.allreduce(in, out, count);
    const float ranks = float(nranks * (nranks - 1) / 2);
    for (size_t i = 0; i < count; ++i) a.wrong += out[i] != float(i % 64) * float(nranks) + ranks;
    c.describe(count, a);
}

/// Serve the coordinator until it says quit or goes away. The exit status of the rank.
inline int serve(int rank, int nranks, const contender& c) {
    const int fd = connect_to_coordinator(rank, nranks);
    if (fd < 0) return 1;
    float *in = nullptr, *out = nullptr;
    size_t count = 0;
    command o;
    while (whole(fd, &o, sizeof(o), false) && o.what != order::quit) {
        answer a{};
        if (o.what == order::prepare) {
            count = o.bytes / sizeof(float);
            in = static_cast<float*>(c.allocate(o.bytes));
            out = static_cast<float*>(c.allocate(o.bytes));
            a.failed = !in || !out;
            if (!a.failed) prepare(c, in, out, count, rank, nranks, a);
        } else if (o.what == order::run) {
            bool good = c.allreduce(in, out, count) && c.barrier();
            const double start = now_s();
            for (uint32_t i = 0; good && i < o.iterations; ++i) good = c.allreduce(in, out, count);
            a.seconds = now_s() - start;
            a.failed = !good;
        } else if (o.what == order::release) {
            c.release(in);
            c.release(out);
        }
        if (!whole(fd, &a, sizeof(a), true)) break;
    }
    close(fd);
    return 0;
}

}  // namespace compare
