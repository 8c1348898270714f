#include "perftests/common/stats.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace ef::perf {
namespace {

TEST(RunningMean, AgreesWithTwoPasses) {
    const double x[] = {1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16};
    running_mean m;
    for (double v : x) m.add(v);
    EXPECT_DOUBLE_EQ(m.mean(), 1e9 + 10);
    EXPECT_DOUBLE_EQ(m.variance(), 30);
}

TEST(StudentT, MatchesPublishedQuantiles) {
    EXPECT_NEAR(student_t975(1), 12.706, 0.001);
    EXPECT_NEAR(student_t975(7), 2.365, 0.001);
    EXPECT_NEAR(student_t975(20), 2.086, 0.001);
    EXPECT_NEAR(student_t975(21), 2.080, 0.001);
    EXPECT_NEAR(student_t975(30), 2.042, 0.001);
    EXPECT_NEAR(student_t975(120), 1.980, 0.001);
    EXPECT_NEAR(student_t975(1'000'000), 1.960, 0.001);
    EXPECT_TRUE(std::isinf(student_t975(0)));
}

TEST(StopRule, NeedsEnoughWindowsEvenIfTheyAreAllEqual) {
    stop_rule r(1, 8);
    for (int i = 0; i < 7; ++i) {
        r.add(5);
        EXPECT_FALSE(r.settled());
    }
    r.add(5);
    EXPECT_TRUE(r.settled());
    EXPECT_EQ(r.half_width_percent(), 0);
}

TEST(StopRule, GivesTheHalfWidthOfTheTextbook) {
    // Mean 10, deviation of the sample 1 over n = 4: 3.182 * 1 / 2 = 1.591, of 10.
    stop_rule r(2, 2);
    for (double x : {9.0, 11.0, 10 - std::sqrt(0.5), 10 + std::sqrt(0.5)}) r.add(x);
    EXPECT_NEAR(r.half_width_percent(), 15.91, 0.01);
    EXPECT_FALSE(r.settled());
}

TEST(StopRule, CoversTheTrueMeanAboutNineteenTimesOfTwenty) {
    const unsigned seed = 7;
    std::mt19937 random(seed);
    std::normal_distribution<double> x(100, 10);
    int covered = 0;
    for (int trial = 0; trial < 2000; ++trial) {
        stop_rule r(1);
        running_mean m;
        for (int i = 0; i < 10; ++i) {
            const double v = x(random);
            r.add(v);
            m.add(v);
        }
        covered += std::abs(m.mean() - 100) <= r.half_width_percent() / 100 * m.mean();
    }
    EXPECT_NEAR(covered, 1900, 60) << "seed " << seed;
}

TEST(StopRule, DoesNotSettleOnNoise) {
    stop_rule r(2, 8);
    for (int i = 0; i < 20; ++i) r.add(i % 2 ? 1 : 3);
    EXPECT_FALSE(r.settled());
}

}  // namespace
}  // namespace ef::perf
