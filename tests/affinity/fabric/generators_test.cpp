// The generators: how many of what, who is connected to whom, in which order, and what the one-word
// form of a fabric accepts.
#include "affinity/fabric/graph.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace ef::fabric {
namespace {

bool is_switch(const graph& g, node_id n) { return g.at(n).kind == node_kind::network_switch; }

size_t hosts_at(const graph& g, node_id sw) {
    const auto out = g.out(sw);
    return size_t(std::count_if(out.begin(), out.end(),
                                [&](link_id l) { return !is_switch(g, g.edge(l).to); }));
}

/// Links from each switch to each other switch.
std::map<std::pair<std::string, std::string>, uint32_t> trunks(const graph& g) {
    std::map<std::pair<std::string, std::string>, uint32_t> count;
    for (const link& e : g.links())
        if (is_switch(g, e.from) && is_switch(g, e.to))
            ++count[{g.at(e.from).name, g.at(e.to).name}];
    return count;
}

std::vector<std::string> host_names(const graph& g) {
    std::vector<std::string> names;
    for (node_id h : g.hosts()) names.push_back(g.at(h).name);
    return names;
}

/// Ports are 0, 1, .. on each switch in the order of hosts, and every link has this capacity.
void expect_sound(const graph& g, double gbps) {
    EXPECT_TRUE(g.check().ok()) << g.name << ": " << g.check().text();
    std::map<node_id, uint32_t> next;
    for (node_id h : g.hosts()) {
        ASSERT_EQ(g.out(h).size(), 1u);
        EXPECT_EQ(g.at(h).port, next[g.switch_of(h)]++) << g.at(h).name;
        EXPECT_EQ(g.at(h).tier, 0);
    }
    for (const link& e : g.links()) {
        EXPECT_EQ(e.gbps, gbps);
        EXPECT_TRUE(e.up);
    }
}

// ---------------------------------------------------------------- BiGraph

TEST(MakeBigraph, LinksEverySwitchOfOneSideToEveryOneOfTheOtherOverAllLanes) {
    for (const auto& [S, H, L] : {std::tuple(1u, 1u, 1u),
                                  {1u, 4u, 2u},
                                  {2u, 3u, 1u},
                                  {4u, 2u, 1u},
                                  {3u, 5u, 4u},
                                  {8u, 8u, 2u}}) {
        const graph g = make_bigraph({S, H, L, 1}, 25);
        expect_sound(g, 25);
        EXPECT_EQ(g.hosts().size(), 2 * S * H);
        EXPECT_EQ(g.hosts().size(), g.bigraph->endpoints());
        EXPECT_EQ(g.switches().size(), 2 * S);
        EXPECT_EQ(g.links().size(), 2 * (2 * S * H + S * S * L));
        for (node_id sw : g.switches()) {
            EXPECT_EQ(hosts_at(g, sw), H);
            EXPECT_EQ(g.out(sw).size(), H + S * L);
            EXPECT_EQ(g.at(sw).tier, 1);
        }
        EXPECT_EQ(trunks(g).size(), 2 * S * S);
        for (const auto& [pair, lanes] : trunks(g)) {
            EXPECT_EQ(lanes, L);
            EXPECT_NE(pair.first[0], pair.second[0]) << "both on one side";
            EXPECT_EQ(g.at(g.find(pair.first)).side, pair.first[0] == 'U' ? 0 : 1);
        }
    }
}

TEST(MakeBigraph, OrdersHostsBySideSwitchAndPort) {
    const graph g = make_bigraph({2, 2, 1, 1}, 100);
    EXPECT_EQ(g.name, "bigraph S=2 H=2 L=1");
    EXPECT_EQ(host_names(g), (std::vector<std::string>{"U0p0", "U0p1", "U1p0", "U1p1", "L0p0",
                                                       "L0p1", "L1p0", "L1p1"}));
    EXPECT_EQ(g.at(g.switch_of(g.find("L1p0"))).name, "L1");
}

TEST(MakeBigraph, MakesEachRailAPlaneOfItsOwn) {
    const graph g = make_bigraph({2, 3, 2, 4}, 100);
    expect_sound(g, 100);
    EXPECT_EQ(g.name, "bigraph S=2 H=3 L=2 rails=4");
    EXPECT_EQ(g.hosts().size(), 4u * 12);
    EXPECT_EQ(g.switches().size(), 4u * 4);
    std::map<std::string, std::set<uint32_t>> rails;
    for (node_id h : g.hosts()) {
        const node& v = g.at(h);
        const std::string plane = "r" + std::to_string(v.rail);
        EXPECT_EQ(v.name, plane + v.server);
        EXPECT_EQ(g.at(g.switch_of(h)).name.substr(0, 2), plane);
        rails[v.server].insert(v.rail);
    }
    EXPECT_EQ(rails.size(), 12u);
    for (const auto& [server, of] : rails) EXPECT_EQ(of.size(), 4u) << server;
    for (const auto& [pair, lanes] : trunks(g)) {
        EXPECT_EQ(pair.first.substr(0, 2), pair.second.substr(0, 2)) << "a cable joins two planes";
        EXPECT_EQ(lanes, 2u);
    }
}

// ---------------------------------------------------------------- leaf-spine

TEST(MakeLeafSpine, LinksEveryLeafToEverySpine) {
    for (const auto& [leaves, hosts, spines, lanes] :
         {std::tuple(1u, 1u, 1u, 1u), {4u, 4u, 4u, 1u}, {3u, 8u, 2u, 4u}, {5u, 1u, 7u, 1u}}) {
        const graph g = make_leaf_spine(leaves, hosts, spines, lanes, 10);
        expect_sound(g, 10);
        EXPECT_FALSE(g.bigraph);
        EXPECT_EQ(g.hosts().size(), leaves * hosts);
        EXPECT_EQ(g.switches().size(), leaves + spines);
        EXPECT_EQ(trunks(g).size(), 2 * leaves * spines);
        for (const auto& [pair, count] : trunks(g)) EXPECT_EQ(count, lanes);
        for (uint32_t i = 0; i < leaves; ++i) {
            const node_id leaf = g.find("leaf" + std::to_string(i));
            ASSERT_NE(leaf, none);
            EXPECT_EQ(hosts_at(g, leaf), hosts);
            EXPECT_EQ(g.at(leaf).tier, 1);
            EXPECT_EQ(g.switch_of(g.hosts()[i * hosts]), leaf) << "hosts are not leaf by leaf";
        }
        for (uint32_t i = 0; i < spines; ++i) {
            const node_id spine = g.find("spine" + std::to_string(i));
            ASSERT_NE(spine, none);
            EXPECT_EQ(hosts_at(g, spine), 0u);
            EXPECT_EQ(g.out(spine).size(), leaves * lanes);
            EXPECT_EQ(g.at(spine).tier, 2);
        }
    }
}

TEST(MakeLeafSpine, GivesSpinesTheirOwnCapacity) {
    const graph g = make_leaf_spine(2, 2, 2, 1, 25, 100);
    for (link_id l = 0; l < g.links().size(); ++l) {
        const link& e = g.edge(l);
        EXPECT_EQ(e.gbps, is_switch(g, e.from) && is_switch(g, e.to) ? 100 : 25) << g.text_of(l);
    }
}

// ---------------------------------------------------------------- fat tree

TEST(MakeFatTree, IsThatOfAlFares) {
    for (uint32_t k : {2u, 4u, 6u, 8u}) {
        const graph g = make_fat_tree(k, 100);
        expect_sound(g, 100);
        EXPECT_EQ(g.hosts().size(), k * k * k / 4);
        EXPECT_EQ(g.switches().size(), k * k + k * k / 4);
        EXPECT_EQ(g.links().size(), 2 * 3 * (k * k * k / 4)) << "as many cables on each level";
        std::map<uint8_t, uint32_t> tiers;
        for (node_id sw : g.switches()) {
            EXPECT_EQ(g.out(sw).size(), k) << g.at(sw).name << " is no k-port switch";
            EXPECT_EQ(hosts_at(g, sw), g.at(sw).tier == 1 ? k / 2 : 0);
            ++tiers[g.at(sw).tier];
        }
        EXPECT_EQ(tiers,
                  (std::map<uint8_t, uint32_t>{{1, k * k / 2}, {2, k * k / 2}, {3, k * k / 4}}));
        // Every core switch has one link to every pod.
        for (uint32_t i = 0; i < k * k / 4; ++i) {
            std::set<std::string> pods;
            for (link_id l : g.out(g.find("c" + std::to_string(i)))) {
                const std::string& name = g.at(g.edge(l).to).name;
                EXPECT_NE(name.find('a'), std::string::npos);
                pods.insert(name.substr(0, name.find('a')));
            }
            EXPECT_EQ(pods.size(), k);
        }
    }
}

TEST(MakeFatTree, LinksEdgeSwitchesWithinTheirPodOnly) {
    const graph g = make_fat_tree(6, 100);
    for (const auto& [pair, lanes] : trunks(g)) {
        EXPECT_EQ(lanes, 1u);
        const auto& [a, b] = pair;
        const bool within = a[0] == 'p' && b[0] == 'p';
        EXPECT_TRUE(!within || a.substr(0, 2) == b.substr(0, 2)) << a << ", " << b;
    }
    EXPECT_EQ(g.at(g.switch_of(g.find("p5e2h1"))).name, "p5e2");
}

TEST(MakeSingle, HangsAllHostsOffOneSwitch) {
    const graph g = make_single(16, 100);
    expect_sound(g, 100);
    EXPECT_EQ(g.hosts().size(), 16u);
    EXPECT_EQ(hosts_at(g, g.find("sw0")), 16u);
    EXPECT_EQ(g.links().size(), 32u);
    EXPECT_EQ(g.at(g.hosts()[7]).name, "h7");
}

// ---------------------------------------------------------------- text

TEST(MakeFromText, MakesWhatTheGeneratorsMake) {
    const auto same = [](std::string_view text, const graph& want) {
        const result<graph> got = make_from_text(text);
        ASSERT_TRUE(got.ok()) << got.why().text();
        EXPECT_EQ(got->name, want.name);
        EXPECT_EQ(host_names(*got), host_names(want));
        ASSERT_EQ(got->links().size(), want.links().size());
        for (link_id l = 0; l < want.links().size(); ++l) {
            EXPECT_EQ(got->text_of(l), want.text_of(l));
            EXPECT_EQ(got->edge(l).gbps, want.edge(l).gbps);
        }
    };
    same("bigraph:S=4,H=2,L=3,rails=2,gbps=12.5", make_bigraph({4, 2, 3, 2}, 12.5));
    same("bigraph:gbps=1,H=2,S=3", make_bigraph({3, 2, 1, 1}, 1));
    same("bigraph", make_bigraph({1, 1, 1, 1}, 100));
    same("bigraph:", make_bigraph({1, 1, 1, 1}, 100));
    same("leafspine:leaves=4,hosts=3,spines=2,gbps=25", make_leaf_spine(4, 3, 2, 1, 25));
    same("leafspine:leaves=2,spines=2,lanes=2,spine_gbps=400",
         make_leaf_spine(2, 1, 2, 2, 100, 400));
    same("fattree:k=4", make_fat_tree(4, 100));
    same("single:hosts=16", make_single(16, 100));
}

TEST(MakeFromText, SaysWhatIsWrongAndWhatIsAccepted) {
    const auto expect = [](std::string_view text, std::initializer_list<std::string_view> words) {
        const result<graph> g = make_from_text(text);
        ASSERT_FALSE(g.ok()) << text;
        EXPECT_EQ(g.why().code(), EF_INVALID);
        for (std::string_view word : words)
            EXPECT_NE(g.why().text().find(word), std::string_view::npos)
                << "no \"" << word << "\" in: " << g.why().text();
        EXPECT_EQ(g.why().text().find('\n'), std::string_view::npos);
    };
    expect("", {"bigraph, leafspine, fattree, single"});
    expect("torus:k=3", {"torus:k=3", "bigraph, leafspine, fattree, single"});
    expect("Bigraph:S=2", {"bigraph, leafspine, fattree, single"});
    expect("bigraph:S=4,spines=2", {"\"spines=2\" is not known", "S=", "H=", "L=", "rails="});
    expect("bigraph:S", {"\"S\" is not known"});
    expect("bigraph:S=4,,H=2", {"\"\" is not known"});
    expect("bigraph:S=4,H=2,", {"ends with a comma"});
    expect("bigraph:S=4,H=2,S=8", {"S is given twice"});
    for (const char* bad : {"0", "-4", "x", "", "4x", " 4", "4.5", "1e99", "nan", "inf", "2000000"})
        expect(std::string("bigraph:S=") + bad,
               {std::string("S=") + bad + " is not a whole number up to 1048576"});
    for (const char* bad : {"0", "-1", "fast", "", "nan", "inf", "100Gb"})
        expect(std::string("single:hosts=2,gbps=") + bad,
               {std::string("gbps=") + bad + " is not a number above 0"});
    expect("fattree:k=5", {"k=5 is odd"});
    expect("bigraph:S=1048576,H=1048576", {"hosts", "at most 1048576"});
    expect("bigraph:S=16384", {"cables", "at most"});
    expect("bigraph:S=1,H=1,L=1048576,rails=1000", {"cables"});
    expect("leafspine:leaves=100000,hosts=100", {"hosts"});
    expect("leafspine:leaves=10000,spines=10000", {"cables"});
    expect("fattree:k=1048576", {"hosts"});
}

}  // namespace
}  // namespace ef::fabric
