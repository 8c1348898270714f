#include "perftests/common/histogram.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

namespace ef::perf {
namespace {

TEST(Histogram, KnowsNothingWhenEmpty) {
    const auto h = std::make_unique<histogram>();
    EXPECT_EQ(h->count(), 0u);
    EXPECT_EQ(h->min(), 0u);
    EXPECT_EQ(h->max(), 0u);
    EXPECT_EQ(h->percentile(50), 0);
}

TEST(Histogram, IsExactBelow128ns) {
    const auto h = std::make_unique<histogram>();
    for (uint64_t v = 1; v <= 100; ++v) h->add(v);
    EXPECT_EQ(h->percentile(50), 50);
    EXPECT_EQ(h->percentile(99), 99);
    EXPECT_EQ(h->percentile(100), 100);
    EXPECT_EQ(h->percentile(0), 1);
}

TEST(Histogram, HoldsTheSmallestAndTheLargestTimeThereIs) {
    const auto h = std::make_unique<histogram>();
    h->add(0);
    h->add(UINT64_MAX);
    EXPECT_EQ(h->min(), 0u);
    EXPECT_EQ(h->max(), UINT64_MAX);
    EXPECT_EQ(h->percentile(50), 0);
    EXPECT_NEAR(h->percentile(100) / double(UINT64_MAX), 1, 0.008);
}

TEST(Histogram, OneValueIsAllItsPercentiles) {
    for (uint64_t v : {127ull, 128ull, 129ull, 255ull, 256ull, 1'000'003ull, 1ull << 40}) {
        const auto h = std::make_unique<histogram>();
        h->add(v);
        EXPECT_EQ(h->percentile(1), double(v));
        EXPECT_EQ(h->percentile(99), double(v));
    }
}

TEST(Histogram, AgreesWithSortedSamplesToOnePercent) {
    const unsigned seed = 20240501;
    std::mt19937_64 random(seed);
    std::lognormal_distribution<double> times(10, 3);
    const auto h = std::make_unique<histogram>();
    std::vector<uint64_t> all;
    for (int i = 0; i < 100'000; ++i) {
        all.push_back(uint64_t(times(random)));
        h->add(all.back());
    }
    std::sort(all.begin(), all.end());
    for (double p : {0.1, 1.0, 10.0, 50.0, 90.0, 99.0, 99.9}) {
        const auto exact = double(all[size_t(std::ceil(p / 100 * double(all.size()))) - 1]);
        EXPECT_NEAR(h->percentile(p), exact, exact * 0.008 + 0.5) << p << " seed " << seed;
    }
    EXPECT_EQ(h->min(), all.front());
    EXPECT_EQ(h->max(), all.back());
}

TEST(Histogram, ForgetsWhenCleared) {
    const auto h = std::make_unique<histogram>();
    h->add(5);
    h->clear();
    EXPECT_EQ(h->count(), 0u);
    h->add(9);
    EXPECT_EQ(h->percentile(50), 9);
}

}  // namespace
}  // namespace ef::perf
