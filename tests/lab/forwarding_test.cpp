// Next hops of the switches, held against distances that are computed by the dullest means.
#include "tools/lab/forwarding.hpp"

#include <gtest/gtest.h>

namespace ef::lab {
namespace {

using namespace fabric;

/// Bellman and Ford: links between switches, until nothing changes.
std::vector<std::vector<uint32_t>> dull_distances(const graph& g) {
    const size_t n = g.nodes().size();
    std::vector<std::vector<uint32_t>> far(n, std::vector<uint32_t>(n, none));
    for (node_id s = 0; s < n; ++s) far[s][s] = 0;
    for (bool changed = true; changed;) {
        changed = false;
        for (const fabric::link& e : g.links()) {
            if (!e.up || g.at(e.from).kind == node_kind::host || g.at(e.to).kind == node_kind::host)
                continue;
            for (node_id to = 0; to < n; ++to)
                if (far[e.to][to] != none && far[e.to][to] + 1 < far[e.from][to]) {
                    far[e.from][to] = far[e.to][to] + 1;
                    changed = true;
                }
        }
    }
    return far;
}

/// Every next hop is one link nearer, and no link that is one nearer is missing.
void expect_shortest(const graph& g) {
    const auto far = dull_distances(g);
    const std::vector<forwarding_table> tables = forwarding_of(g);
    ASSERT_EQ(tables.size(), g.nodes().size());
    for (const node_id s : g.switches())
        for (const node_id h : g.hosts()) {
            const node_id to = g.switch_of(h);
            if (s == to) continue;
            std::vector<link_id> wanted;
            for (const link_id l : g.out(s)) {
                const fabric::link& e = g.edge(l);
                if (e.up && g.at(e.to).kind == node_kind::network_switch && far[s][to] != none &&
                    far[e.to][to] + 1 == far[s][to])
                    wanted.push_back(l);
            }
            const auto found = tables[s].find(to);
            ASSERT_NE(found, tables[s].end());
            EXPECT_EQ(found->second, wanted) << g.at(s).name << " to " << g.at(to).name;
        }
}

class Forwarding : public testing::TestWithParam<const char*> {
protected:
    graph g = *make_from_text(GetParam());
};

TEST_P(Forwarding, TakesAllNextHopsOnShortestPathsAndNoOthers) { expect_shortest(g); }

TEST_P(Forwarding, GoesAroundAnySingleCableThatIsDown) {
    for (link_id l = 0; l < g.links().size(); l += 2) {
        g.set_up(l, false);
        SCOPED_TRACE(g.text_of(l));
        expect_shortest(g);
        g.set_up(l, true);
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, Forwarding,
                         testing::Values("single:hosts=4", "bigraph:S=2,H=2,L=2",
                                         "bigraph:S=4,H=2,L=1",
                                         "leafspine:leaves=4,hosts=2,spines=3", "fattree:k=4"),
                         [](const auto& p) {
                             std::string name = p.param;
                             for (char& c : name)
                                 if (!isalnum(static_cast<unsigned char>(c))) c = '_';
                             return name;
                         });

TEST(Forwarding, HasOneNextHopPerLane) {
    const graph g = make_bigraph({2, 2, 3, 1}, 100);
    const auto tables = forwarding_of(g);
    EXPECT_EQ(tables[g.find("U0")].at(g.find("L1")).size(), 3u);
    EXPECT_EQ(tables[g.find("U0")].at(g.find("U1")).size(), 6u);
}

TEST(Forwarding, HasNoNextHopToWhatCannotBeReached) {
    graph g = make_leaf_spine(2, 1, 1, 1, 100);
    const node_id spine = g.find("spine0"), leaf = g.find("leaf0");
    for (const link_id l : g.out(spine)) g.set_up(l, false);
    EXPECT_TRUE(forwarding_of(g)[leaf].at(g.find("leaf1")).empty());
}

}  // namespace
}  // namespace ef::lab
