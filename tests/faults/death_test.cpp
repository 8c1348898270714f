// A rank that is killed is noticed by every other within two seconds and named with rank, host and
// pid, in the call that is pending and in every later one; wherever it dies, and whatever children
// it leaves.
#include "tests/support/faults.hpp"

#include <eflops/transport.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace ef::test {
namespace {

constexpr double noticed_within_ms = 2000;

struct placement {
    const char* name;
    std::vector<int> host_of;
    size_t count;
};
const placement placements[] = {
    {"Shm", {0, 0, 0, 0}, 100'000},     {"ShmSmall", {0, 0, 0}, 2},
    {"Tcp", {0, 1, 2, 3}, 100'000},     {"TcpSmall", {0, 1, 2}, 2},
    {"Mixed", {0, 0, 1, 1, 2}, 30'000},
};

job_setup setup_for(const std::vector<int>& host_of) {
    job_setup s;
    s.nranks = int(host_of.size());
    s.host_of = host_of;
    s.environment = {{"EFLOPS_CALIBRATION", "off"}};
    return s;
}

void expect_named(const report& r, int rank, int victim, pid_t pid, uint64_t since_ns) {
    SCOPED_TRACE(fmt::format("rank {}: {} {}", rank, r.code, r.text));
    EXPECT_EQ(r.code, "EF_PEER_LOST");
    EXPECT_LT(ms_after(r, since_ns), noticed_within_ms * patience());
    EXPECT_NE(r.text.find(fmt::format("rank {} (", victim)), std::string::npos);
    EXPECT_NE(r.text.find(fmt::format("pid {}", pid)), std::string::npos);
}

class Death : public Faults, public testing::WithParamInterface<size_t> {};

TEST_P(Death, InTheMiddleOfACollectiveIsNamedByAllOthers) {
    const placement& p = placements[GetParam()];
    for (int i = 0; i < repeats(5); ++i) {
        SCOPED_TRACE(fmt::format("repeat {}", i));
        job j(setup_for(p.host_of), [&](rank_process& me) {
            const ef_comm_t comm = me.join();
            roll_until_failure(me, comm, p.count);
            ef_comm_destroy(comm);
        });
        const int victim = i % j.nranks();
        for (int r = 0; r < j.nranks(); ++r) expect_line(j, r, "rolling", 20'000);
        j.signal(victim, SIGKILL);
        const uint64_t killed_at = now_ns();
        for (int r = 0; r < j.nranks(); ++r) {
            if (r == victim) continue;
            expect_named(hear_report(j, r, 10'000), r, victim, j.pid(victim), killed_at);
            expect_named(hear_report(j, r, 10'000), r, victim, j.pid(victim), killed_at);
            EXPECT_TRUE(j.finish(r, 5'000).good()) << j.finish(r, 0).text();
        }
        EXPECT_EQ(j.finish(victim, 1'000).signal, SIGKILL);
        if (HasFailure()) break;
    }
}

TEST_P(Death, BetweenCallsIsNamedByTheNextCall) {
    const placement& p = placements[GetParam()];
    for (int i = 0; i < repeats(5); ++i) {
        SCOPED_TRACE(fmt::format("repeat {}", i));
        job j(setup_for(p.host_of), [&](rank_process& me) {
            const ef_comm_t comm = me.join();
            me.must(ef_barrier(comm), "ef_barrier");
            me.say("idle");
            me.hear();
            std::vector<float> x(p.count, 1.0f);
            const uint64_t began = now_ns();
            const ef_status_t s =
                ef_allreduce(x.data(), x.data(), p.count, EF_FLOAT32, EF_SUM, comm);
            me.say(fmt::format("{}", began));
            say_report(me, s);
            ef_comm_destroy(comm);
        });
        const int victim = (i + 1) % j.nranks();
        for (int r = 0; r < j.nranks(); ++r) expect_line(j, r, "idle", 20'000);
        j.signal(victim, SIGKILL);
        EXPECT_EQ(j.finish(victim, 5'000).signal, SIGKILL);
        for (int r = 0; r < j.nranks(); ++r)
            if (r != victim) j.tell(r, "go");
        for (int r = 0; r < j.nranks(); ++r) {
            if (r == victim) continue;
            const uint64_t began = strtoull(j.hear(r, 10'000).value_or("0").c_str(), nullptr, 10);
            expect_named(hear_report(j, r, 10'000), r, victim, j.pid(victim), began);
            EXPECT_TRUE(j.finish(r, 5'000).good());
        }
        if (HasFailure()) break;
    }
}

INSTANTIATE_TEST_SUITE_P(Placements, Death, testing::Range(size_t(0), std::size(placements)),
                         [](const auto& p) { return placements[p.param].name; });

class DeathOfAll : public Faults {};

TEST_F(DeathOfAll, LeavesNothingBehind) {
    for (int i = 0; i < repeats(5); ++i) {
        const footprint before = take_footprint();
        {
            job j(setup_for({0, 0, 1, 1}), [](rank_process& me) {
                const ef_comm_t comm = me.join();
                void* shared = nullptr;
                me.must(ef_mem_alloc(1 << 20, &shared), "ef_mem_alloc");
                me.say("ready");
                for (;;)
                    me.must(ef_allreduce(shared, shared, 1 << 18, EF_FLOAT32, EF_MAX, comm),
                            "ef_allreduce");
            });
            for (int r = 0; r < j.nranks(); ++r) expect_line(j, r, "ready", 20'000);
            for (int r = 0; r < j.nranks(); ++r) j.signal(r, SIGKILL);
            for (int r = 0; r < j.nranks(); ++r)
                EXPECT_EQ(j.finish(r, 5'000).signal, SIGKILL) << j.hear(r, 0).value_or("");
        }
        if (!not_isolated().empty()) continue;
        EXPECT_EQ(what_is_left(before, 3000 * patience()), "");
    }
}

class Fork : public Faults {};

// The child lives on with copies of everything its parent had.
TEST_F(Fork, DoesNotHideTheDeathOfTheParent) {
    for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 0}, std::vector<int>{0, 1, 2}}) {
        for (int i = 0; i < repeats(5); ++i) {
            SCOPED_TRACE(fmt::format("repeat {}, hosts {}", i, fmt::join(hosts, ",")));
            job j(setup_for(hosts), [](rank_process& me) {
                const ef_comm_t comm = me.join();
                me.must(ef_barrier(comm), "ef_barrier");
                if (me.rank == 1) {
                    const pid_t child = fork();
                    if (child == 0)
                        for (;;) pause();
                    me.say(fmt::format("{}", child));
                }
                roll_until_failure(me, comm, 1000);
                ef_comm_destroy(comm);
            });
            const pid_t child = pid_t(std::stoi(j.hear(1, 20'000).value_or("-1")));
            ASSERT_GT(child, 0);
            for (int r = 0; r < 3; ++r) expect_line(j, r, "rolling", 20'000);
            j.signal(1, SIGKILL);
            const uint64_t killed_at = now_ns();
            for (int r : {0, 2}) expect_named(hear_report(j, r, 10'000), r, 1, j.pid(1), killed_at);
            EXPECT_EQ(kill(child, 0), 0) << "the child should have outlived its parent";
            kill(child, SIGKILL);
            EXPECT_EQ(j.finish(1, 5'000).signal, SIGKILL);
            waitpid(child, nullptr, 0);
            for (int r : {0, 2}) EXPECT_TRUE(j.finish(r, 5'000).good());
            if (HasFailure()) return;
        }
    }
}

TEST_F(Fork, GivesTheChildAnErrorAndNotAHang) {
    for (int i = 0; i < repeats(5); ++i) {
        job j(setup_for({0, 0, 1}), [](rank_process& me) {
            const ef_comm_t comm = me.join();
            int x = 1, sum = 0;
            me.must(ef_allreduce(&x, &sum, 1, EF_INT32, EF_SUM, comm), "before the fork");
            const pid_t child = fork();
            if (child == 0) {
                ef_request_t request = nullptr;
                const bool refused =
                    ef_allreduce(&x, &sum, 1, EF_INT32, EF_SUM, comm) == EF_INVALID &&
                    ef_ibarrier(comm, &request) == EF_INVALID &&
                    ef_send(&x, 1, EF_INT32, 0, comm) == EF_INVALID;
                ef_comm_destroy(comm);  // frees the copy and tells nobody
                _exit(refused ? 0 : 3);
            }
            int status = -1;
            waitpid(child, &status, 0);
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                me.fail(fmt::format("the child: {:#x}", status));
            me.must(ef_allreduce(&x, &sum, 1, EF_INT32, EF_SUM, comm), "after the fork");
            if (sum != 3) me.fail("a wrong sum");
            me.must(ef_comm_destroy(comm), "ef_comm_destroy");
        });
        EXPECT_EQ(j.finish_all(20'000), "");
    }
}

}  // namespace
}  // namespace ef::test
