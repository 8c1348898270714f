// same_graph: two graphs alike in everything that a reader of them can see.
#pragma once

#include "affinity/fabric/graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace ef::fabric {

inline void expect_same(const graph& a, const graph& b) {
    EXPECT_EQ(a.name, b.name);
    ASSERT_EQ(a.bigraph.has_value(), b.bigraph.has_value());
    if (a.bigraph) {
        EXPECT_EQ(a.bigraph->switches, b.bigraph->switches);
        EXPECT_EQ(a.bigraph->hosts, b.bigraph->hosts);
        EXPECT_EQ(a.bigraph->lanes, b.bigraph->lanes);
        EXPECT_EQ(a.bigraph->rails, b.bigraph->rails);
    }
    ASSERT_EQ(a.nodes().size(), b.nodes().size());
    for (node_id n = 0; n < a.nodes().size(); ++n) {
        const node &x = a.at(n), &y = b.at(n);
        EXPECT_EQ(x.name, y.name);
        EXPECT_EQ(x.kind, y.kind) << x.name;
        EXPECT_EQ(x.tier, y.tier) << x.name;
        EXPECT_EQ(x.side, y.side) << x.name;
        EXPECT_EQ(x.server, y.server) << x.name;
        EXPECT_EQ(x.address, y.address) << x.name;
        EXPECT_EQ(x.rail, y.rail) << x.name;
        EXPECT_EQ(x.port, y.port) << x.name;
        EXPECT_TRUE(std::ranges::equal(a.out(n), b.out(n))) << x.name;
    }
    EXPECT_TRUE(std::ranges::equal(a.hosts(), b.hosts()));
    EXPECT_TRUE(std::ranges::equal(a.switches(), b.switches()));
    ASSERT_EQ(a.links().size(), b.links().size());
    for (link_id l = 0; l < a.links().size(); ++l) {
        const link &x = a.edge(l), &y = b.edge(l);
        EXPECT_EQ(x.from, y.from) << l;
        EXPECT_EQ(x.to, y.to) << l;
        EXPECT_EQ(x.lane, y.lane) << l;
        EXPECT_EQ(x.gbps, y.gbps) << l;
        EXPECT_EQ(x.up, y.up) << l;
        EXPECT_EQ(x.reverse, y.reverse) << l;
        EXPECT_EQ(x.to_address, y.to_address) << l;
    }
}

}  // namespace ef::fabric
