#include "allreduce/mapping/place.hpp"

#include <gtest/gtest.h>

namespace ef::mapping {
namespace {

// sw has plain hosts "a" and "b.rack" (with an address), and a server "box" of two NICs.
fabric::graph small_fabric() {
    fabric::graph g;
    g.name = "small";
    const auto sw = g.add_switch("sw", 1);
    g.add_cable(g.add_host("a"), sw, 100);
    g.add_cable(g.add_host("b.rack"), sw, 100);
    g.add_cable(g.add_host("box-1", "box", 1), sw, 100);
    g.add_cable(g.add_host("box-0", "box", 0), sw, 100);
    return g;
}

TEST(Place, FindsAHostByItsNameWholeOrShortAndByHostId) {
    const rank_identity ranks[] = {{"b.rack", "x", "1.1.1.1"},
                                   {"a.cluster.example", "y", "1.1.1.2"},
                                   {"some-vm", "a", "1.1.1.3"}};
    const auto where = place(small_fabric(), ranks);
    ASSERT_TRUE(where.ok()) << where.why().text();
    EXPECT_EQ(*where, (placement{1, 0, 0}));
}

TEST(Place, GivesTheRanksOfAServerItsNicsInTurnByRail) {
    const rank_identity box{"box", "", ""};
    const rank_identity ranks[] = {box, {"a", "", ""}, box, box};
    const auto where = place(small_fabric(), ranks);
    ASSERT_TRUE(where.ok()) << where.why().text();
    EXPECT_EQ(*where, (placement{3, 0, 2, 3}));
}

TEST(Place, BelievesAnAddressBeforeAName) {
    const auto g = fabric::make_from_text("single:hosts=3");
    ASSERT_TRUE(g.ok());
    fabric::graph with = *g;
    with.set_address(with.hosts()[2], "10.0.0.7");
    const rank_identity ranks[] = {{"h0", "", "10.0.0.7"}, {"h0", "", "10.0.0.8"}};
    const auto where = place(with, ranks);
    ASSERT_TRUE(where.ok()) << where.why().text();
    EXPECT_EQ(*where, (placement{2, 0}));
}

TEST(Place, NamesTheFirstRankThatIsNowhereAndWhatThereIs) {
    const rank_identity ranks[] = {{"a", "", ""}, {"c", "id", "10.1.1.1"}};
    const auto where = place(small_fabric(), ranks);
    ASSERT_FALSE(where.ok());
    EXPECT_EQ(where.why().code(), EF_INVALID);
    EXPECT_EQ(where.why().text(),
              "rank 1 (host c, address 10.1.1.1) is on no host of fabric small, which has a, "
              "b.rack, box-1, box-0");
}

TEST(Place, TakesThePortOffAnAddress) {
    EXPECT_EQ(ip_of("10.0.0.1:4711"), "10.0.0.1");
    EXPECT_EQ(ip_of("[fe80::1]:80"), "fe80::1");
}

}  // namespace
}  // namespace ef::mapping
