#include "perftests/common/facts.hpp"

#include <gtest/gtest.h>
#include <sched.h>

namespace ef::perf {
namespace {

int first_core() {
    cpu_set_t mine;
    CPU_ZERO(&mine);
    sched_getaffinity(0, sizeof mine, &mine);
    for (int c = 0; c < CPU_SETSIZE; ++c)
        if (CPU_ISSET(c, &mine)) return c;
    return 0;
}

// Both ends on one core: whoever waits keeps the other from answering, as on a machine whose cores
// are all busy, and the probe gives up at any point of a batch.
TEST(CoreRoundTrip, GivesUpWhereAnEndGetsNoCore) {
    for (int i = 0; i < 2; ++i) {
        const double ns = core_round_trip_ns(first_core(), first_core());
        EXPECT_TRUE(ns == -1 || ns > 0) << ns;
    }
}

TEST(CoreRoundTrip, SaysThatItCannotBeBoundToACoreThatIsNotThere) {
    EXPECT_EQ(core_round_trip_ns(first_core(), CPU_SETSIZE - 1), -1);
}

}  // namespace
}  // namespace ef::perf
