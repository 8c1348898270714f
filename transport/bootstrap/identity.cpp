#include "transport/bootstrap/identity.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace ef {
namespace {

// Equal on two processes exactly if they can share memory and abstract unix sockets: the same
// running kernel, network namespace and user. Containers of one host differ in the namespace.
std::string kernel_identity() {
    std::array<char, 64> boot{};
    if (const fd f(open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)); f) {
        const ssize_t n = read(f.get(), boot.data(), boot.size() - 1);
        if (n > 0 && boot[size_t(n) - 1] == '\n') boot[size_t(n) - 1] = 0;
    }
    struct stat net {};
    if (stat("/proc/self/ns/net", &net) != 0) net.st_ino = 0;
    return fmt::format("{} {} {}", boot.data(), net.st_ino, getuid());
}

constexpr char digits[] = "0123456789abcdef";

unsigned value_of(char digit) {
    const char* at = strchr(digits, digit);
    return at && digit ? unsigned(at - digits) : 0;
}

std::string own_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        for (long i = 0; i < sysconf(_SC_NPROCESSORS_ONLN) && i < CPU_SETSIZE; ++i)
            CPU_SET(size_t(i), &set);
    std::string text;
    for (size_t four = 0; four < CPU_SETSIZE / 4; ++four) {
        unsigned v = 0;
        for (size_t i = 0; i < 4; ++i) v |= CPU_ISSET(4 * four + i, &set) ? 1u << i : 0u;
        text += digits[v];
    }
    text.erase(text.find_last_not_of('0') + 1);
    return text;
}

}  // namespace

peer_info describe_self(const config& c) {
    peer_info p;
    char name[256] = {};
    p.host = gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown host";
    p.host_id = c.host_id.empty() ? kernel_identity() : c.host_id;
    p.pid = getpid();
    p.cpus = own_cpus();
    return p;
}

int cores_of_host(const group& g, rank_t r) {
    std::string all;
    for (rank_t q = 0; q < g.nranks(); ++q) {
        if (g.info(q).host_id != g.info(r).host_id) continue;
        const std::string& some = g.info(q).cpus;
        if (all.size() < some.size()) all.resize(some.size(), '0');
        for (size_t i = 0; i < some.size(); ++i)
            all[i] = digits[value_of(all[i]) | value_of(some[i])];
    }
    int cores = 0;
    for (char c : all) cores += std::popcount(value_of(c));
    return std::max(1, cores);
}

}  // namespace ef
