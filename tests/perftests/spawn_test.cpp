#include "perftests/common/spawn.hpp"

#include "perftests/common/exit_code.hpp"
#include "transport/base/clock.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>

namespace ef::perf {
namespace {

/// Memory that children share with the test.
struct shared {
    std::atomic<int> pid[8];
    std::atomic<int> count{0};
    static shared* make() {
        void* p = mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                       -1, 0);
        return p == MAP_FAILED ? nullptr : new (p) shared;
    }
};

bool exists(int pid) { return kill(pid, 0) == 0; }

/// What `f` writes to stderr.
template <class F>
std::string words_of(F f) {
    testing::internal::CaptureStderr();
    f();
    return testing::internal::GetCapturedStderr();
}

TEST(RunLocal, GivesEachRankItsSeatAndRankZeroTheListeningSocket) {
    shared* const s = shared::make();
    ASSERT_NE(s, nullptr);
    const int status = run_local("test", 4, 5000, [s](const seat& mine) {
        s->pid[mine.rank] = getpid();
        const bool listens = [&] {
            int on = 0;
            socklen_t n = sizeof on;
            return getsockopt(mine.listen_fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &n) == 0 && on == 1;
        }();
        const bool good = mine.nranks == 4 && mine.key.size() == 64 && mine.spawned() &&
                          mine.root.rfind("127.0.0.1:", 0) == 0 &&
                          (mine.rank == 0 ? listens : mine.listen_fd == 0);
        if (good) s->count.fetch_add(1);
        return 0;
    });
    EXPECT_EQ(status, 0);
    EXPECT_EQ(s->count.load(), 4);
    std::set<int> pids;
    for (int r = 0; r < 4; ++r) pids.insert(s->pid[r].load());
    EXPECT_EQ(pids.size(), 4u);
    EXPECT_EQ(pids.count(getpid()), 0u);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
}

TEST(RunLocal, ReturnsTheVerdictOfRankZero) {
    EXPECT_EQ(run_local("test", 3, 5000, [](const seat& s) { return s.rank == 0 ? 3 : 0; }), 3);
}

TEST(RunLocal, PrintsTheFirstCauseOnceAndNotWhatOthersNoticed) {
    int status = -1;
    const std::string words = words_of([&] {
        status = run_local("test", 4, 5000, [](const seat& s) -> int {
            if (s.rank != 2) throw failure(exit_failed, "rank 2 is gone", true);
            throw failure(exit_cannot_run, "no such device");
        });
    });
    EXPECT_EQ(status, exit_cannot_run);
    EXPECT_EQ(words, "test: rank 2: no such device\n");
}

TEST(RunLocal, NamesARankThatWasKilledAndLeavesNoneBehind) {
    shared* const s = shared::make();
    ASSERT_NE(s, nullptr);
    int status = -1;
    const uint64_t start = now_ns();
    const std::string words = words_of([&] {
        status = run_local("test", 3, 200, [s](const seat& mine) -> int {
            s->pid[mine.rank] = getpid();
            if (mine.rank == 1) kill(getpid(), SIGKILL);
            for (;;) pause();
        });
    });
    EXPECT_EQ(status, exit_failed);
    EXPECT_NE(
        words.find("rank 1 (pid " + std::to_string(s->pid[1].load()) + ") was killed by signal 9"),
        std::string::npos)
        << words;
    EXPECT_LT(now_ns() - start, 5'000'000'000u);
    for (int r = 0; r < 3; ++r) EXPECT_TRUE(s->pid[r] == 0 || !exists(s->pid[r])) << r;
}

TEST(RunLocal, EndsRanksThatDoNotEndAfterTheOthersHave) {
    int status = -1;
    const std::string words = words_of([&] {
        status = run_local("test", 2, 200, [](const seat& s) {
            if (s.rank == 1) raise(SIGSTOP);
            return 0;
        });
    });
    EXPECT_EQ(status, exit_failed);
    EXPECT_NE(words.find("rank 1 (pid "), std::string::npos) << words;
}

TEST(RunLocal, TakesItsRanksAlongWhenItIsKilledItself) {
    shared* const s = shared::make();
    ASSERT_NE(s, nullptr);
    const pid_t parent = fork();
    ASSERT_GE(parent, 0);
    if (parent == 0)
        _exit(run_local("test", 2, 1000, [s](const seat& mine) -> int {
            s->pid[mine.rank] = getpid();
            s->count.fetch_add(1);
            for (;;) pause();
        }));
    const deadline limit = deadline::in_ms(5000);
    while (s->count.load() < 2 && !limit.passed()) usleep(1000);
    ASSERT_EQ(s->count.load(), 2);
    kill(parent, SIGKILL);
    waitpid(parent, nullptr, 0);
    // They are init's children now (or a subreaper's): gone, or zombies until it reaps them.
    const auto runs = [](int pid) {
        char path[64], state = 0;
        snprintf(path, sizeof path, "/proc/%d/stat", pid);
        FILE* f = fopen(path, "r");
        if (!f) return false;
        const int n = fscanf(f, "%*d (%*[^)]) %c", &state);
        fclose(f);
        return n == 1 && state != 'Z' && state != 'X';
    };
    while ((runs(s->pid[0]) || runs(s->pid[1])) && !limit.passed()) usleep(1000);
    EXPECT_FALSE(runs(s->pid[0]));
    EXPECT_FALSE(runs(s->pid[1]));
}

TEST(RunLocal, ReapsItsRanksWhenItIsAskedToEnd) {
    shared* const s = shared::make();
    ASSERT_NE(s, nullptr);
    // As a subreaper this process would inherit what its child leaves behind.
    ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    const pid_t parent = fork();
    ASSERT_GE(parent, 0);
    if (parent == 0)
        _exit(run_local("test", 2, 1000, [s](const seat&) -> int {
            s->count.fetch_add(1);
            for (;;) pause();
        }));
    const deadline limit = deadline::in_ms(5000);
    while (s->count.load() < 2 && !limit.passed()) usleep(1000);
    ASSERT_EQ(s->count.load(), 2);
    kill(parent, SIGTERM);
    int how = 0;
    ASSERT_EQ(waitpid(parent, &how, 0), parent);
    EXPECT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGTERM);
    EXPECT_EQ(waitpid(-1, nullptr, 0), -1) << "a rank was left to its grandparent";
    prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace ef::perf
