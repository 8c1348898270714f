// Names and addresses of a lab, without building one.
#include "tools/lab/address.hpp"

#include <gtest/gtest.h>
#include <net/if.h>

#include <set>

namespace ef::lab {
namespace {

using namespace fabric;

const char* const fabrics[] = {"single:hosts=5", "bigraph:S=2,H=3,L=2",
                               "bigraph:S=4,H=2,L=1,rails=2", "leafspine:leaves=4,hosts=4,spines=4",
                               "fattree:k=4"};

class AddressPlan : public testing::TestWithParam<const char*> {
protected:
    const graph g = *make_from_text(GetParam());
    const result<address_plan> plan = address_plan::make(g);
};

TEST_P(AddressPlan, GivesEachEndOfEachCableAnAddressOfItsOwn) {
    ASSERT_TRUE(plan.ok()) << plan.why().text();
    std::set<ipv4> all;
    for (link_id l = 0; l < g.links().size(); ++l) {
        EXPECT_TRUE(all.insert(plan->sender(l)).second) << g.text_of(l);
        // The two ends of a cable are the two addresses of a /31.
        EXPECT_EQ(plan->sender(l) ^ 1, plan->receiver(g, l)) << g.text_of(l);
    }
}

TEST_P(AddressPlan, PutsEachHostBehindItsSwitchAlone) {
    ASSERT_TRUE(plan.ok());
    for (const node_id h : g.hosts())
        for (const node_id s : g.switches())
            EXPECT_EQ(plan->host(g, h) >> 16 == plan->behind(s) >> 16, s == g.switch_of(h))
                << g.at(h).name << " " << g.at(s).name;
}

TEST_P(AddressPlan, FindsTheLinkThatEndsInAnAddress) {
    ASSERT_TRUE(plan.ok());
    for (link_id l = 0; l < g.links().size(); ++l)
        EXPECT_EQ(plan->link_into(plan->receiver(g, l)), l) << g.text_of(l);
    EXPECT_EQ(plan->link_into(0x01020304), none);
}

TEST_P(AddressPlan, GivesInterfacesNamesThatTheKernelTakesAndThatDifferWithinANode) {
    ASSERT_TRUE(plan.ok());
    for (node_id n = 0; n < g.nodes().size(); ++n) {
        std::set<std::string> names;
        std::set<int> numbers{1};  // of the loopback
        for (const link_id l : g.out(n)) {
            EXPECT_LT(plan->interface_of(l).size(), size_t(IFNAMSIZ));
            EXPECT_TRUE(names.insert(plan->interface_of(l)).second) << plan->interface_of(l);
            EXPECT_TRUE(numbers.insert(address_plan::index_of(l)).second);
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, AddressPlan, testing::ValuesIn(fabrics), [](const auto& p) {
    std::string name = p.param;
    for (char& c : name)
        if (!isalnum(static_cast<unsigned char>(c))) c = '_';
    return name;
});

TEST(AddressPlanNames, FallBackToNumbersWhereANameCannotBeAnInterface) {
    graph g;
    const node_id a = g.add_switch("all", 1), b = g.add_switch("a/switch with a long name", 1),
                  c = g.add_switch("x_1", 1), d = g.add_switch("x", 1);
    const node_id h = g.add_host("h0");
    g.add_cable(h, a, 100);
    const link_id odd = g.add_cable(a, b, 100);
    g.add_cable(a, c, 100);
    g.add_cable(a, d, 100);
    const link_id second = g.add_cable(a, d, 100);  // lane 1: "x_1", which is taken
    const result<address_plan> plan = address_plan::make(g);
    ASSERT_TRUE(plan.ok()) << plan.why().text();
    EXPECT_EQ(plan->interface_of(odd), "link" + std::to_string(odd));
    EXPECT_EQ(plan->interface_of(g.edge(odd).reverse),
              "link" + std::to_string(g.edge(odd).reverse));
    EXPECT_EQ(plan->interface_of(second), "link" + std::to_string(second));
    EXPECT_EQ(plan->interface_of(g.uplink(h)), "eth0");
}

TEST(AddressPlanNames, RefuseAFabricOfMoreSwitchesThanTheyCanNumber) {
    const graph g = make_leaf_spine(200, 1, 57, 1, 100);
    const result<address_plan> plan = address_plan::make(g);
    ASSERT_FALSE(plan.ok());
    EXPECT_NE(plan.why().text().find("257 switches, a lab can have 256"), std::string::npos)
        << plan.why().text();
}

TEST(NamespaceNames, AreOfOneLabAndOneNode) {
    graph g;
    const node_id s = g.add_switch("sw/0", 1), t = g.add_switch("sw_0", 1);
    EXPECT_EQ(namespace_of("lab", g, t), "eflab-lab-sw_0");
    EXPECT_NE(namespace_of("lab", g, s), namespace_of("lab", g, t));
    EXPECT_EQ(namespace_of("lab", g, s).find('/'), std::string::npos);
}

TEST(LabNames, AreLettersDigitsAndUnderscores) {
    EXPECT_TRUE(check_name("lab_1").ok());
    for (const char* bad : {"", "a-b", "a/b", "..", "a b", "123456789012345678901234567890123"})
        EXPECT_FALSE(check_name(bad).ok()) << bad;
}

}  // namespace
}  // namespace ef::lab
