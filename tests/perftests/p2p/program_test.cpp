// The point-to-point programs from end to end: client and server as processes of this host.
#include "perftests/p2p/program.hpp"

#include "perftests/common/exit_code.hpp"

#include <eflops/transport.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace ef::perf::p2p {
namespace {

using nlohmann::json;

struct outcome {
    int status;
    std::string out, err;
    std::vector<json> lines() const {
        std::istringstream in(out);
        std::vector<json> all;
        for (std::string line; std::getline(in, line);) all.push_back(json::parse(line));
        return all;
    }
};

int call(kind k, std::vector<std::string> words) {
    words.insert(words.begin(), "program");
    std::vector<char*> argv;
    for (auto& w : words) argv.push_back(w.data());
    return p2p_main(k, int(argv.size()), argv.data());
}

outcome run(kind k, const std::vector<std::string>& words) {
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    outcome o;
    o.status = call(k, words);
    o.out = testing::internal::GetCapturedStdout();
    o.err = testing::internal::GetCapturedStderr();
    return o;
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

class Programs : public testing::TestWithParam<std::tuple<kind, const char*>> {
protected:
    kind what() const { return std::get<0>(GetParam()); }
    std::vector<std::string> self() const {
        return {
            "--self", "-d",    std::get<1>(GetParam()), "-n", "500", "--warmup", "20", "--timeout",
            "20",     "--json"};
    }
};

TEST_P(Programs, FindAllDataRightAndReportEverySize) {
    const test& t = find_test(what());
    const bool sizes = what() != kind::atomic_lat;
    std::vector<std::string> words = self() + std::vector<std::string>{"--verify", "-q", "2"};
    if (sizes) words = words + std::vector<std::string>{"-s", "1,1000,150K"};
    const outcome o = run(what(), words);
    ASSERT_EQ(o.status, exit_good) << o.err;
    const auto lines = o.lines();
    ASSERT_EQ(lines.size(), sizes ? 5u : 3u);
    EXPECT_EQ(lines.front()["program"], t.program);
    EXPECT_EQ(std::string(lines.front()["medium"]).substr(0, 3), std::get<1>(GetParam()));
    EXPECT_EQ(lines.front()["options"]["qp"], "2");
    for (size_t i = 1; i + 1 < lines.size(); ++i) {
        const json& r = lines[i];
        EXPECT_EQ(r["wrong_bytes"], 0);
        EXPECT_EQ(r["iterations"], 500);
        EXPECT_LE(r["min_us"], r["p50_us"]);
        EXPECT_LE(r["p50_us"], r["p99_us"]);
        EXPECT_LE(r["p99_us"], r["p999_us"]);
        EXPECT_LE(r["p999_us"], r["max_us"]);
        EXPECT_GT(r["avg_us"], 0);
        EXPECT_EQ(r["gbps"].is_null(), t.latency);
    }
    EXPECT_EQ(lines.back()["exit_status"], 0);
}

TEST_P(Programs, MissAThresholdWithStatusThree) {
    const outcome o = run(what(), self() + std::vector<std::string>{"--max-us", "0.000001"});
    EXPECT_EQ(o.status, exit_missed) << o.err;
    EXPECT_EQ(o.lines().back()["thresholds_missed"], 1);
}

INSTANTIATE_TEST_SUITE_P(
    P2p, Programs,
    testing::Combine(testing::Values(kind::write_bw, kind::write_lat, kind::read_bw, kind::read_lat,
                                     kind::send_bw, kind::send_lat, kind::atomic_lat),
                     testing::Values("shm", "tcp")),
    [](const auto& i) {
        return std::string(find_test(std::get<0>(i.param)).name) + "_" + std::get<1>(i.param);
    });

class Bandwidth : public testing::TestWithParam<kind> {};

TEST_P(Bandwidth, RunsBothWaysWithPostListsAndSharedCompletions) {
    const outcome o =
        run(GetParam(), {"--self", "-b", "--verify", "-s", "64,64K", "-n", "5000", "-l", "8", "-Q",
                         "16", "-t", "64", "--timeout", "20", "--json"});
    ASSERT_EQ(o.status, exit_good) << o.err;
    const auto lines = o.lines();
    for (size_t i = 1; i + 1 < lines.size(); ++i) {
        EXPECT_EQ(lines[i]["wrong_bytes"], 0);
        EXPECT_GT(lines[i]["server_gbps"], 0);
        EXPECT_GT(lines[i]["gbps"], lines[i]["server_gbps"]);
    }
}

TEST_P(Bandwidth, HasPercentilesWithADurationToo) {
    const outcome o = run(GetParam(), {"--self", "-D", "0.3", "-s", "4K", "--json"});
    ASSERT_EQ(o.status, exit_good) << o.err;
    const json r = o.lines().at(1);
    EXPECT_GE(r["seconds"], 0.3);
    EXPECT_GT(r["p999_us"], 0);
}

TEST_P(Bandwidth, MissesABandwidthThresholdOfEverySize) {
    const outcome o = run(GetParam(), {"--self", "-n", "200", "-s", "8,4K", "--min-gbps", "1e9"});
    EXPECT_EQ(o.status, exit_missed) << o.err;
    EXPECT_NE(o.out.find("2 missed a threshold"), std::string::npos) << o.out;
}

INSTANTIATE_TEST_SUITE_P(P2p, Bandwidth,
                         testing::Values(kind::write_bw, kind::read_bw, kind::send_bw),
                         [](const auto& i) { return std::string(find_test(i.param).name); });

TEST(P2pOutput, HasAsManyCsvFieldsAsNames) {
    const outcome o = run(kind::write_lat, {"--self", "-n", "100", "--csv"});
    ASSERT_EQ(o.status, exit_good) << o.err;
    std::istringstream in(o.out);
    std::string names, row;
    std::getline(in, names);
    std::getline(in, row);
    EXPECT_EQ(std::count(names.begin(), names.end(), ','), std::count(row.begin(), row.end(), ','));
}

// ---------------------------------------------------------------- a server of its own

/// A server in a child process, at a port of its own.
class server {
public:
    server(kind k, std::vector<std::string> words) {
        // The port is free now; that another takes it within the test is next to impossible.
        ef_listener_t l = nullptr;
        EXPECT_EQ(ef_listener_create("127.0.0.1:0", nullptr, &l), EF_OK);
        const std::string at = ef_listener_address(l);
        port = at.substr(at.rfind(':') + 1);
        ef_listener_destroy(l);
        words.insert(words.end(), {"-p", port});
        fflush(nullptr);
        pid = fork();
        if (pid == 0) {
            freopen("/dev/null", "w", stderr);
            _exit(call(k, words));
        }
    }
    ~server() {
        if (pid > 0) kill(pid, SIGKILL), waitpid(pid, nullptr, 0);
    }
    int status() {
        int how = 0;
        waitpid(std::exchange(pid, -1), &how, 0);
        return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
    }
    std::string port;
    pid_t pid;
};

TEST(P2pServer, KeepsServingWhateverClientsDo) {
    server s(kind::write_bw, {"--serve", "--timeout", "20", "-t", "64"});
    const std::vector<std::string> at = {"localhost", "-p", s.port, "--timeout", "10"};
    EXPECT_EQ(run(kind::write_bw, at + std::vector<std::string>{"-n", "100", "-t", "64"}).status,
              exit_good);
    const outcome conflict = run(kind::write_bw, at + std::vector<std::string>{"-t", "32"});
    EXPECT_EQ(conflict.status, exit_usage);
    EXPECT_NE(conflict.err.find("--tx-depth: 32 on the client, 64 on the server"),
              std::string::npos)
        << conflict.err;
    const outcome other = run(kind::read_lat, at + std::vector<std::string>{"-n", "10"});
    EXPECT_EQ(other.status, exit_usage);
    EXPECT_NE(other.err.find("ef_read_lat"), std::string::npos) << other.err;
    EXPECT_NE(other.err.find("ef_write_bw"), std::string::npos) << other.err;
    const outcome device =
        run(kind::write_bw, at + std::vector<std::string>{"-t", "64", "-d", "no_such0"});
    EXPECT_EQ(device.status, exit_cannot_run) << device.err;
    EXPECT_EQ(run(kind::write_bw, at + std::vector<std::string>{"-n", "100", "-t", "64"}).status,
              exit_good);
}

TEST(P2pServer, EndsWithItsOneClient) {
    server s(kind::send_lat, {"--timeout", "20"});
    EXPECT_EQ(run(kind::send_lat, {"localhost", "-p", s.port, "-n", "100"}).status, exit_good);
    EXPECT_EQ(s.status(), exit_good);
}

TEST(P2pServer, GivesUpWhenNobodyComes) {
    server s(kind::send_lat, {"--timeout", "0.2"});
    EXPECT_EQ(s.status(), exit_failed);
}

TEST(P2pClient, NamesTheServerThatIsNotThere) {
    const outcome o = run(kind::write_bw, {"localhost", "-p", "1", "--timeout", "0.3"});
    EXPECT_EQ(o.status, exit_failed);
    EXPECT_NE(o.err.find("localhost:1"), std::string::npos) << o.err;
}

class Deaths : public testing::TestWithParam<std::tuple<kind, const char*>> {};

TEST_P(Deaths, AClientWhoseServerIsKilledSaysSoWithinSeconds) {
    const auto [what, medium] = GetParam();
    server s(what, {"--timeout", "20"});
    const pid_t killer = fork();
    if (killer == 0) {
        // Long enough to be in the middle of the row, most of the time; before it is good too.
        usleep(700'000);
        kill(s.pid, SIGKILL);
        _exit(0);
    }
    const auto start = time(nullptr);
    const outcome o =
        run(what, {"localhost", "-p", s.port, "-d", medium, "-D", "30", "--timeout", "20"});
    EXPECT_EQ(o.status, exit_failed);
    EXPECT_LT(time(nullptr) - start, 10);
    EXPECT_NE(o.err, "");
    waitpid(killer, nullptr, 0);
}

INSTANTIATE_TEST_SUITE_P(P2p, Deaths,
                         testing::Combine(testing::Values(kind::write_bw, kind::send_lat),
                                          testing::Values("shm", "tcp")),
                         [](const auto& i) {
                             return std::string(find_test(std::get<0>(i.param)).name) + "_" +
                                    std::get<1>(i.param);
                         });

}  // namespace
}  // namespace ef::perf::p2p
