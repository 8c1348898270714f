// The rules of all transports, for shared memory: by two copies, and by process_vm_readv where this
// machine allows it.
#include "tests/conformance/channel_suite.hpp"
#include "tests/conformance/shm_pair.hpp"

namespace ef::conformance {
namespace {

std::vector<std::shared_ptr<pair_factory>> factories() {
    std::vector<std::shared_ptr<pair_factory>> all = {std::make_shared<shm_factory>("off")};
    if (can_read_processes()) all.push_back(std::make_shared<shm_factory>("on"));
    return all;
}

TEST(ShmConformance, CoversTheSingleCopy) {
    if (!can_read_processes()) GTEST_SKIP() << "process_vm_readv is not allowed here";
    EXPECT_EQ(factories().size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(shm, channel_suite, testing::ValuesIn(factories()), factory_name);

}  // namespace
}  // namespace ef::conformance
