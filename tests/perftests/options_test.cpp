#include "perftests/common/options.hpp"

#include "perftests/common/runner.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace ef::perf {
namespace {

struct outcome {
    std::optional<int> end;
    options o;
    std::string out, err;
};

outcome parse(std::vector<std::string> words, kind k = kind::allreduce) {
    std::vector<char*> argv;
    words.insert(words.begin(), "program");
    for (auto& w : words) argv.push_back(w.data());
    outcome r;
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    r.end = parse_options(int(argv.size()), argv.data(), find_collective(k), r.o);
    r.out = testing::internal::GetCapturedStdout();
    r.err = testing::internal::GetCapturedStderr();
    return r;
}

TEST(Options, NeedNone) {
    const outcome r = parse({});
    EXPECT_FALSE(r.end);
    EXPECT_EQ(r.o.sweep.sizes.front(), 8u);
    EXPECT_EQ(r.o.sweep.sizes.back(), 64u << 20);
    EXPECT_EQ(r.o.sweep.types, std::vector<ef_type_t>{EF_FLOAT32});
    EXPECT_EQ(r.o.effort.checks, 1u);
    EXPECT_TRUE(r.o.sweep.out_of_place && !r.o.sweep.in_place);
    EXPECT_TRUE(r.o.output.json.empty());
}

TEST(Options, HelpAndVersionGoToStdoutAndEndWell) {
    for (const char* flag : {"--help", "--version"}) {
        const outcome r = parse({flag});
        EXPECT_EQ(r.end, 0);
        EXPECT_FALSE(r.out.empty());
        EXPECT_TRUE(r.err.empty()) << r.err;
    }
    EXPECT_EQ(parse({"--version"}).out, std::string("ef_allreduce_perf ") + ef_version() + "\n");
}

TEST(Options, AreRefusedWithStatus2AndAReason) {
    const std::pair<std::vector<std::string>, const char*> bad[] = {
        {{"--nonsense"}, "nonsense"},
        {{"-s", "8Q"}, "8Q"},
        {{"-t", "float99"}, "float99"},
        {{"-o", "xor"}, "xor"},
        {{"-m", "gpu"}, "gpu"},
        {{"--ranks", "0"}, "ranks"},
        {{"-n", "5", "-D", "1"}, "excludes"},
        {{"--json", "--csv"}, "standard output"},
        {{"--chunk", "x"}, "x"},
        {{"--timeout", "0"}, "timeout"},
        {{"stray"}, "stray"},
        {{"--root", "1"}, "root"},
    };
    for (const auto& [words, reason] : bad) {
        const outcome r = parse(words);
        EXPECT_EQ(r.end, 2) << words[0];
        EXPECT_TRUE(r.out.empty()) << r.out;
        EXPECT_NE(r.err.find(reason), std::string::npos) << r.err;
    }
}

TEST(Options, TakeListsAndAll) {
    EXPECT_EQ(parse({"-t", "half,int8"}).o.sweep.types,
              (std::vector<ef_type_t>{EF_FLOAT16, EF_INT8}));
    EXPECT_EQ(parse({"-t", "all"}).o.sweep.types.size(), 10u);
    EXPECT_EQ(parse({"-o", "all"}).o.sweep.ops.size(), 5u);
    const outcome both = parse({"--both", "-m", "both"});
    EXPECT_TRUE(both.o.sweep.in_place && both.o.sweep.out_of_place);
    EXPECT_TRUE(both.o.sweep.malloc_memory && both.o.sweep.shared_memory);
}

TEST(Options, JsonAndCsvTakeAFileOnlyBehindAnEqualsSign) {
    EXPECT_EQ(parse({"--json"}).o.output.json, "-");
    EXPECT_EQ(parse({"--json=out.json", "--csv"}).o.output.json, "out.json");
    EXPECT_EQ(parse({"--json=out.json", "--csv"}).o.output.csv, "-");
    const outcome r = parse({"--json", "-s", "8"});
    EXPECT_FALSE(r.end);
    EXPECT_EQ(r.o.sweep.sizes, std::vector<uint64_t>{8});
}

TEST(Options, CheckTakesANumberOrNone) {
    EXPECT_EQ(parse({"--check", "--csv=x"}).o.effort.checks, 1u);
    EXPECT_EQ(parse({"-c", "3"}).o.effort.checks, 3u);
    EXPECT_EQ(parse({"--check=4", "-s", "8"}).o.effort.checks, 4u);
    EXPECT_EQ(parse({"--no-check"}).o.effort.checks, 0u);
    EXPECT_EQ(parse({"--check", "--no-check"}).end, 2);
}

TEST(Options, AreOnlyThoseThatTheCollectiveHas) {
    EXPECT_EQ(parse({"-o", "sum"}, kind::allgather).end, 2);
    EXPECT_EQ(parse({"--in-place"}, kind::sendrecv).end, 2);
    EXPECT_EQ(parse({"-s", "8"}, kind::barrier).end, 2);
    EXPECT_FALSE(parse({"--root", "3"}, kind::broadcast).end);
    EXPECT_EQ(parse({}, kind::barrier).o.sweep.sizes, std::vector<uint64_t>{0});
}

TEST(Cases, LeaveOutSizesThatComeToTheSameCall) {
    const outcome r = parse({"-s", "1:64:x2"});
    const auto cases = list_cases(r.o, find_collective(kind::allgather), 4);
    // float32 over 4 ranks: 16 bytes at least.
    ASSERT_EQ(cases.size(), 3u);
    EXPECT_EQ(cases[0].call.bytes, 16u);
    EXPECT_EQ(cases[2].call.bytes, 64u);
}

TEST(Cases, AreEveryCombination) {
    const outcome r =
        parse({"-s", "64,128", "-t", "float,half", "-o", "sum,max,avg", "--both", "-m", "both"});
    EXPECT_EQ(list_cases(r.o, find_collective(kind::allreduce), 2).size(), 2u * 2 * 3 * 2 * 2);
}

TEST(Fingerprint, DiffersWhenRanksWouldDoDifferentThings) {
    const collective& what = find_collective(kind::allreduce);
    const auto print = [&](std::vector<std::string> words) {
        const outcome r = parse(std::move(words));
        return fingerprint(r.o, list_cases(r.o, what, 2));
    };
    EXPECT_EQ(print({"-s", "8"}), print({"--sizes", "8"}));
    EXPECT_NE(print({"-s", "8"}), print({"-s", "16"}));
    EXPECT_NE(print({"-s", "8"}), print({"-s", "8", "-t", "int32"}));
    EXPECT_NE(print({"-s", "8"}), print({"-s", "8", "-o", "max"}));
    EXPECT_NE(print({"-s", "8"}), print({"-s", "8", "-n", "3"}));
    EXPECT_NE(print({"-s", "8"}), print({"-s", "8", "--no-check"}));
}

TEST(Shape, CountsAsNcclTestsDoes) {
    const shape ag = shape_of(kind::allgather, 1000, 4, 4);
    EXPECT_EQ(ag.count, 62u);
    EXPECT_EQ(ag.send_elements, 62u);
    EXPECT_EQ(ag.recv_elements, 248u);
    EXPECT_EQ(ag.bytes, 992u);
    const shape rs = shape_of(kind::reduce_scatter, 1000, 4, 4);
    EXPECT_EQ(rs.send_elements, 248u);
    EXPECT_EQ(rs.recv_elements, 62u);
    EXPECT_EQ(shape_of(kind::allreduce, 1, 8, 2).count, 1u);
    EXPECT_EQ(shape_of(kind::allreduce, 0, 8, 2).count, 0u);
    EXPECT_EQ(bus_factor(kind::allreduce, 4), 1.5);
    EXPECT_EQ(bus_factor(kind::allgather, 4), 0.75);
    EXPECT_EQ(bus_factor(kind::broadcast, 4), 1);
}

}  // namespace
}  // namespace ef::perf
