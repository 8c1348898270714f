#include "allreduce/mapping/units.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

namespace ef::mapping {
namespace {

using fabric::graph;

placement everywhere(const graph& g) {
    placement where(g.hosts().size());
    std::iota(where.begin(), where.end(), 0);
    return where;
}

std::string line_of(const graph& g, const placement& where) {
    std::string all;
    for (const station& s : in_a_line(g, stations_of(g, units_of(g, where, {}))))
        all += (all.empty() ? "" : " ") + g.at(s.at).name;
    return all;
}

TEST(Line, GoesToAndFroBetweenTheSidesOfABiGraph) {
    const graph g = fabric::make_bigraph({3, 1, 1, 1}, 100);
    EXPECT_EQ(line_of(g, everywhere(g)), "U0 L0 U1 L1 U2 L2");
    // U0, U1, U2 and L1: what has no partner left follows its own side.
    EXPECT_EQ(line_of(g, {2, 0, 4, 1}), "U0 L1 U1 U2");
}

TEST(Line, KeepsThePodsOfAFatTreeTogetherInWhateverOrderItWasDescribed) {
    graph g;
    std::vector<fabric::node_id> edges, middles;
    for (const char* name : {"a0", "b0", "c0", "a1", "b1", "c1"})
        edges.push_back(g.add_switch(name, 1));
    for (const char* name : {"a", "b", "c"}) middles.push_back(g.add_switch(name, 2));
    const fabric::node_id top = g.add_switch("top", 3);
    for (size_t i = 0; i < 6; ++i) {
        g.add_cable(g.add_host("h" + std::to_string(i)), edges[i], 100);
        g.add_cable(edges[i], middles[i % 3], 100);
    }
    for (const fabric::node_id m : middles) g.add_cable(m, top, 100);
    EXPECT_EQ(line_of(g, everywhere(g)), "a0 a1 b0 b1 c0 c1");
}

TEST(Line, GoesOnInAPartThatCannotBeReached) {
    graph g;
    for (const char* name : {"x", "y", "z"})
        g.add_cable(g.add_host(std::string("h") + name), g.add_switch(name, 1), 100);
    EXPECT_EQ(line_of(g, everywhere(g)), "x y z");
}

TEST(Units, AreTheServersOfTheGraphInTheOrderInWhichRanksNameThem) {
    graph g;
    const fabric::node_id sw = g.add_switch("sw", 1);
    for (const char* server : {"a", "b"})
        for (uint32_t rail : {1u, 0u})
            g.add_cable(g.add_host(server + std::to_string(rail), server, rail), sw, 100);
    // Hosts are a1 a0 b1 b0. Ranks: on b1, a1, b0, b0, a0.
    const std::vector<unit> units = units_of(g, {2, 0, 3, 3, 1}, {});
    ASSERT_EQ(units.size(), 2u);
    EXPECT_EQ(units[0].members, (std::vector<rank_t>{2, 3, 0}));  // rail 0 first
    EXPECT_EQ(units[1].members, (std::vector<rank_t>{4, 1}));
    EXPECT_EQ(g.at(units[0].host).name, "b0");
    EXPECT_EQ(units[0].at, sw);
    const std::vector<int> own = {1, 0, 1, 1, 0};
    EXPECT_EQ(units_of(g, {2, 0, 3, 3, 1}, own)[1].members, (std::vector<rank_t>{2, 3, 0}));
}

}  // namespace
}  // namespace ef::mapping
