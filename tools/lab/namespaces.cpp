#include "tools/lab/namespaces.hpp"

#include "transport/base/clock.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

namespace ef::lab {
namespace {

const std::string folder = "/run/netns";

std::string path_of(const std::string& name) { return folder + "/" + name; }

struct close_folder {
    void operator()(DIR* d) const noexcept { closedir(d); }
};
using open_folder = std::unique_ptr<DIR, close_folder>;

/// A shared mount, as `ip netns` makes it: a name that is removed is then removed in every mount
/// namespace, and nobody's old copy keeps the network namespace alive.
status make_folder() {
    if (mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) return system_error(folder, errno);
    const auto share = [] {
        return mount("", folder.c_str(), "none", MS_SHARED | MS_REC, nullptr) == 0;
    };
    if (share()) return {};
    if (errno != EINVAL) return system_error(folder + ": making it a shared mount", errno);
    // EINVAL: it is no mount yet.
    if (mount(folder.c_str(), folder.c_str(), "none", MS_BIND | MS_REC, nullptr) != 0)
        return system_error(folder + ": mounting it on itself", errno);
    return share() ? status() : system_error(folder + ": making it a shared mount", errno);
}

status on_thread(const std::function<status()>& body) {
    status s;
    try {
        std::thread([&] { s = body(); }).join();
    } catch (const std::system_error& e) {
        return system_error("a thread", e.code().value());
    }
    return s;
}

}  // namespace

result<fd> create_namespace(const std::string& name) {
    if (status s = make_folder(); !s.ok()) return s;
    const std::string path = path_of(name);
    fd file(open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0));
    if (!file) return system_error(path, errno);
    const status made = on_thread([&]() -> status {
        if (unshare(CLONE_NEWNET) != 0) return system_error("a new network namespace", errno);
        if (mount("/proc/thread-self/ns/net", path.c_str(), "none", MS_BIND, nullptr) != 0)
            return system_error(path + ": mounting the namespace", errno);
        return {};
    });
    result<fd> ns = made.ok() ? open_namespace(name) : result<fd>(made.in(name));
    if (!ns.ok()) unlink(path.c_str());
    return ns;
}

result<fd> open_namespace(const std::string& name) {
    fd ns(open(path_of(name).c_str(), O_RDONLY | O_CLOEXEC));
    if (!ns) return system_error(path_of(name), errno);
    return ns;
}

std::vector<std::string> namespaces_like(std::string_view prefix) {
    std::vector<std::string> names;
    const open_folder d(opendir(folder.c_str()));
    while (const dirent* e = d ? readdir(d.get()) : nullptr)
        if (e->d_name[0] != '.' && std::string_view(e->d_name).starts_with(prefix))
            names.push_back(e->d_name);
    std::sort(names.begin(), names.end());
    return names;
}

status remove_namespace(const std::string& name) {
    const std::string path = path_of(name);
    // More than one mount on one name is possible where /run/netns was bound onto itself late.
    while (umount2(path.c_str(), MNT_DETACH) == 0) {
    }
    if (errno != EINVAL && errno != ENOENT) return system_error(path + ": unmount", errno);
    if (unlink(path.c_str()) != 0 && errno != ENOENT) return system_error(path, errno);
    return {};
}

void remove_namespace_folder() {
    if (!namespaces_like("").empty()) return;
    // Both fail, and rightly so, if somebody was quicker to put something there.
    if (umount2(folder.c_str(), 0) == 0 || errno == EINVAL) rmdir(folder.c_str());
}

status in_namespace(int ns, const std::function<status()>& body) {
    return on_thread([&]() -> status {
        if (setns(ns, CLONE_NEWNET) != 0) return system_error("entering the namespace", errno);
        return body();
    });
}

ino_t identity_of_namespace(int ns) noexcept {
    // A name without a namespace behind it is a plain file, whose inode could be anybody's.
    struct statfs fs {};
    struct stat s {};
    return fstatfs(ns, &fs) == 0 && fs.f_type == NSFS_MAGIC && fstat(ns, &s) == 0 ? s.st_ino : 0;
}

ino_t namespace_of_process(pid_t pid) noexcept {
    struct stat s {};
    return stat(fmt::format("/proc/{}/ns/net", pid).c_str(), &s) == 0 ? s.st_ino : 0;
}

std::vector<pid_t> all_processes() {
    std::vector<pid_t> found;
    const open_folder d(opendir("/proc"));
    while (const dirent* e = d ? readdir(d.get()) : nullptr) {
        pid_t pid = 0;
        const char* const end = e->d_name + strlen(e->d_name);
        if (std::from_chars(e->d_name, end, pid).ptr == end) found.push_back(pid);
    }
    return found;
}

std::vector<pid_t> processes_in(const std::set<ino_t>& namespaces) {
    std::vector<pid_t> found;
    for (const pid_t pid : all_processes())
        if (pid != getpid() && namespaces.count(namespace_of_process(pid)) != 0)
            found.push_back(pid);
    return found;
}

status kill_processes_in(const std::set<ino_t>& namespaces, unsigned limit_ms) {
    const deadline limit = deadline::in_ms(limit_ms);
    for (;;) {
        const std::vector<pid_t> left = processes_in(namespaces);
        if (left.empty()) return {};
        if (limit.passed())
            return status(EF_TIMEOUT, fmt::format("process {} is still there {} ms after SIGKILL",
                                                  left.front(), limit_ms));
        for (const pid_t pid : left) kill(pid, SIGKILL);
        usleep(2000);
    }
}

}  // namespace ef::lab
