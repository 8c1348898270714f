// Limits of the system: few descriptors, a full /dev/shm. What cannot be had is EF_NO_RESOURCE, in
// time, and what there was before goes on working.
#include "tests/support/faults.hpp"

#include <eflops/transport.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>

namespace ef::test {
namespace {

constexpr uint32_t timeout_ms = 800;

job_setup setup_for(const std::vector<int>& host_of) {
    job_setup s;
    s.nranks = int(host_of.size());
    s.host_of = host_of;
    s.timeout_ms = timeout_ms * uint32_t(patience());
    s.environment = {{"EFLOPS_CALIBRATION", "off"}};
    return s;
}

void check_sum(rank_process& me, ef_comm_t comm) {
    std::vector<int> x(1000, me.rank + 1);
    me.must(ef_allreduce(x.data(), x.data(), x.size(), EF_INT32, EF_SUM, comm), "ef_allreduce");
    if (x.back() != me.nranks * (me.nranks + 1) / 2) me.fail("a wrong sum");
}

class Limits : public Faults, public testing::WithParamInterface<std::vector<int>> {};

// 64 descriptors are enough for a job, whatever its placement.
TEST_P(Limits, SixtyFourDescriptorsAreEnoughForACommunicator) {
    for (int i = 0; i < repeats(5); ++i) {
        job j(setup_for(GetParam()), [](rank_process& me) {
            const rlimit few{64, 64};
            setrlimit(RLIMIT_NOFILE, &few);
            const ef_comm_t comm = me.join();
            check_sum(me, comm);
            me.must(ef_comm_destroy(comm), "ef_comm_destroy");
        });
        ASSERT_EQ(j.finish_all(20'000), "");
    }
}

// Communicators until the descriptors are used up: an error in time on every rank, and on one of
// them the reason.
TEST_P(Limits, RunningOutOfDescriptorsIsAnErrorAndNotAHang) {
    for (int i = 0; i < repeats(5); ++i) {
        SCOPED_TRACE(fmt::format("repeat {}", i));
        job j(setup_for(GetParam()), [](rank_process& me) {
            const rlimit few{64, 64};
            setrlimit(RLIMIT_NOFILE, &few);
            std::vector<ef_comm_t> all{me.join()};
            check_sum(me, all[0]);
            for (;;) {
                ef_comm_t more = nullptr;
                std::vector<int> x(1000, 1);
                const uint64_t began = now_ns();
                ef_status_t s = ef_comm_split(all.back(), 0, 0, &more);
                if (s == EF_OK) {
                    all.push_back(more);
                    s = ef_allreduce(x.data(), x.data(), x.size(), EF_INT32, EF_SUM, more);
                }
                if (s == EF_OK) continue;
                me.say(fmt::format("{}", (now_ns() - began) / 1'000'000));
                say_report(me, s);
                break;
            }
            for (ef_comm_t c : all) ef_comm_destroy(c);
        });
        int exhausted = 0;
        for (int r = 0; r < j.nranks(); ++r) {
            const int took_ms = std::stoi(j.hear(r, 20'000).value_or("1000000"));
            const report e = hear_report(j, r, 1'000);
            SCOPED_TRACE(fmt::format("rank {}: {} {}", r, e.code, e.text));
            EXPECT_LT(took_ms, int(timeout_ms + 1500) * patience());
            exhausted += e.code == "EF_NO_RESOURCE";
            EXPECT_TRUE(e.code == "EF_NO_RESOURCE" || e.code == "EF_TIMEOUT" ||
                        e.code == "EF_PEER_LOST" || e.code == "EF_ABORTED");
        }
        EXPECT_GE(exhausted, 1);
        EXPECT_EQ(j.finish_all(20'000), "");
        if (HasFailure()) break;
    }
}

// One rank has nothing left before it begins: it says so, and the others do not wait for ever.
TEST_P(Limits, ARankWithoutDescriptorsFailsAtOnceAndTheOthersInTime) {
    for (int i = 0; i < repeats(3); ++i) {
        job j(setup_for(GetParam()), [](rank_process& me) {
            if (me.rank == 1) {
                const rlimit few{64, 64};
                setrlimit(RLIMIT_NOFILE, &few);
                while (open("/dev/null", O_RDONLY) >= 0) {
                }
                if (errno != EMFILE) me.fail("the limit did not hold");
            }
            const ef_comm_options o = me.options();
            ef_comm_t comm = nullptr;
            const uint64_t began = now_ns();
            const ef_status_t s = ef_comm_create(me.rank, me.nranks, &o, &comm);
            me.say(fmt::format("{}", (now_ns() - began) / 1'000'000));
            say_report(me, s);
        });
        for (int r = 0; r < j.nranks(); ++r) {
            const int took_ms = std::stoi(j.hear(r, 20'000).value_or("1000000"));
            const report e = hear_report(j, r, 1'000);
            SCOPED_TRACE(fmt::format("rank {}: {} {}", r, e.code, e.text));
            EXPECT_LT(took_ms, int(timeout_ms + 1500) * patience());
            if (r == 1) EXPECT_EQ(e.code, "EF_NO_RESOURCE");
            else EXPECT_NE(e.code, "EF_OK");
        }
        EXPECT_EQ(j.finish_all(10'000), "");
        if (HasFailure()) break;
    }
}

INSTANTIATE_TEST_SUITE_P(Placements, Limits,
                         testing::Values(std::vector<int>{0, 0, 0}, std::vector<int>{0, 1, 2},
                                         std::vector<int>{0, 0, 1, 1}),
                         [](const auto& p) { return fmt::format("{}", fmt::join(p.param, "")); });

class FullSharedMemory : public Faults {};

// Nothing of ours lies in /dev/shm, so that it being full, as in a container that gives it 64 MiB,
// is no reason to fail.
TEST_F(FullSharedMemory, IsNoReasonToFail) {
    if (!not_isolated().empty()) GTEST_SKIP() << not_isolated();
    const char* const filler = "/dev/shm/filler";
    const int f = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(f, 0);
    const std::vector<char> block(1 << 20, 'x');
    while (write(f, block.data(), block.size()) > 0) {
    }
    EXPECT_EQ(errno, ENOSPC);
    for (int i = 0; i < repeats(5); ++i) {
        job j(setup_for({0, 0, 0, 0}), [](rank_process& me) {
            const ef_comm_t comm = me.join();
            check_sum(me, comm);
            void* p = nullptr;
            me.must(ef_mem_alloc(8 << 20, &p), "ef_mem_alloc");
            int* x = static_cast<int*>(p);
            x[(2 << 20) - 1] = 1;
            me.must(ef_allreduce(x, x, 2 << 20, EF_INT32, EF_SUM, comm), "ef_allreduce");
            if (x[(2 << 20) - 1] != me.nranks) me.fail("a wrong sum");
            me.must(ef_comm_destroy(comm), "ef_comm_destroy");
            me.must(ef_mem_free(p), "ef_mem_free");
        });
        EXPECT_EQ(j.finish_all(20'000), "");
    }
    close(f);
    unlink(filler);
}

}  // namespace
}  // namespace ef::test
