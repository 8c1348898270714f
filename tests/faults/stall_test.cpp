// A rank that stops without dying: the others fail with EF_TIMEOUT within the configured time, each
// leaves a flight record, and the records name the rank that stopped.
#include "tests/support/faults.hpp"
#include "tools/blame/analysis.hpp"

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

namespace ef::test {
namespace {

constexpr uint32_t timeout_ms = 700;

struct directory {
    std::string name;
    directory() {
        char path[] = "/tmp/eflops-flight.XXXXXX";
        if (mkdtemp(path)) name = path;
    }
    ~directory() {
        for (const std::string& f : files()) unlink(f.c_str());
        rmdir(name.c_str());
    }
    std::vector<std::string> files() const {
        std::vector<std::string> all;
        DIR* d = opendir(name.c_str());
        while (const dirent* e = readdir(d))
            if (e->d_name[0] != '.') all.push_back(name + "/" + e->d_name);
        closedir(d);
        return all;
    }
    std::vector<blame::record> records() const {
        std::vector<blame::record> all;
        for (const std::string& f : files()) {
            std::ifstream in(f);
            const std::string text((std::istreambuf_iterator<char>(in)),
                                   std::istreambuf_iterator<char>());
            all.push_back(blame::read_record(f, text));
        }
        return all;
    }
};

job_setup setup_for(const std::vector<int>& host_of, const directory& flight) {
    job_setup s;
    s.nranks = int(host_of.size());
    s.host_of = host_of;
    s.timeout_ms = timeout_ms * uint32_t(patience());
    s.environment = {{"EFLOPS_CALIBRATION", "off"}, {"EFLOPS_FLIGHT_DIR", flight.name}};
    return s;
}

class Stall : public Faults, public testing::WithParamInterface<std::vector<int>> {};

TEST_P(Stall, EndsInATimeoutAndRecordsThatNameTheStoppedRank) {
    for (int i = 0; i < repeats(5); ++i) {
        SCOPED_TRACE(fmt::format("repeat {}", i));
        const directory flight;
        job j(setup_for(GetParam(), flight), [](rank_process& me) {
            const ef_comm_t comm = me.join();
            roll_until_failure(me, comm, 20'000);
            ef_comm_destroy(comm);
        });
        const int victim = i % j.nranks();
        for (int r = 0; r < j.nranks(); ++r) expect_line(j, r, "rolling", 20'000);
        j.signal(victim, SIGSTOP);
        const uint64_t stopped_at = now_ns();
        for (int r = 0; r < j.nranks(); ++r) {
            if (r == victim) continue;
            for (int call = 0; call < 2; ++call) {
                const report e = hear_report(j, r, 10'000);
                SCOPED_TRACE(fmt::format("rank {}: {} {}", r, e.code, e.text));
                EXPECT_EQ(e.code, "EF_TIMEOUT");
                EXPECT_LT(ms_after(e, stopped_at), (timeout_ms + 1000) * patience());
                EXPECT_NE(e.text.find("waiting for rank"), std::string::npos);
            }
            EXPECT_TRUE(j.finish(r, 5'000).good());
        }
        const std::vector<blame::record> records = flight.records();
        EXPECT_EQ(records.size(), size_t(j.nranks() - 1));
        const auto verdicts = blame::analyse(records);
        ASSERT_EQ(verdicts.size(), 1u);
        ASSERT_EQ(verdicts[0].culprits.size(), 1u);
        EXPECT_EQ(verdicts[0].culprits[0].kind, "no_record");
        EXPECT_EQ(verdicts[0].culprits[0].ranks, std::vector<int64_t>{victim})
            << verdicts[0].culprits[0].text;
        j.signal(victim, SIGKILL);
        EXPECT_EQ(j.finish(victim, 5'000).signal, SIGKILL);
        if (HasFailure()) break;
    }
}

// Stopped for less than the timeout, a rank costs time and nothing else.
TEST_P(Stall, ShorterThanTheTimeoutIsNoFailure) {
    const directory flight;
    job j(setup_for(GetParam(), flight), [](rank_process& me) {
        const ef_comm_t comm = me.join();
        float x = 1;
        me.say("rolling");
        for (int i = 0; i < 2000; ++i) {
            x = 1;
            me.must(ef_allreduce(&x, &x, 1, EF_FLOAT32, EF_SUM, comm), "ef_allreduce");
            if (x != float(me.nranks)) me.fail("a wrong sum");
        }
        me.must(ef_comm_destroy(comm), "ef_comm_destroy");
    });
    expect_line(j, 1, "rolling", 20'000);
    j.signal(1, SIGSTOP);
    usleep(timeout_ms / 2 * 1000);  // the length of the stall, not a wait for something
    j.signal(1, SIGCONT);
    EXPECT_EQ(j.finish_all(30'000), "");
    EXPECT_TRUE(flight.files().empty());
}

INSTANTIATE_TEST_SUITE_P(Placements, Stall,
                         testing::Values(std::vector<int>{0, 0, 0, 0}, std::vector<int>{0, 1, 2},
                                         std::vector<int>{0, 0, 1, 1}),
                         [](const auto& p) { return fmt::format("{}", fmt::join(p.param, "")); });

class Mismatch : public Faults {};

TEST_F(Mismatch, IsAnErrorOnEveryRankAndTheRecordsNameBothCalls) {
    for (int i = 0; i < repeats(5); ++i) {
        const directory flight;
        job j(setup_for({0, 0, 1}, flight), [](rank_process& me) {
            const ef_comm_t comm = me.join();
            // A rank may hear of the mismatch while it is still in the barrier that the others left.
            ef_status_t s = ef_barrier(comm);
            float x[64] = {}, y[64];
            if (s == EF_OK)
                s = ef_allreduce(x, y, me.rank == 2 ? 32 : 64, EF_FLOAT32, EF_SUM, comm);
            say_report(me, s);
            ef_comm_destroy(comm);
        });
        for (int r = 0; r < 3; ++r) {
            const report e = hear_report(j, r, 10'000);
            EXPECT_EQ(e.code, "EF_MISMATCH") << e.text;
            EXPECT_EQ(e.text.find("this rank"), std::string::npos)
                << "whose words they are is lost on the way: " << e.text;
        }
        EXPECT_EQ(j.finish_all(10'000), "");
        const auto verdicts = blame::analyse(flight.records());
        ASSERT_EQ(verdicts.size(), 1u);
        ASSERT_EQ(verdicts[0].culprits.size(), 1u);
        EXPECT_EQ(verdicts[0].culprits[0].kind, "mismatch");
        EXPECT_EQ(verdicts[0].culprits[0].ranks, std::vector<int64_t>{2});
        if (HasFailure()) break;
    }
}

}  // namespace
}  // namespace ef::test
