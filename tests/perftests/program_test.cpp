// The programs from end to end: ranks started, library called, data compared, reports written.
#include "perftests/common/program.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace ef::perf {
namespace {

using nlohmann::json;

/// A file that is removed again.
class temporary {
public:
    temporary() { close(mkstemp(name_)); }
    ~temporary() { std::remove(name_); }
    std::string name() const { return name_; }
    std::string text() const {
        std::ifstream in(name_);
        std::stringstream all;
        all << in.rdbuf();
        return all.str();
    }
    std::vector<json> lines() const {
        std::istringstream in(text());
        std::vector<json> all;
        for (std::string line; std::getline(in, line);) all.push_back(json::parse(line));
        return all;
    }

private:
    char name_[32] = "/tmp/ef_perf_test.XXXXXX";
};

struct outcome {
    int status;
    std::string out, err;
};

outcome run(kind k, std::vector<std::string> words) {
    words.insert(words.begin(), "program");
    std::vector<char*> argv;
    for (auto& w : words) argv.push_back(w.data());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    outcome o;
    o.status = collective_main(k, int(argv.size()), argv.data());
    o.out = testing::internal::GetCapturedStdout();
    o.err = testing::internal::GetCapturedStderr();
    return o;
}

class Program : public testing::TestWithParam<kind> {};

TEST_P(Program, FindsAllResultsRightInEveryTypeOperationAndPlace) {
    const collective& what = find_collective(GetParam());
    const temporary file;
    std::vector<std::string> words = {
        "--ranks", "3", "-n", "2", "-w", "0", "--json=" + file.name()};
    if (what.has_sizes)
        words.insert(words.end(), {"-s", "1,8,1000,70K", "-t", "all", "-m", "both"});
    if (what.has_op) words.insert(words.end(), {"-o", "all"});
    if (what.in_place) words.push_back("--both");
    if (what.has_root) words.insert(words.end(), {"--root", "2"});
    const outcome o = run(GetParam(), words);
    ASSERT_EQ(o.status, 0) << o.err;
    const std::vector<json> lines = file.lines();
    ASSERT_GE(lines.size(), 3u);
    EXPECT_EQ(lines.front()["record"], "run");
    EXPECT_EQ(lines.front()["ranks"], 3);
    EXPECT_EQ(lines.front()["peers"].size(), 3u);
    EXPECT_EQ(lines.back()["record"], "end");
    EXPECT_EQ(lines.back()["exit_status"], 0);
    EXPECT_EQ(lines.back()["rows"], lines.size() - 2);
    for (size_t i = 1; i + 1 < lines.size(); ++i) {
        const json& r = lines[i];
        EXPECT_EQ(r["record"], "result");
        EXPECT_EQ(r["iterations"], 2);
        EXPECT_GT(r["avg_us"], 0);
        EXPECT_LE(r["min_us"], r["p50_us"]);
        EXPECT_LE(r["p50_us"], r["p99_us"]);
        if (what.has_sizes) {
            EXPECT_EQ(r["wrong_elements"], 0) << r;
        }
    }
    EXPECT_NE(o.out.find("busbw"), std::string::npos) << "the table is there beside the file";
}

INSTANTIATE_TEST_SUITE_P(Collectives, Program,
                         testing::Values(kind::allreduce, kind::reduce_scatter, kind::allgather,
                                         kind::broadcast, kind::barrier, kind::sendrecv),
                         [](const auto& k) { return find_collective(k.param).name; });

TEST(ProgramStatus, Is3WhenARowMissesAThreshold) {
    const outcome slow =
        run(kind::allreduce, {"-r", "2", "-s", "8", "-n", "5", "--max-us", "0.001"});
    EXPECT_EQ(slow.status, 3) << slow.err;
    EXPECT_NE(slow.out.find("threshold missed"), std::string::npos);
    EXPECT_EQ(run(kind::allreduce, {"-r", "2", "-s", "8", "-n", "5", "--min-gbps", "1e6"}).status,
              3);
    EXPECT_EQ(run(kind::allreduce, {"-r", "2", "-s", "8", "-n", "5", "--max-us", "1e9"}).status, 0);
}

TEST(ProgramStatus, Is2ForARootThatDoesNotExistAndForBadOptions) {
    const outcome o = run(kind::broadcast, {"-r", "2", "-s", "8", "--root", "2"});
    EXPECT_EQ(o.status, 2);
    EXPECT_NE(o.err.find("--root 2 of 2 ranks"), std::string::npos) << o.err;
    EXPECT_EQ(run(kind::allreduce, {"--bogus"}).status, 2);
}

TEST(ProgramStatus, Is77WhereTheBuffersCannotFit) {
    const outcome o = run(kind::allreduce, {"-r", "2", "-s", "1024T", "-n", "1"});
    EXPECT_EQ(o.status, 77);
    EXPECT_NE(o.err.find("GiB"), std::string::npos) << o.err;
}

TEST(ProgramOutput, WithJsonOnStdoutIsNothingButJson) {
    const outcome o = run(kind::allreduce, {"-r", "2", "-s", "8,1K", "-n", "5", "--json"});
    ASSERT_EQ(o.status, 0) << o.err;
    std::istringstream in(o.out);
    int n = 0;
    for (std::string line; std::getline(in, line); ++n)
        EXPECT_EQ(json::parse(line)["schema"], 1) << line;
    EXPECT_EQ(n, 4);
}

TEST(ProgramOutput, CsvHasTheColumnsOfItsHeaderInEveryRow) {
    for (const kind k : {kind::allreduce, kind::sendrecv}) {
        const outcome o = run(k, {"-r", "2", "-s", "8,1K", "-n", "5", "--csv"});
        ASSERT_EQ(o.status, 0) << o.err;
        std::istringstream in(o.out);
        std::vector<std::ptrdiff_t> commas;
        for (std::string line; std::getline(in, line);)
            commas.push_back(std::count(line.begin(), line.end(), ','));
        EXPECT_EQ(commas, std::vector<std::ptrdiff_t>(3, 30));
    }
}

TEST(ProgramOutput, ExplainsThePlansWhenAsked) {
    const outcome o = run(kind::allreduce, {"-r", "2", "-s", "1K", "-n", "5", "--explain"});
    ASSERT_EQ(o.status, 0) << o.err;
    EXPECT_NE(o.out.find("\n#   "), std::string::npos) << o.out;
    EXPECT_NE(o.out.find("written"), std::string::npos);
}

TEST(ProgramOutput, EndsWithTheReasonWhenAFileCannotBeWritten) {
    const outcome o =
        run(kind::allreduce, {"-r", "2", "-s", "8", "-n", "5", "--csv=/nowhere/x.csv"});
    EXPECT_EQ(o.status, 1);
    EXPECT_NE(o.err.find("/nowhere/x.csv: cannot write"), std::string::npos) << o.err;
}

}  // namespace
}  // namespace ef::perf
