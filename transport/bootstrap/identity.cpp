#include "transport/bootstrap/identity.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

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

}  // namespace

peer_info describe_self(const config& c) {
    peer_info p;
    char name[256] = {};
    p.host = gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown host";
    p.host_id = c.host_id.empty() ? kernel_identity() : c.host_id;
    p.pid = getpid();
    cpu_set_t set;
    CPU_ZERO(&set);
    p.cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set)
                                                           : int(sysconf(_SC_NPROCESSORS_ONLN));
    return p;
}

}  // namespace ef
