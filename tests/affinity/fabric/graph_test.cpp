// The graph: names of links and back, failures, and what check() says of a graph that is wrong.
#include "affinity/fabric/graph.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

namespace ef::fabric {
namespace {

/// Two switches with a host each.
struct small {
    graph g;
    node_id a, b, x, y;
    link_id trunk;
    small() {
        a = g.add_switch("a", 1);
        b = g.add_switch("b", 1);
        x = g.add_host("x");
        y = g.add_host("y");
        g.add_cable(x, a, 100);
        g.add_cable(y, b, 100);
        trunk = g.add_cable(a, b, 100);
    }
};

std::string wrong(const graph& g) {
    const status s = g.check();
    if (s.ok()) return "nothing";
    EXPECT_EQ(s.code(), EF_INVALID);
    return std::string(s.text());
}

TEST(Graph, GivesEachCableTwoLinksThatAreEachOthersReverse) {
    const small s;
    ASSERT_EQ(s.g.links().size(), 6u);
    for (link_id l = 0; l < s.g.links().size(); ++l) {
        const link& there = s.g.edge(l);
        const link& back = s.g.edge(there.reverse);
        EXPECT_EQ(back.reverse, l);
        EXPECT_NE(there.reverse, l);
        EXPECT_EQ(back.from, there.to);
        EXPECT_EQ(back.to, there.from);
        EXPECT_EQ(back.lane, there.lane);
    }
    EXPECT_EQ(s.g.edge(s.trunk).from, s.a);
    EXPECT_EQ(s.g.edge(s.trunk).reverse, s.trunk + 1);
}

TEST(Graph, KnowsHostsSwitchesAndUplinks) {
    const small s;
    EXPECT_EQ(std::vector(s.g.hosts().begin(), s.g.hosts().end()), (std::vector{s.x, s.y}));
    EXPECT_EQ(std::vector(s.g.switches().begin(), s.g.switches().end()), (std::vector{s.a, s.b}));
    EXPECT_EQ(s.g.switch_of(s.x), s.a);
    EXPECT_EQ(s.g.switch_of(s.y), s.b);
    EXPECT_EQ(s.g.edge(s.g.uplink(s.y)).from, s.y);
    EXPECT_EQ(s.g.find("b"), s.b);
    EXPECT_EQ(s.g.find("c"), none);
    EXPECT_EQ(s.g.at(s.x).server, "x") << "a server of its own, if none is named";
    EXPECT_TRUE(s.g.check().ok());
}

TEST(Graph, CountsPortsPerSwitchAndLanesPerPair) {
    graph g;
    const node_id a = g.add_switch("a", 1), b = g.add_switch("b", 1), c = g.add_switch("c", 1);
    const node_id h0 = g.add_host("h0"), h1 = g.add_host("h1"), h2 = g.add_host("h2");
    g.add_cable(h0, a, 1);
    g.add_cable(b, h1, 1);  // the other way round
    g.add_cable(h2, a, 1);
    EXPECT_EQ(g.at(h0).port, 0u);
    EXPECT_EQ(g.at(h1).port, 0u);
    EXPECT_EQ(g.at(h2).port, 1u);
    EXPECT_EQ(g.edge(g.add_cable(a, b, 1)).lane, 0u);
    EXPECT_EQ(g.edge(g.add_cable(b, a, 1)).lane, 1u) << "whichever end is named first";
    EXPECT_EQ(g.edge(g.add_cable(a, c, 1)).lane, 0u);
    EXPECT_EQ(g.edge(g.add_cable(a, b, 1)).lane, 2u);
}

TEST(Graph, KeepsADifferentCapacityForEachDirection) {
    small s;
    const link_id l = s.g.add_cable(s.a, s.b, 40, 10);
    EXPECT_EQ(s.g.edge(l).gbps, 40);
    EXPECT_EQ(s.g.edge(s.g.edge(l).reverse).gbps, 10);
}

TEST(Graph, NamesEachLinkSoThatItIsFoundAgain) {
    graph dashed;
    const node_id one = dashed.add_switch("pod-1-sw", 1), two = dashed.add_switch("pod", 1),
                  three = dashed.add_switch("1-sw-pod", 1), four = dashed.add_switch("slash/1", 1);
    dashed.add_cable(dashed.add_host("gpu-box-3/rail0"), one, 100);
    dashed.add_cable(dashed.add_host("gpu"), two, 100);
    dashed.add_cable(dashed.add_host("box-3/rail0-pod"), two, 100);
    dashed.add_cable(dashed.add_host("s"), three, 100);
    for (int lane = 0; lane < 12; ++lane) dashed.add_cable(one, two, 100);
    dashed.add_cable(two, three, 100);
    dashed.add_cable(one, three, 100);
    dashed.add_cable(one, four, 100);
    dashed.add_cable(four, two, 100);
    dashed.add_cable(four, two, 100);
    ASSERT_TRUE(dashed.check().ok()) << dashed.check().text();
    const std::vector<graph> all = {make_bigraph({4, 2, 1, 1}, 100),
                                    make_bigraph({2, 2, 3, 2}, 100),
                                    make_leaf_spine(3, 2, 2, 1, 100),
                                    make_leaf_spine(2, 2, 2, 4, 100),
                                    make_fat_tree(4, 100),
                                    make_single(5, 100),
                                    dashed};
    for (const graph& g : all) {
        std::set<std::string> names;
        for (link_id l = 0; l < g.links().size(); ++l) {
            const std::string name = g.text_of(l);
            EXPECT_TRUE(names.insert(name).second) << g.name << ": two links " << name;
            EXPECT_EQ(g.find_link(name), l) << g.name << ": " << name;
        }
    }
}

TEST(Graph, WritesALaneOnlyWhereThereAreSeveral) {
    const graph g = make_bigraph({2, 1, 2, 1}, 100), single = make_bigraph({2, 1, 1, 1}, 100);
    EXPECT_EQ(single.text_of(single.find_link("U0-L1")), "U0-L1");
    EXPECT_EQ(g.text_of(g.find_link("U0-L1")), "U0-L1/0");
    EXPECT_EQ(g.text_of(g.find_link("U0-L1/1")), "U0-L1/1");
    EXPECT_EQ(g.text_of(g.uplink(g.hosts()[0])), "U0p0-U0");
}

TEST(Graph, FindsNoLinkThatIsNotThere) {
    const graph g = make_bigraph({2, 1, 2, 1}, 100);
    for (const char* text : {"", "-", "U0", "U0-", "-U0", "U0-U1", "U0-L1/2", "U0-L1/", "U0-L1/x",
                             "U0-L1/99999999999", "U0-L2", "u0-L1", "U0-L1/0/0", "U0 -L1"})
        EXPECT_EQ(g.find_link(text), none) << '"' << text << '"';
}

TEST(Graph, TakesBothDirectionsOfACableDownAndUp) {
    small s;
    s.g.set_up(s.trunk, false);
    EXPECT_FALSE(s.g.edge(s.trunk).up);
    EXPECT_FALSE(s.g.edge(s.g.edge(s.trunk).reverse).up);
    EXPECT_TRUE(s.g.edge(s.g.uplink(s.x)).up);
    EXPECT_TRUE(s.g.check().ok()) << "a failure is no fault of the graph";
    s.g.set_up(s.g.edge(s.trunk).reverse, true);
    EXPECT_TRUE(s.g.edge(s.trunk).up);
    s.g.set_switch_up(s.a, false);
    EXPECT_FALSE(s.g.edge(s.trunk + 1).up);
    EXPECT_FALSE(s.g.edge(s.g.uplink(s.x)).up);
    EXPECT_TRUE(s.g.edge(s.g.uplink(s.y)).up);
    EXPECT_EQ(s.g.out(s.a).size(), 2u) << "links that are down stay in the graph";
}

TEST(Graph, KeepsWhatTheFieldSays) {
    small s;
    s.g.set_address(s.x, "10.0.0.1");
    s.g.set_link_address(s.trunk, "10.1.0.1");
    s.g.set_tier(s.a, 3);
    s.g.set_side(s.b, 1);
    EXPECT_EQ(s.g.at(s.x).address, "10.0.0.1");
    EXPECT_EQ(s.g.edge(s.trunk).to_address, "10.1.0.1");
    EXPECT_EQ(s.g.edge(s.trunk + 1).to_address, "");
    EXPECT_EQ(s.g.at(s.a).tier, 3);
    EXPECT_EQ(s.g.at(s.b).side, 1);
}

// ---------------------------------------------------------------- check

TEST(GraphCheck, NamesANodeWithoutName) {
    small s;
    s.g.add_switch("", 1);
    EXPECT_EQ(wrong(s.g), "node 4 has no name");
}

TEST(GraphCheck, NamesANameUsedTwice) {
    small s;
    s.g.add_cable(s.g.add_host("x"), s.a, 100);
    EXPECT_EQ(wrong(s.g), "two nodes are called x");
}

TEST(GraphCheck, NamesALinkWithoutCapacity) {
    for (const auto& [gbps, text] : {std::pair(0.0, "0"),
                                     {-25.0, "-25"},
                                     {std::nan(""), "nan"},
                                     {std::numeric_limits<double>::infinity(), "inf"}}) {
        small there, back;
        there.g.add_cable(there.a, there.b, gbps, 100);
        back.g.add_cable(back.a, back.b, 100, gbps);
        EXPECT_EQ(wrong(there.g), std::string("link a-b/1: a capacity of ") + text + " Gb/s");
        EXPECT_EQ(wrong(back.g), std::string("link b-a/1: a capacity of ") + text + " Gb/s");
    }
}

TEST(GraphCheck, NamesACableFromASwitchToItself) {
    small s;
    s.g.add_cable(s.a, s.a, 100);
    EXPECT_EQ(wrong(s.g), "a cable from a to itself");
}

TEST(GraphCheck, NamesAHostWithoutCable) {
    small s;
    s.g.add_host("z");
    EXPECT_EQ(wrong(s.g), "host z is connected to nothing");
}

TEST(GraphCheck, NamesAHostOnTwoPorts) {
    small s;
    s.g.add_cable(s.x, s.b, 100);
    EXPECT_EQ(wrong(s.g),
              "host x has 2 cables, to a and b: one NIC is one host, give each its own name and "
              "the same server");
}

TEST(GraphCheck, NamesTwoHostsWithACableBetweenThem) {
    graph g;
    const node_id x = g.add_host("x"), y = g.add_host("y");
    g.add_cable(x, y, 100);
    EXPECT_EQ(wrong(g), "host x is connected to host y, not to a switch");
}

TEST(GraphCheck, NamesPartsThatNoCableConnects) {
    graph g;
    const node_id a = g.add_switch("a", 1), b = g.add_switch("b", 1);
    g.add_cable(g.add_host("x"), a, 100);
    g.add_cable(g.add_host("y"), b, 100);
    EXPECT_EQ(wrong(g), "no cables lead from x to y");
}

TEST(GraphCheck, NamesASwitchThatNoCableReaches) {
    small s;
    s.g.add_switch("c", 2);
    EXPECT_EQ(wrong(s.g), "no cables lead from x to c");
}

TEST(GraphCheck, AsksForHosts) {
    graph g;
    g.add_switch("a", 1);
    EXPECT_EQ(wrong(g), "a fabric without hosts");
}

TEST(GraphCheck, AcceptsPlanesThatEachHaveANicOfEveryServer) {
    EXPECT_EQ(wrong(make_bigraph({2, 2, 1, 3}, 100)), "nothing");
    graph g;
    const node_id a = g.add_switch("a", 1), b = g.add_switch("b", 1);
    for (const char* server : {"s", "t"}) {
        g.add_cable(g.add_host(std::string(server) + "/0", server, 0), a, 100);
        g.add_cable(g.add_host(std::string(server) + "/1", server, 1), b, 100);
    }
    EXPECT_EQ(wrong(g), "nothing");
    g.add_cable(g.add_host("u/0", "u", 0), a, 100);
    EXPECT_EQ(wrong(g), "no cables lead from u/0 to s/1");
}

}  // namespace
}  // namespace ef::fabric
