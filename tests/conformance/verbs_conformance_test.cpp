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

}  // namespace
}  // namespace ef::conformance
