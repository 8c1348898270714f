// Several NICs per server: each rail a plane of its own, or all rails on one fabric.
#include "allreduce/mapping/arrange.hpp"
#include "allreduce/mapping/hdrm.hpp"
#include "tests/allreduce/mapping/link_loads.hpp"

#include <gtest/gtest.h>

namespace ef::mapping {
namespace {

using fabric::make_bigraph;
using test::arrangement;
using test::expect_right_plans;
using test::is_permutation;
using test::loads;

// ---------------------------------------------------------------- rails

/// Rank 2 s + r on rail r of server s, servers in the order of the hosts of the first plane.
arrangement two_rails(const fabric::graph& g) {
    std::map<std::string, std::vector<uint32_t>> by_server;
    std::vector<std::string> servers;
    for (uint32_t h = 0; h < g.hosts().size(); ++h) {
        const fabric::node& n = g.at(g.hosts()[h]);
        if (n.rail == 0) servers.push_back(n.server);
        auto& rails = by_server[n.server];
        rails.resize(2);
        rails[n.rail] = h;
    }
    placement where;
    std::vector<int> host_of;
    for (size_t s = 0; s < servers.size(); ++s)
        for (const uint32_t h : by_server[servers[s]]) {
            where.push_back(h);
            host_of.push_back(int(s));
        }
    return arrangement(g, where, host_of);
}

/// One BiGraph for both rails: a server has HDRM's positions p and p + N/2.
fabric::graph shared_rails(const fabric::bigraph_shape& s) {
    fabric::graph g;
    g.name = "shared rails";
    g.bigraph = s;
    std::vector<fabric::node_id> switches;
    for (uint32_t i = 0; i < 2 * s.switches; ++i)
        switches.push_back(
            g.add_switch((i < s.switches ? "U" : "L") + std::to_string(i % s.switches), 1,
                         uint8_t(i / s.switches)));
    for (uint32_t i = 0; i < 2 * s.switches; ++i)
        for (uint32_t port = 0; port < s.hosts; ++port) {
            const uint32_t side = i / s.switches, sw = i % s.switches;
            const uint32_t p = hdrm_position({side, sw, port}, s.switches);
            const uint32_t half = s.endpoints() / 2;
            const fabric::node_id h =
                g.add_host(g.at(switches[i]).name + "p" + std::to_string(port),
                           "server" + std::to_string(p % half), p / half);
            g.add_cable(h, switches[i], 100);
        }
    for (uint32_t a = 0; a < s.switches; ++a)
        for (uint32_t b = 0; b < s.switches; ++b)
            for (uint32_t l = 0; l < s.lanes; ++l)
                g.add_cable(switches[a], switches[s.switches + b], 100);
    return g;
}

TEST(Rails, ThatArePlanesShareNoLinkInAnyPlan) {
    for (const fabric::bigraph_shape& s :
         {fabric::bigraph_shape{2, 2, 1, 2}, fabric::bigraph_shape{4, 8, 2, 2},
          fabric::bigraph_shape{3, 2, 1, 2}}) {
        const arrangement a = two_rails(make_bigraph(s, 100));
        for (const char* name :
             {"hierarchical:hdrm", "hierarchical:eulerian_ring", "hdrm", "eulerian_ring"}) {
            const loads l = a.load(name);
            EXPECT_TRUE(l.reachable()) << name << " " << text_of(s);
            EXPECT_EQ(l.most(), 1u) << name << " " << text_of(s);
        }
        expect_right_plans(a);
    }
}

TEST(Rails, ThatArePlanesHaveNoRingOfAnOddNumberOfServers) {
    arrangement a = two_rails(make_bigraph({2, 2, 1, 2}, 100));
    const arrangement odd(a.g, placement(a.where.begin(), a.where.end() - 2));
    EXPECT_TRUE(odd.maps.ring.empty());
    EXPECT_NE(odd.maps.ring_says.find("leave its plane"), std::string::npos);
    EXPECT_TRUE(is_permutation(odd.maps.server_ring, 7));
}

struct in_and_out_of_step {
    uint32_t in = 0, out = 0;  // flows on the fullest link
};

/// Of the rounds between servers; out of step, rail 1 is a round ahead.
in_and_out_of_step rails_of(const arrangement& a) {
    const test::rounds flows = a.flows("hierarchical:hdrm");
    const fabric::routes routes(a.g, {fabric::balance::by_destination, 1});
    in_and_out_of_step load;
    for (size_t t = 1; t + 1 < flows.size(); ++t) {
        load.in = std::max(load.in, test::load_of_round(flows[t], routes, a.where).most);
        std::vector<test::pair_flow> mixed;
        for (const size_t rail : {0, 1})
            for (const test::pair_flow& f : flows[t + rail])
                if (size_t(f.from) % 2 == rail) mixed.push_back(f);
        load.out = std::max(load.out, test::load_of_round(mixed, routes, a.where).most);
    }
    return load;
}

TEST(Rails, OfOneFabricShareNoLinkInStepAndTwoFlowsMeetOutOfStep) {
    for (const uint32_t s : {4u, 8u, 16u}) {
        const arrangement a = two_rails(shared_rails({s, s, 1, 1}));
        ASSERT_TRUE(a.g.check().ok()) << a.g.check().text();
        EXPECT_EQ(rails_of(a).in, 1u) << s;
        EXPECT_EQ(rails_of(a).out, 2u) << s;
    }
    // Here the lane rule gives each rail a lane of its own.
    const arrangement a = two_rails(shared_rails({4, 8, 2, 1}));
    EXPECT_EQ(rails_of(a).in, 1u);
    EXPECT_EQ(rails_of(a).out, 1u);
}

}  // namespace
}  // namespace ef::mapping
