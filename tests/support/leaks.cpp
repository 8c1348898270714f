#include "tests/support/leaks.hpp"

#include "transport/base/clock.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

namespace ef::test {
namespace {

std::vector<std::string> entries(const char* directory) {
    std::vector<std::string> names;
    DIR* d = opendir(directory);
    if (!d) return names;
    while (const dirent* e = readdir(d))
        if (e->d_name[0] != '.') names.push_back(e->d_name);
    closedir(d);
    return names;
}

void count_descriptors(footprint& f) {
    for (const std::string& n : entries("/proc/self/fd")) {
        char target[256];
        const ssize_t length = readlink(("/proc/self/fd/" + n).c_str(), target, sizeof(target) - 1);
        if (length <= 0) continue;
        std::string kind(target, size_t(length));
        if (kind.find(":[") != std::string::npos && kind.rfind("anon_inode", 0) != 0)
            kind.resize(kind.find(':'));
        // The directory that is being read.
        if (kind.rfind("/proc/", 0) == 0) continue;
        ++f["descriptor " + kind];
    }
}

void count_mappings(footprint& f) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.find("memfd:") != std::string::npos) ++f["mapping of a memfd"];
}

void count_sockets(footprint& f) {
    std::ifstream sockets("/proc/net/unix");
    for (std::string line; std::getline(sockets, line);)
        if (line.find(" @eflops") != std::string::npos) ++f["abstract unix socket"];
    for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream tcp(table);
        for (std::string line; std::getline(tcp, line);) {
            std::istringstream words(line);
            std::string slot, local, remote, state;
            words >> slot >> local >> remote >> state;
            if (state == "0A") ++f["listening tcp port"];
        }
    }
}

void count_children(footprint& f) {
    std::ifstream children("/proc/thread-self/children");
    for (pid_t p; children >> p;) ++f["child process"];
}

void kill_children() {
    std::ifstream children("/proc/thread-self/children");
    std::vector<pid_t> all;
    for (pid_t p; children >> p;) all.push_back(p);
    for (pid_t p : all) {
        kill(p, SIGKILL);
        waitpid(p, nullptr, 0);
    }
}

}  // namespace

std::string isolate(size_t shm_bytes) {
    if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0)
        return fmt::format("no namespaces of our own: unshare: {}", strerror(errno));
    const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq lo{};
    strcpy(lo.ifr_name, "lo");
    lo.ifr_flags = IFF_UP | IFF_RUNNING;
    const bool up = s >= 0 && ioctl(s, SIOCSIFFLAGS, &lo) == 0;
    if (s >= 0) close(s);
    if (!up) return fmt::format("cannot bring up lo: {}", strerror(errno));
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, fmt::format("size={}", shm_bytes).c_str()) != 0)
        return fmt::format("cannot mount a /dev/shm: {}", strerror(errno));
    return {};
}

footprint take_footprint() {
    footprint f;
    count_descriptors(f);
    count_mappings(f);
    count_sockets(f);
    count_children(f);
    f["file in /dev/shm"] = int(entries("/dev/shm").size());
    return f;
}

std::string growth(const footprint& before, const footprint& now) {
    std::string text;
    for (const auto& [kind, n] : now) {
        const auto it = before.find(kind);
        const int had = it == before.end() ? 0 : it->second;
        if (n > had)
            text += fmt::format("{}{}: {}, was {}", text.empty() ? "" : "; ", kind, n, had);
    }
    return text;
}

std::string what_is_left(const footprint& before, int ms) {
    const deadline end = deadline::in_ms(uint64_t(ms));
    for (;;) {
        while (waitpid(-1, nullptr, WNOHANG) > 0) {
        }
        std::string left = growth(before, take_footprint());
        if (left.empty() || end.passed()) {
            if (!left.empty()) kill_children();
            return left;
        }
        usleep(2000);
    }
}

}  // namespace ef::test
