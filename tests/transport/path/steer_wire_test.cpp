// Records that ranks exchange about paths, and what addresses in them mean.
#include "transport/path/steer_wire.hpp"

#include "transport/path/steer_links.hpp"

#include <gtest/gtest.h>

#include <random>

namespace ef::path {
namespace {

std::vector<found_flow> some_flows() {
    return {{3, {0, 7}, {{"10.0.0.0", "", "172.16.0.3"}, {"10.0.0.0"}, {}}, ""},
            {1, {}, {}, "rank 1: 10.0.0.0, then nothing"}};
}

TEST(SteerWire, GivesBackWhatWasWritten) {
    std::vector<found_flow> got;
    ASSERT_TRUE(parse_found(write_found(some_flows()), 4, got));
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].rounds, some_flows()[0].rounds);
    EXPECT_EQ(got[0].ways, some_flows()[0].ways);
    EXPECT_EQ(got[1].why, some_flows()[1].why);

    checked_path p;
    p.from = 2;
    p.to = 3;
    p.state = path_state::dead;
    p.last_seen = "172.16.0.3";
    p.next_silent = "172.16.0.10";
    std::vector<checked_path> paths;
    ASSERT_TRUE(parse_checked(write_checked(std::span(&p, 1)), 4, paths));
    EXPECT_EQ(paths[0].text(), "2->3 is dead behind 172.16.0.3, before 172.16.0.10");
}

TEST(SteerWire, RefusesRanksThatAreNone) {
    std::vector<found_flow> got;
    EXPECT_FALSE(parse_found(write_found(some_flows()), 3, got));
}

TEST(SteerWire, RefusesEveryRecordThatIsCutShort) {
    const bytes whole = write_found(some_flows());
    for (size_t n = 0; n < whole.size(); ++n) {
        std::vector<found_flow> got;
        EXPECT_FALSE(parse_found(std::span(whole).first(n), 4, got)) << n;
    }
}

TEST(SteerWire, SurvivesRecordsWithRandomBytesInThem) {
    const uint32_t seed = std::random_device()();
    std::mt19937 random(seed);
    SCOPED_TRACE(seed);
    const bytes whole = write_found(some_flows());
    for (int i = 0; i < 20000; ++i) {
        bytes b = whole;
        for (int k = 0; k < 3; ++k) b[random() % b.size()] = std::byte(random());
        std::vector<found_flow> got;
        if (!parse_found(b, 4, got)) continue;
        for (const found_flow& f : got) EXPECT_LT(f.to, 4);
    }
}

/// Two flows out of one leaf into another, over either of two spines.
std::vector<std::vector<found_flow>> two_flows(bool by_interface) {
    const auto way = [&](int host, int spine) -> std::vector<std::string> {
        if (!by_interface) return {"leafA", "spine" + std::to_string(spine), "leafB"};
        return {"leafA-host" + std::to_string(host), "spine" + std::to_string(spine) + "-leafA",
                "leafB-spine" + std::to_string(spine)};
    };
    std::vector<std::vector<found_flow>> found(4);
    for (int h = 0; h < 2; ++h) found[size_t(h)] = {{h + 2, {0}, {way(h, 0), way(h, 1)}, ""}};
    return found;
}

TEST(SteerLinks, TellsWhetherAnswersNameLinksOrRouters) {
    EXPECT_FALSE(named_by_router(two_flows(true)));
    EXPECT_TRUE(named_by_router(two_flows(false)));
}

TEST(SteerLinks, KnowsALinkAgainHoweverRoutersAreNamed) {
    const std::vector<std::string> hosts = {"h0", "h1", "h2", "h3"};
    for (const bool by_interface : {true, false}) {
        const flow_table t = make_flow_table(two_flows(by_interface), hosts, naming::automatic);
        ASSERT_EQ(t.flows.size(), 2u);
        // Per way: up from the host, to the spine, to the leaf, down to the host.
        EXPECT_EQ(t.name.size(), 2u + 2u + 2u + 2u);
        EXPECT_EQ(t.flows[0].ways[0].links[1], t.flows[1].ways[0].links[1]);
        EXPECT_NE(t.flows[0].ways[0].links[1], t.flows[1].ways[1].links[1]);
        EXPECT_NE(t.flows[0].ways[0].links[0], t.flows[1].ways[0].links[0]);
        EXPECT_EQ(assign(t.flows).worst, 1u);
    }
}

TEST(SteerLinks, LeavesOutFlowsWithoutAWayAndLinksNextToSilence) {
    std::vector<std::vector<found_flow>> found(2);
    found[0] = {{1, {0}, {}, "nobody answers"}, {1, {1}, {{"a", "", "c"}}, ""}};
    const std::vector<std::string> hosts = {"h0", "h1"};
    const flow_table t = make_flow_table(found, hosts, naming::interface_);
    EXPECT_EQ(t.place, (std::vector<int32_t>{-1, 0}));
    EXPECT_EQ(t.name, (std::vector<std::string>{"a", "c", "h1"}));
    EXPECT_EQ(make_flow_table(found, hosts, naming::router).name,
              (std::vector<std::string>{"h0-a", "c-h1"}));
}

}  // namespace
}  // namespace ef::path
