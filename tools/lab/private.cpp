#include "tools/lab/private.hpp"

#include "transport/base/fd.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace ef::lab {
namespace {

constexpr int failed = 1, not_found = 127;

status write_file(const char* path, const std::string& text) {
    const fd f(open(path, O_WRONLY | O_CLOEXEC));
    if (f && write(f.get(), text.data(), text.size()) == ssize_t(text.size())) return {};
    return system_error(path, errno);
}

status refused(const status& s) {
    return status(EF_UNSUPPORTED,
                  fmt::format("{}: a lab needs root or user namespaces for everybody (see "
                              "user.max_user_namespaces, kernel.unprivileged_userns_clone, "
                              "kernel.apparmor_restrict_unprivileged_userns)",
                              s.text()));
}

status refused(const char* what) { return refused(system_error(what, errno)); }

int status_of(int how) { return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how); }

int wait_for(pid_t pid) {
    int how = 0;
    while (waitpid(pid, &how, 0) < 0)
        if (errno != EINTR) return failed;
    return status_of(how);
}

status mount_proc() {
    return mount("proc", "/proc", "proc", 0, nullptr) == 0 ? status()
                                                           : system_error("/proc", errno);
}

/// Whether processes can have numbers of their own: for that /proc must be mounted anew, which some
/// containers refuse. Tried in a process that ends.
bool own_numbers_work() {
    const pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) _exit(failed);
        const pid_t first = fork();
        if (first == 0) _exit(mount_proc().ok() ? 0 : failed);
        _exit(first > 0 ? wait_for(first) : failed);
    }
    return pid > 0 && wait_for(pid) == 0;
}

int first_process(const std::function<int()>& body, bool own_numbers, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    // With numbers of its own, this process sees no parent.
    if (!own_numbers && getppid() != parent) return failed;
    if (own_numbers)
        if (const status s = mount_proc(); !s.ok()) {
            fmt::print(stderr, "ef_lab: {}\n", s.text());
            return failed;
        }
    const int code = body();
    fflush(nullptr);
    return code;
}

}  // namespace

status enter_private_world() {
    const uid_t uid = geteuid();
    const gid_t gid = getegid();
    // Root without CAP_SYS_ADMIN, as in most containers, is an ordinary user here.
    int user = uid == 0 ? 0 : CLONE_NEWUSER;
    int rc = unshare(user | CLONE_NEWNS);
    if (rc != 0 && user == 0 && errno == EPERM) {
        user = CLONE_NEWUSER;
        rc = unshare(user | CLONE_NEWNS);
    }
    if (rc != 0) return refused(user ? "a user namespace" : "a mount namespace");
    if (user) {
        // Without setgroups a user could leave a group that is kept out of something.
        if (status s = write_file("/proc/self/setgroups", "deny"); !s.ok())
            return refused(s);
        if (status s = write_file("/proc/self/uid_map", fmt::format("0 {} 1", uid)); !s.ok())
            return refused(s);
        if (status s = write_file("/proc/self/gid_map", fmt::format("0 {} 1", gid)); !s.ok())
            return refused(s);
    }
    if (mount("", "/", "none", MS_PRIVATE | MS_REC, nullptr) != 0)
        return refused("mounts of its own");
    if (mount("tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755") != 0)
        return refused("an empty /run");
    return {};
}

result<int> in_private_world(const std::function<int()>& body) {
    if (status s = enter_private_world(); !s.ok()) return s;
    fflush(nullptr);
    const bool own_numbers = own_numbers_work();
    if (own_numbers && unshare(CLONE_NEWPID) != 0) return refused("process numbers of its own");
    const pid_t self = getpid(), pid = fork();
    if (pid < 0) return system_error("fork", errno);
    if (pid == 0) _exit(first_process(body, own_numbers, self));
    struct sigaction ignore {
    }, was_int{}, was_quit{};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &was_int);
    sigaction(SIGQUIT, &ignore, &was_quit);
    const int code = wait_for(pid);
    sigaction(SIGINT, &was_int, nullptr);
    sigaction(SIGQUIT, &was_quit, nullptr);
    return code;
}

result<int> run_to_its_end(const std::vector<std::string>& command) {
    std::vector<char*> argv;
    for (const std::string& a : command) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    struct sigaction ignore {
    }, was_int{}, was_quit{};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &was_int);
    sigaction(SIGQUIT, &ignore, &was_quit);
    fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigaction(SIGINT, &was_int, nullptr);
        sigaction(SIGQUIT, &was_quit, nullptr);
        signal(SIGPIPE, SIG_DFL);  // a shell could not undo that ef_lab ignores it
        execvp(argv[0], argv.data());
        fmt::print(stderr, "ef_lab: {}: {}\n", command[0], strerror(errno));
        _exit(errno == ENOENT ? not_found : not_found - 1);
    }
    const int error = errno;
    int code = failed;
    for (int how = 0; pid > 0;) {
        const pid_t got = waitpid(-1, &how, 0);  // orphans too: there may be no other init
        if (got == pid) code = status_of(how);
        if (got == pid || (got < 0 && errno != EINTR)) break;
    }
    sigaction(SIGINT, &was_int, nullptr);
    sigaction(SIGQUIT, &was_quit, nullptr);
    if (pid < 0) return system_error("fork", error);
    return code;
}

}  // namespace ef::lab
