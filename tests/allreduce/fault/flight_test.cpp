#include "allreduce/fault/flight.hpp"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>

namespace ef {
namespace {

using nlohmann::json;

struct Flight : testing::Test {
    flight_recorder recorder;
    std::vector<peer_name> peers{{0, "alpha", 100}, {1, "be\"ta\xff\n", 101}};
    status error{EF_TIMEOUT, "no progress for 5 ms: waiting for rank 0 (alpha, pid 100)"};

    flight_context context() const {
        flight_context c;
        c.rank = 1;
        c.communicator = "7";
        c.peers = peers;
        c.error = &error;
        return c;
    }
    json parsed(std::span<const flight_waiting> waiting = {}) const {
        return json::parse(recorder.text(context(), waiting));
    }
};

call_site site(const char* what, uint64_t number, const char* algorithm = "ring") {
    return {what, number, 1024, EF_BFLOAT16, EF_MAX, 0, algorithm};
}

TEST_F(Flight, SaysWhoWasWaitedForInTheOperationThatHasNotEnded) {
    recorder.end(recorder.begin(site("broadcast", 1)), EF_OK);
    recorder.begin(site("allreduce", 2));
    recorder.begin(site("recv", 1, ""));
    const flight_waiting waiting[] = {{0, true, 3, 64, 4096, "tcp:eth0"}};
    const json j = parsed(waiting);
    EXPECT_EQ(j["eflops_flight"], 1);
    EXPECT_EQ(j["rank"], 1);
    EXPECT_EQ(j["nranks"], 2);
    EXPECT_EQ(j["pid"], 101);
    EXPECT_EQ(j["host"], "be\"ta?\n");
    EXPECT_EQ(j["error"]["code"], "EF_TIMEOUT");
    EXPECT_EQ(j["error"]["text"], std::string(error.text()));
    ASSERT_EQ(j["operations"].size(), 3u);
    EXPECT_EQ(j["operations"][0]["root"], 0);
    EXPECT_EQ(j["operations"][0]["code"], "EF_OK");
    EXPECT_FALSE(j["operations"][0].contains("pending"));
    EXPECT_EQ(j["operations"][1]["number"], 2);
    EXPECT_EQ(j["operations"][1]["type"], "bfloat16");
    EXPECT_EQ(j["operations"][1]["op"], "max");
    EXPECT_EQ(j["operations"][1]["algorithm"], "ring");
    EXPECT_EQ(j["operations"][1]["pending"], true);
    EXPECT_EQ(j["operations"][2]["peer"], 0);
    ASSERT_EQ(j["waiting_for"].size(), 1u);
    EXPECT_EQ(j["waiting_for"][0]["to"], "take");
    EXPECT_EQ(j["waiting_for"][0]["bytes_done"], 64);
    EXPECT_EQ(j["waiting_for"][0]["medium"], "tcp:eth0");
}

TEST_F(Flight, KeepsTheLast64OperationsFromTheOldest) {
    for (uint64_t n = 1; n <= 100; ++n) recorder.end(recorder.begin(site("allreduce", n)), EF_OK);
    const json operations = parsed()["operations"];
    ASSERT_EQ(operations.size(), 64u);
    for (size_t i = 0; i < 64; ++i) EXPECT_EQ(operations[i]["number"], 37 + i);
}

TEST_F(Flight, IgnoresTheEndOfAnOperationWhoseSlotWasTaken) {
    const int first = recorder.begin(site("allreduce", 1));
    for (uint64_t n = 2; n <= 65; ++n) recorder.begin(site("allreduce", n));
    recorder.end(first, EF_OK);
    recorder.end(-1, EF_OK);
    const json operations = parsed()["operations"];
    ASSERT_EQ(operations.size(), 64u);
    for (const json& o : operations) EXPECT_TRUE(o.contains("pending"));
}

TEST_F(Flight, KeepsItsOwnCopyOfTheAlgorithmsName) {
    std::string name = "hierarchical:halving_doubling";
    recorder.begin(site("allreduce", 1, name.c_str()));
    name.assign(name.size(), 'x');
    EXPECT_EQ(parsed()["operations"][0]["algorithm"], "hierarchical:halving_doubling");
    recorder.begin(site("allreduce", 2, std::string(100, 'y').c_str()));
    EXPECT_EQ(parsed()["operations"][1]["algorithm"], std::string(35, 'y'));
}

TEST_F(Flight, WritesTheFileWholeAndLeavesNothingElse) {
    char directory[] = "/tmp/eflops-flight-test.XXXXXX";
    ASSERT_NE(mkdtemp(directory), nullptr);
    recorder.begin(site("allreduce", 1));
    ASSERT_TRUE(recorder.write(directory, context(), {}).ok());
    ASSERT_TRUE(recorder.write(directory, context(), {}).ok());  // again: replaced
    const std::string file = std::string(directory) + "/eflops-flight-7-1.json";
    std::ifstream in(file);
    EXPECT_EQ(json::parse(in)["communicator"], "7");
    DIR* d = opendir(directory);
    int entries = 0;
    while (const dirent* e = readdir(d)) entries += e->d_name[0] != '.';
    closedir(d);
    EXPECT_EQ(entries, 1);
    unlink(file.c_str());
    rmdir(directory);
}

TEST_F(Flight, NamesTheFileThatItCannotWrite) {
    const status s = recorder.write("/nonexistent/place", context(), {});
    EXPECT_EQ(s.code(), EF_SYSTEM);
    EXPECT_NE(s.text().find("/nonexistent/place/eflops-flight-7-1.json"), std::string::npos)
        << s.text();
}

}  // namespace
}  // namespace ef
