// Ends that are meant: abort wakes every rank whatever it waits in, destroy finishes what was
// started or gives up in time, and neither leaves anything behind in the process.
#include "tests/support/faults.hpp"

#include <eflops/transport.h>
#include <unistd.h>

#include <thread>

namespace ef::test {
namespace {

job_setup setup_for(const std::vector<int>& host_of, uint32_t timeout_ms) {
    job_setup s;
    s.nranks = int(host_of.size());
    s.host_of = host_of;
    s.timeout_ms = timeout_ms * uint32_t(patience());
    s.environment = {{"EFLOPS_CALIBRATION", "off"}};
    return s;
}

class Life : public Faults, public testing::WithParamInterface<std::vector<int>> {};

// Rank 0 never calls, so all others are in the call for good when another thread of rank 1 aborts.
TEST_P(Life, AbortFromAnotherThreadWakesEveryRank) {
    for (int i = 0; i < repeats(5); ++i) {
        SCOPED_TRACE(fmt::format("repeat {}", i));
        job j(setup_for(GetParam(), 30'000), [](rank_process& me) {
            const ef_comm_t comm = me.join();
            me.must(ef_barrier(comm), "ef_barrier");
            std::thread other;
            if (me.rank == 1)
                other = std::thread([&] {
                    me.hear();
                    me.must(ef_comm_abort(comm), "ef_comm_abort");
                });
            me.say("calling");
            if (me.rank == 0) me.hear();
            float x[100] = {};
            say_report(me, ef_allreduce(x, x, 100, EF_FLOAT32, EF_SUM, comm));
            say_report(me, ef_barrier(comm));
            if (other.joinable()) other.join();
            ef_comm_destroy(comm);
        });
        for (int r = 0; r < j.nranks(); ++r) expect_line(j, r, "calling", 20'000);
        const uint64_t began = now_ns();
        j.tell(1, "abort");
        for (int r = j.nranks() - 1; r >= 0; --r) {
            if (r == 0) j.tell(0, "go");
            for (int call = 0; call < 2; ++call) {
                const report e = hear_report(j, r, 10'000);
                SCOPED_TRACE(fmt::format("rank {}: {} {}", r, e.code, e.text));
                // Rank 0 comes when all is over, and may find what the others had sent before.
                if (r == 0 && call == 0 && e.code == "EF_OK") continue;
                EXPECT_EQ(e.code, "EF_ABORTED");
                EXPECT_TRUE(r == 1 || e.text.find("rank 1 ") != std::string::npos) << "who called?";
                if (r == 0) continue;
                EXPECT_LT(ms_after(e, began), 1000.0 * patience());
            }
        }
        EXPECT_EQ(j.finish_all(10'000), "");
        if (HasFailure()) break;
    }
}

TEST_P(Life, DestroyFinishesWhatWasStarted) {
    for (int i = 0; i < repeats(5); ++i) {
        job j(setup_for(GetParam(), 20'000), [](rank_process& me) {
            const ef_comm_t comm = me.join();
            std::vector<int> x(200'000, 1), y(x.size());
            ef_request_t requests[3] = {};
            for (ef_request_t& q : requests)
                me.must(ef_iallreduce(x.data(), y.data(), x.size(), EF_INT32, EF_SUM, comm, &q),
                        "ef_iallreduce");
            me.must(ef_comm_destroy(comm), "ef_comm_destroy");
            if (y.front() != me.nranks || y.back() != me.nranks) me.fail("a wrong sum");
        });
        ASSERT_EQ(j.finish_all(20'000), "");
    }
}

TEST_P(Life, DestroyGivesUpInTimeOnWhatNobodyAnswers) {
    constexpr uint32_t timeout_ms = 400;
    for (int i = 0; i < repeats(5); ++i) {
        job j(setup_for(GetParam(), timeout_ms), [](rank_process& me) {
            const ef_comm_t comm = me.join();
            me.must(ef_barrier(comm), "ef_barrier");
            if (me.rank == 0) {
                int x = 0;
                ef_request_t request = nullptr;
                me.must(ef_irecv(&x, 1, EF_INT32, 1, comm, &request), "ef_irecv");
                const uint64_t began = now_ns();
                const ef_status_t s = ef_comm_destroy(comm);
                const double took = double(now_ns() - began) / 1e6;
                if (s == EF_OK) me.fail("a message came from nobody");
                if (took > (timeout_ms + 2000.0) * patience())
                    me.fail(fmt::format("destroy took {:.0f} ms", took));
                return;
            }
            me.hear();
            ef_comm_destroy(comm);
        });
        EXPECT_TRUE(j.finish(0, 10'000).good()) << j.hear(0, 0).value_or("");
        for (int r = 1; r < j.nranks(); ++r) j.tell(r, "go");
        ASSERT_EQ(j.finish_all(10'000), "");
    }
}

// Ten lives of communicators in one process: nothing adds up.
TEST_P(Life, LeavesNothingInTheProcess) {
    job j(setup_for(GetParam(), 20'000), [](rank_process& me) {
        const ef_comm_t world = me.join();
        std::vector<int> x(10'000, 1);
        const auto live = [&] {
            ef_comm_t comm = nullptr;
            void* shared = nullptr;
            me.must(ef_comm_split(world, me.rank % 2, 0, &comm), "ef_comm_split");
            me.must(ef_mem_alloc(1 << 16, &shared), "ef_mem_alloc");
            me.must(ef_allreduce(x.data(), x.data(), x.size(), EF_INT32, EF_MAX, comm),
                    "ef_allreduce");
            me.must(ef_allreduce(shared, shared, 1 << 14, EF_INT32, EF_MAX, comm),
                    "ef_allreduce of shared memory");
            me.must(ef_comm_destroy(comm), "ef_comm_destroy");
            me.must(ef_mem_free(shared), "ef_mem_free");
            me.must(ef_barrier(world), "ef_barrier");
        };
        live();
        footprint before = take_footprint();
        for (int i = 0; i < 10; ++i) live();
        footprint now = take_footprint();
        for (footprint* f : {&before, &now}) {  // of the machine, not of this process
            f->erase("abstract unix socket");
            f->erase("listening tcp port");
            f->erase("file in /dev/shm");
        }
        if (const std::string more = growth(before, now); !more.empty()) me.fail(more);
        me.must(ef_comm_destroy(world), "ef_comm_destroy");
    });
    EXPECT_EQ(j.finish_all(30'000), "");
}

INSTANTIATE_TEST_SUITE_P(Placements, Life,
                         testing::Values(std::vector<int>{0, 0, 0, 0}, std::vector<int>{0, 1, 2},
                                         std::vector<int>{0, 0, 1, 1}),
                         [](const auto& p) { return fmt::format("{}", fmt::join(p.param, "")); });

}  // namespace
}  // namespace ef::test
