// Prices of all candidates: formulas on one switch, named links where they are shared, reasons where
// nothing is priced.
#include "allreduce/cost/fabric_price.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace ef::cost {
namespace {

using fabric::balance;
using fabric::graph;
using fabric::routes;

struct job {
    graph g;
    mapping::placement where;
    rank_maps maps;
    std::vector<int> host_of;
    explicit job(graph net) : g(std::move(net)), where(g.hosts().size()) {
        std::iota(where.begin(), where.end(), 0);
        maps = mapping::make_maps(g, where);
    }
    plan_request request() const {
        plan_request r;
        r.nranks = rank_t(where.size());
        r.maps = &maps;
        r.host_of = host_of;
        return r;
    }
    std::vector<fabric_candidate> price(uint64_t bytes, const simulation_options& o = {}) const {
        const routes r(g, {balance::by_destination, 1});
        return price_on_fabric(request(), r, where, bytes, o);
    }
};

const fabric_candidate& named(const std::vector<fabric_candidate>& all, std::string_view name) {
    for (const fabric_candidate& c : all)
        if (c.algo->name == name) return c;
    ADD_FAILURE() << "no candidate " << name;
    return all.front();
}

TEST(FabricPrice, OnOneSwitchIsTheFormulaOfEachAlgorithm) {
    const job j(fabric::make_single(8, 100));
    const double alpha = 5, t = 100;  // of 1,250,000 bytes over one link
    const auto all = j.price(1'250'000);
    ASSERT_EQ(all.size(), algorithms().size());
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].algo, &algorithms()[i]);
    const auto expect = [&](const char* name, uint32_t rounds, double us, double load,
                            double vectors) {
        const fabric_candidate& c = named(all, name);
        EXPECT_EQ(c.refused, nullptr) << name;
        EXPECT_EQ(c.rounds, rounds) << name;
        EXPECT_NEAR(c.us, us, 1e-6 * us) << name;
        EXPECT_EQ(c.worst_load, load) << name;
        EXPECT_NEAR(c.bytes_per_rank, vectors, 1e-9) << name;
        EXPECT_NE(c.worst_link, fabric::none) << name;
    };
    const double most = 2 * 7.0 / 8;
    expect("ring", 14, 14 * alpha + most * t, 1, most);
    expect("halving_doubling", 6, 6 * alpha + most * t, 1, most);
    expect("halving_doubling:far", 6, 6 * alpha + most * t, 1, most);
    expect("doubling", 3, 3 * alpha + 3 * t, 1, 3);
    expect("pairwise", 2, 2 * 7 * alpha + most * t, 7, most);  // an alpha for each message
    expect("tree", 6, 6 * alpha + 6 * t, 1, 3);  // the root sends to three
    EXPECT_EQ(cheapest(all)->algo->name, "hdrm");  // the first of equals
}

TEST(FabricPrice, ReadsOnceForAllSizes) {
    const job j(fabric::make_single(4, 100));
    const routes r(j.g, {});
    simulation_options o;
    o.gamma_ns_per_byte = 0.1;
    const auto readings = read_on_fabric(j.request(), r, j.where);
    for (const uint64_t bytes : {uint64_t(8), uint64_t(12'500), uint64_t(1) << 30}) {
        const auto all = price_on_fabric(readings, bytes, o);
        const double b = double(bytes);
        // Gamma for the half that reduces, 3/4 of the vector.
        EXPECT_NEAR(named(all, "ring").us, 6 * 5 + 1.5 * b / 12'500 + 0.75 * b * 1e-4,
                    1e-9 * b + 1e-9);
        const auto once = j.price(bytes, o);
        for (size_t i = 0; i < all.size(); ++i) {
            EXPECT_EQ(all[i].us, once[i].us);
            EXPECT_EQ(all[i].refused, once[i].refused);
        }
    }
    // Direct sends the whole vector to three and is for short ones.
    EXPECT_NEAR(named(price_on_fabric(readings, 12'500, {}), "direct").us, 3 * 5 + 3, 1e-9);
    EXPECT_STREQ(named(price_on_fabric(readings, 16'385, {}), "direct").refused,
                 "copies every message: for short vectors");
    EXPECT_EQ(named(price_on_fabric(readings, 16'384, {}), "direct").refused, nullptr);
}

TEST(FabricPrice, NamesTheFullestLinkAndTakesTheMapOverTheBlockOrder) {
    const job j(fabric::make_bigraph({4, 4, 1, 1}, 100));
    const auto all = j.price(1'250'000);
    const fabric_candidate& far = named(all, "halving_doubling:far");
    EXPECT_EQ(far.worst_load, 4);
    EXPECT_EQ(j.g.text_of(far.worst_link), "U0-L0");
    const fabric_candidate& hdrm = named(all, "hdrm");
    EXPECT_EQ(hdrm.worst_load, 1);
    EXPECT_NEAR(hdrm.us, 10 * 5 + 2 * 31.0 / 32 * 100, 1e-6);
    EXPECT_EQ(named(all, "eulerian_ring").worst_load, 1);
    EXPECT_EQ(cheapest(all), &hdrm);
}

TEST(FabricPrice, CountsOnTheFabricOnlyWhatLeavesAServer) {
    // Four servers of two ranks that share a NIC.
    job j(fabric::make_single(4, 100));
    j.where = {0, 0, 1, 1, 2, 2, 3, 3};
    j.host_of = {0, 0, 1, 1, 2, 2, 3, 3};
    j.maps = mapping::make_maps(j.g, j.where, j.host_of);
    const auto all = j.price(1'250'000);
    // Each rank has half the vector between four servers: 3/4 of it both ways.
    const fabric_candidate& c = named(all, "hierarchical:ring");
    ASSERT_EQ(c.refused, nullptr);
    EXPECT_NEAR(c.bytes_per_rank, 0.75, 1e-9);
    EXPECT_EQ(c.worst_load, 2);  // both ranks of a server at once
    EXPECT_EQ(named(all, "halving_doubling").worst_load, 2);
}

TEST(FabricPrice, SaysWhyItDoesNotPrice) {
    job j(fabric::make_single(6, 100));
    EXPECT_STREQ(named(j.price(1000), "hierarchical:ring").refused,
                 "does not serve this collective on these ranks");
    j.g.set_up(j.g.uplink(j.g.hosts()[5]), false);
    for (const fabric_candidate& c : j.price(1000)) {
        ASSERT_NE(c.refused, nullptr) << c.algo->name;
        EXPECT_TRUE(std::isinf(c.us));
    }
    EXPECT_STREQ(named(j.price(1000), "ring").refused,
                 "a rank cannot reach another that it sends to");
    EXPECT_EQ(cheapest(j.price(1000)), nullptr);
}

TEST(FabricPrice, RefusesAtThousandsOfRanksWhatWouldTakeMinutes) {
    const job j(fabric::make_bigraph({64, 64, 1, 1}, 100));
    const routes r(j.g, {balance::by_destination, 1});
    for (const char* name : {"direct", "pairwise"})
        EXPECT_STREQ(read_on_fabric(*find_algorithm(name), j.request(), r, j.where).refused,
                     "everyone sends to everyone: more flows than can be laid in a second");
    const fabric_reading ring = read_on_fabric(*find_algorithm("ring"), j.request(), r, j.where);
    EXPECT_EQ(ring.refused, nullptr);
    EXPECT_EQ(ring.steps.rounds, 2 * 8191u);
    const fabric_reading hdrm = read_on_fabric(*find_algorithm("hdrm"), j.request(), r, j.where);
    EXPECT_EQ(hdrm.steps.worst_load, 1);
    EXPECT_EQ(hdrm.steps.rounds, 26u);
}

}  // namespace
}  // namespace ef::cost
