// The rules of all transports, for the verbs channel over fake devices: one lane and several, one rail
// and two, a ring of the usual size and the smallest, deliveries in order and delayed.
#include "tests/conformance/channel_suite.hpp"
#include "tests/conformance/verbs_pair.hpp"

namespace ef::conformance {
namespace {

INSTANTIATE_TEST_SUITE_P(verbs, channel_suite,
                         testing::Values(std::make_shared<fake_verbs_factory>(1, 1, 1 << 20),
                                         std::make_shared<fake_verbs_factory>(1, 3, 1 << 20),
                                         std::make_shared<fake_verbs_factory>(2, 2, 512 << 10),
                                         std::make_shared<fake_verbs_factory>(1, 1, 1 << 20, 7),
                                         std::make_shared<fake_verbs_factory>(2, 4, 512 << 10, 11)),
                         factory_name);

std::vector<std::shared_ptr<pair_factory>> real_factories() {
    if (!getenv("EF_TEST_RAILS")) return {};
    return {std::make_shared<real_verbs_factory>(1, 1), std::make_shared<real_verbs_factory>(1, 2),
            std::make_shared<real_verbs_factory>(2, 2)};
}

TEST(VerbsConformance, RunsOverRealDevices) {
    if (real_factories().empty())
        GTEST_SKIP() << "no RDMA devices are lent (EF_TEST_RAILS=rxe0,rxe1,...): make check-verbs";
}

INSTANTIATE_TEST_SUITE_P(devices, channel_suite, testing::ValuesIn(real_factories()), factory_name);

}  // namespace
}  // namespace ef::conformance
