// Records made by hand, with the culprit that a person would name; and files that are no records.
#include "tools/blame/analysis.hpp"

#include <gtest/gtest.h>

#include <random>

namespace {

using namespace ef::blame;
using nlohmann::json;

json collective(uint64_t number, const char* what = "allreduce", uint64_t count = 1024) {
    return {{"what", what}, {"number", number}, {"count", count},       {"type", "float32"},
            {"op", "sum"},  {"pending", true},  {"began_ms_ago", 5000}, {"algorithm", "ring"}};
}

json finished(uint64_t number, int ended_ms_ago) {
    json j = collective(number);
    j.erase("pending");
    j["ended_ms_ago"] = ended_ms_ago;
    j["code"] = "EF_OK";
    return j;
}

json receive(uint64_t number, int peer) {
    return {{"what", "recv"}, {"number", number}, {"count", 4},         {"type", "int32"},
            {"peer", peer},   {"pending", true},  {"began_ms_ago", 100}};
}

json wait(int peer, const char* to = "send") {
    return {{"peer", peer},     {"to", to},      {"round", 2},
            {"bytes_done", 64}, {"bytes", 4096}, {"medium", "shm"}};
}

json rank(int r, int nranks, std::vector<json> operations, std::vector<json> waits) {
    json peers = json::array();
    for (int p = 0; p < nranks; ++p)
        peers.push_back({{"rank", p}, {"host", "host" + std::to_string(p)}, {"pid", 100 + p}});
    return {{"eflops_flight", 1},
            {"version", "0.1.0"},
            {"communicator", "0"},
            {"rank", r},
            {"nranks", nranks},
            {"host", "host" + std::to_string(r)},
            {"pid", 100 + r},
            {"written_unix_ms", 1000000},
            {"error", {{"code", "EF_TIMEOUT"}, {"text", "no progress"}}},
            {"peers", peers},
            {"operations", operations},
            {"waiting_for", waits}};
}

std::vector<verdict> blame(const std::vector<json>& records) {
    std::vector<record> read;
    for (const json& j : records) read.push_back(read_record("r.json", j.dump()));
    return analyse(read);
}

TEST(Blame, NamesTheSilentRankThatOthersWaitForThroughOthers) {
    const auto v =
        blame({rank(0, 4, {collective(17)}, {wait(3)}), rank(1, 4, {collective(17)}, {wait(0)}),
               rank(2, 4, {collective(17)}, {wait(1), wait(3, "take")})});
    ASSERT_EQ(v.size(), 1u);
    ASSERT_EQ(v[0].culprits.size(), 1u);
    EXPECT_EQ(v[0].culprits[0].kind, "no_record");
    EXPECT_EQ(v[0].culprits[0].ranks, std::vector<int64_t>{3});
    EXPECT_EQ(v[0].culprits[0].text,
              "rank 3 (host3, pid 103) left no record: it is stopped or dead, or was in no call; "
              "ranks 0, 1, 2 wait for it");
    EXPECT_EQ(v[0].chain, (std::vector<int64_t>{1, 0, 3}));
    ASSERT_EQ(v[0].links.size(), 2u);
    EXPECT_EQ(v[0].links[1],
              "allreduce #17: waits for rank 3 to send (64 of 4096 bytes, round 2, shm)");
}

TEST(Blame, DoesNotNameASilentRankForWhomNobodyWaits) {
    const auto v = blame({rank(0, 4, {collective(17)}, {wait(3)})});
    ASSERT_EQ(v[0].culprits.size(), 1u);
    EXPECT_EQ(v[0].culprits[0].ranks, std::vector<int64_t>{3});
}

TEST(Blame, NamesBothCallsWhereRanksCalledDifferentThings) {
    const auto v = blame({rank(0, 3, {collective(5)}, {wait(1)}),
                          rank(1, 3, {collective(5, "broadcast", 7)}, {wait(2)}),
                          rank(2, 3, {collective(5)}, {wait(0)})});
    ASSERT_EQ(v[0].culprits.size(), 1u);
    EXPECT_EQ(v[0].culprits[0].kind, "mismatch");
    EXPECT_EQ(v[0].culprits[0].ranks, std::vector<int64_t>{1});
    EXPECT_NE(v[0].culprits[0].text.find("broadcast #5 of 7"), std::string::npos);
    EXPECT_NE(v[0].culprits[0].text.find("ranks 0, 2 called allreduce #5 of 1024"),
              std::string::npos)
        << v[0].culprits[0].text;
}

TEST(Blame, NamesTheRankThatHasNotCalledAgain) {
    const auto v = blame({rank(0, 3, {finished(16, 12000), collective(17)}, {wait(2)}),
                          rank(1, 3, {finished(16, 12000), collective(17)}, {wait(0)}),
                          rank(2, 3, {finished(16, 12000), receive(1, 0)}, {wait(0)})});
    ASSERT_EQ(v[0].culprits.size(), 1u);
    EXPECT_EQ(v[0].culprits[0].kind, "behind");
    EXPECT_EQ(
        v[0].culprits[0].text,
        "rank 2 (host2, pid 102) is still before allreduce #17; it finished #16 12.0 s before "
        "its record was written and has not called again");
}

TEST(Blame, NamesTheRankThatCameAfterTheOthersHadGivenUp) {
    json late = rank(2, 3, {collective(17)}, {wait(0)});
    late["written_unix_ms"] = 1000000 + 9000;  // began 5 s before: 4 s after the others gave up
    const auto v = blame(
        {rank(0, 3, {collective(17)}, {wait(2)}), rank(1, 3, {collective(17)}, {wait(0)}), late});
    ASSERT_EQ(v[0].culprits.size(), 1u);
    EXPECT_EQ(v[0].culprits[0].kind, "late");
    EXPECT_EQ(
        v[0].culprits[0].text,
        "rank 2 (host2, pid 102) called allreduce #17 4.0 s after the first rank had given up");
}

TEST(Blame, NamesACycleOfReceives) {
    const auto v =
        blame({rank(0, 3, {receive(1, 1)}, {wait(1)}), rank(1, 3, {receive(1, 0)}, {wait(0)}),
               rank(2, 3, {receive(1, 1)}, {wait(1)})});
    ASSERT_EQ(v[0].culprits.size(), 1u);
    EXPECT_EQ(v[0].culprits[0].kind, "cycle");
    EXPECT_EQ(v[0].culprits[0].ranks, (std::vector<int64_t>{0, 1}));
}

TEST(Blame, SaysThatNothingWasPending) {
    const auto v = blame({rank(0, 2, {finished(1, 10)}, {}), rank(1, 2, {finished(1, 10)}, {})});
    ASSERT_EQ(v.size(), 1u);
    EXPECT_FALSE(v[0].hang);
    EXPECT_TRUE(v[0].culprits.empty());
}

TEST(Blame, KeepsCommunicatorsApart) {
    json other = rank(0, 2, {collective(1)}, {wait(1)});
    other["communicator"] = "1";
    const auto v = blame(
        {rank(0, 3, {collective(17)}, {wait(2)}), other, rank(1, 3, {collective(17)}, {wait(0)})});
    ASSERT_EQ(v.size(), 2u);
    EXPECT_EQ(v[0].culprits.at(0).ranks, std::vector<int64_t>{2});
    EXPECT_EQ(v[1].culprits.at(0).ranks, std::vector<int64_t>{1});
}

std::string refusal(const std::string& text) {
    try {
        read_record("dir/r.json", text);
    } catch (const bad_record& e) {
        return e.what();
    }
    return "accepted";
}

TEST(Blame, NamesFileAndPlaceOfWhatIsWrong) {
    const std::string good = rank(0, 2, {collective(1)}, {wait(1)}).dump();
    EXPECT_EQ(refusal(good), "accepted");
    EXPECT_EQ(refusal(""), "dir/r.json: the end of the file at byte 1: not JSON, or cut short");
    EXPECT_EQ(refusal("{\"a\": x}"), "dir/r.json: an error at byte 7: not JSON, or cut short");
    EXPECT_EQ(refusal("[1]"), "dir/r.json: byte 1: not a flight record (no \"eflops_flight\")");
    json j = json::parse(good);
    j["eflops_flight"] = 2;
    EXPECT_EQ(refusal(j.dump()), "dir/r.json: written in schema 2, this program reads schema 1");
    j = json::parse(good);
    j["waiting_for"][0]["peer"] = 2;
    EXPECT_EQ(refusal(j.dump()),
              "dir/r.json: /waiting_for/0/peer: not a rank of this communicator");
    j = json::parse(good);
    j["operations"][0]["number"] = 1e300;
    EXPECT_EQ(refusal(j.dump()), "dir/r.json: /operations/0/number: not a number, 0 or more");
    j = json::parse(good);
    j["peers"].erase(1);
    EXPECT_EQ(refusal(j.dump()), "dir/r.json: /nranks: not the number of peers");
}

TEST(Blame, RefusesEveryTruncation) {
    const std::string good = rank(0, 3, {finished(1, 3), collective(2)}, {wait(1)}).dump();
    for (size_t n = 0; n < good.size(); ++n)
        EXPECT_NE(refusal(good.substr(0, n)).find("dir/r.json: the end of the file at byte"),
                  std::string::npos)
            << n;
}

// Whatever bytes come, they are read, or refused with a reason, and the analysis ends.
TEST(Blame, SurvivesGarbage) {
    const unsigned seed = 20261201;
    RecordProperty("seed", int(seed));
    std::mt19937 random(seed);
    const std::string good = rank(1, 3, {finished(1, 3), collective(2)}, {wait(0), wait(2)}).dump();
    int accepted = 0;
    for (int i = 0; i < 20000; ++i) {
        std::string text = good;
        for (unsigned n = 1 + random() % 3; n--;) {
            const size_t at = random() % text.size();
            switch (random() % 4) {
            case 0:
                text[at] = char(random());
                break;
            case 1:
                text.erase(at, random() % 8);
                break;
            case 2:
                text.insert(at, text.substr(random() % text.size(), random() % 16));
                break;
            default:
                text[at] = "0123456789-[]{},:\"e."[random() % 20];
            }
        }
        try {
            const record r = read_record("r.json", text);
            analyse({r, read_record("s.json", good)});
            ++accepted;
        } catch (const bad_record& e) {
            ASSERT_EQ(std::string(e.what()).rfind("r.json: ", 0), 0u);
        }
    }
    EXPECT_GT(accepted, 100);  // or the changes were too coarse to reach the analysis
}

}  // namespace
