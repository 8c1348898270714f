// The rules of all transports, for tcp: one and three connections that carry data both ways, one and
// three each way, both families.
#include "tests/conformance/channel_suite.hpp"
#include "tests/conformance/tcp_pair.hpp"

namespace ef::conformance {
namespace {

std::vector<std::shared_ptr<pair_factory>> factories() {
    std::vector<std::shared_ptr<pair_factory>> all = {
        std::make_shared<tcp_factory>(AF_INET, 1), std::make_shared<tcp_factory>(AF_INET, 3),
        std::make_shared<tcp_factory>(AF_INET, 2, true),
        std::make_shared<tcp_factory>(AF_INET, 6, true)};
    if (have_ipv6_loopback()) {
        all.push_back(std::make_shared<tcp_factory>(AF_INET6, 1));
        all.push_back(std::make_shared<tcp_factory>(AF_INET6, 3));
        all.push_back(std::make_shared<tcp_factory>(AF_INET6, 2, true));
    }
    return all;
}

TEST(TcpConformance, CoversBothAddressFamilies) {
    if (!have_ipv6_loopback()) GTEST_SKIP() << "no IPv6 loopback here";
    EXPECT_EQ(factories().size(), 7u);
}

INSTANTIATE_TEST_SUITE_P(tcp, channel_suite, testing::ValuesIn(factories()), factory_name);

}  // namespace
}  // namespace ef::conformance
