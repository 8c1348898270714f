// A communicator that knows its fabric: it places its ranks, takes the plan that shares no link,
// says so, computes the same sums, and plans anew when it is told of a failed link.
#include "tests/support/ranks.hpp"

#include <eflops/allreduce.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

namespace ef::test {
namespace {

// One rank on each host of a BiGraph with 2 switches per side and 2 hosts per switch, in the order
// in which a naive launcher numbers them.
job_setup on_bigraph(std::vector<std::pair<std::string, std::string>> more = {}) {
    job_setup s;
    s.nranks = 8;
    s.host_of = {0, 1, 2, 3, 4, 5, 6, 7};
    s.host_names = {"U0p0", "U0p1", "U1p0", "U1p1", "L0p0", "L0p1", "L1p0", "L1p1"};
    s.environment = {{"EFLOPS_CALIBRATION", "off"},
                     {"EFLOPS_FABRIC", "bigraph:S=2,H=2,L=1,gbps=0.1"}};
    for (auto& e : more) s.environment.push_back(std::move(e));
    return s;
}

void sum_and_check(rank_process& me, ef_comm_t comm, size_t count) {
    std::vector<int64_t> in(count), out(count);
    for (size_t i = 0; i < count; ++i) in[i] = int64_t(i) * 3 + me.rank;
    me.must(ef_allreduce(in.data(), out.data(), count, EF_INT64, EF_SUM, comm), "ef_allreduce");
    const int64_t n = me.nranks;
    for (size_t i = 0; i < count; ++i)
        if (out[i] != int64_t(i) * 3 * n + n * (n - 1) / 2)
            me.fail(fmt::format("element {} is {}", i, out[i]));
}

std::string explained(rank_process& me, ef_comm_t comm, ef_collective_t coll, size_t count) {
    std::string text(16384, 0);
    me.must(ef_comm_explain(comm, coll, count, EF_FLOAT32, 0, text.data(), text.size(), nullptr),
            "ef_comm_explain");
    return text.c_str();
}

TEST(FabricComm, TakesThePlanThatSharesNoLinkAndSaysWhy) {
    job j(on_bigraph(), [](rank_process& me) {
        const ef_comm_t comm = me.join();
        const std::string why = explained(me, comm, EF_ALLREDUCE, 4 << 20);
        for (const char* word : {"HDRM", "handshake of each pair", "1 on ", "2 on "})
            if (why.find(word) == std::string::npos)
                me.fail(fmt::format("no '{}' in: {}", word, why));
        ef_plan_info info{};
        info.size = sizeof(info);
        me.must(ef_comm_plan(comm, EF_ALLREDUCE, 4 << 20, EF_FLOAT32, EF_SUM, 0, &info),
                "ef_comm_plan");
        if (std::string(info.algorithm) != "hdrm" && std::string(info.algorithm) != "eulerian_ring")
            me.fail(std::string("took ") + info.algorithm);
        sum_and_check(me, comm, 100'000);
        me.must(ef_comm_destroy(comm), "ef_comm_destroy");
    });
    EXPECT_EQ(j.finish_all(30'000), "");
}

TEST(FabricComm, ComputesTheSameWhateverKeepsItsRoundsApart) {
    for (const char* algorithm : {"hdrm", "eulerian_ring", "ring", "halving_doubling"})
        for (const char* sync : {"none", "pair", "barrier"}) {
            SCOPED_TRACE(fmt::format("{} {}", algorithm, sync));
            job j(on_bigraph({{"EFLOPS_ALGORITHM", algorithm}, {"EFLOPS_SYNC", sync}}),
                  [](rank_process& me) {
                      const ef_comm_t comm = me.join();
                      for (size_t count : {1, 7, 1000, 50'000}) sum_and_check(me, comm, count);
                      std::vector<int> block(500, me.rank), all(500 * size_t(me.nranks));
                      me.must(ef_allgather(block.data(), all.data(), 500, EF_INT32, comm),
                              "ef_allgather");
                      for (size_t i = 0; i < all.size(); ++i)
                          if (all[i] != int(i / 500)) me.fail("allgather: blocks out of order");
                      std::vector<int> one(500);
                      me.must(
                          ef_reduce_scatter(all.data(), one.data(), 500, EF_INT32, EF_SUM, comm),
                          "ef_reduce_scatter");
                      for (int v : one)
                          if (v != me.rank * me.nranks) me.fail("reduce_scatter: not my block");
                      me.must(ef_comm_destroy(comm), "ef_comm_destroy");
                  });
            EXPECT_EQ(j.finish_all(30'000), "");
        }
}

TEST(FabricComm, NamesTheRankThatIsNowhereOnIt) {
    job_setup s = on_bigraph();
    s.host_names[5] = "elsewhere";
    job j(s, [](rank_process& me) {
        ef_comm_t comm = nullptr;
        const ef_comm_options o = me.options();
        if (ef_comm_create(me.rank, me.nranks, &o, &comm) != EF_INVALID)
            me.fail("joined on a fabric where rank 5 is nowhere");
        const std::string why = ef_last_error();
        if (why.find("rank 5 (") == std::string::npos ||
            why.find("is on no host of fabric") == std::string::npos)
            me.fail(why);
    });
    EXPECT_EQ(j.finish_all(30'000), "");
}

TEST(FabricComm, RefusesRanksThatReadDifferentFabrics) {
    job j(on_bigraph(), [](rank_process& me) {
        if (me.rank == 3) setenv("EFLOPS_FABRIC", "bigraph:S=2,H=2,L=1,gbps=0.2", 1);
        ef_comm_t comm = nullptr;
        const ef_comm_options o = me.options();
        if (ef_comm_create(me.rank, me.nranks, &o, &comm) != EF_MISMATCH)
            me.fail(std::string("joined with two fabrics: ") + ef_last_error());
        const std::string why = ef_last_error();
        if (why.find("rank 3 (") == std::string::npos) me.fail(why);
    });
    EXPECT_EQ(j.finish_all(30'000), "");
}

}  // namespace
}  // namespace ef::test
