// The child's side of run(): from a fork of ef_lab to the program of a rank.
#include "tools/lab/run.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ef::lab {
namespace {

constexpr int cannot_start = 126, not_found = 127;  // as shells have it

[[noreturn]] void give_up(const std::string& where, const std::string& what) {
    dprintf(STDERR_FILENO, "ef_lab: %s: %s: %s\n", where.c_str(), what.c_str(), strerror(errno));
    _exit(errno == ENOENT ? not_found : cannot_start);
}

/// /sys shows the interfaces of the namespace that it was mounted in. Where it cannot be mounted, as
/// in some containers, only what is read there is wrong, so that is no failure.
void mount_own_sys() {
    if (mount("", "/", "none", MS_SLAVE | MS_REC, nullptr) != 0) return;
    (void)mount("sysfs", "/sys", "sysfs", 0, nullptr);
}

}  // namespace

void become_rank(const rank_start& s, const std::vector<std::string>& command) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != s.parent) _exit(cannot_start);  // it died before the line above
    setpgid(0, 0);
    const int in = open("/dev/null", O_RDONLY);
    if (in < 0 || dup2(in, STDIN_FILENO) < 0 || dup2(s.out, STDOUT_FILENO) < 0 ||
        dup2(s.err, STDERR_FILENO) < 0)
        give_up(s.where, "its standard streams");

    const std::string path = "/run/netns/" + s.namespace_name;
    const int ns = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (ns < 0 || setns(ns, CLONE_NEWNET) != 0) give_up(s.where, path);
    if (unshare(CLONE_NEWUTS | CLONE_NEWNS) != 0) give_up(s.where, "a host name of its own");
    if (sethostname(s.hostname.data(), std::min<size_t>(s.hostname.size(), 64)) != 0)
        give_up(s.where, "host name " + s.hostname);
    mount_own_sys();
    for (const std::string& e : s.environment) putenv(const_cast<char*>(e.c_str()));

    std::vector<char*> argv;
    for (const std::string& a : command) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    signal(SIGPIPE, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execvp(argv[0], argv.data());
    give_up(s.where, command[0]);
}

}  // namespace ef::lab
