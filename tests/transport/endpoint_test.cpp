// The rules of endpoints, for soft endpoints over shm and tcp; and random programs against a
// reference that does one thing after the other.
#include "tests/transport/endpoint_programs.hpp"

#include "tests/conformance/shm_pair.hpp"
#include "tests/conformance/tcp_pair.hpp"
#include "transport/soft_endpoint.hpp"

namespace ef::rdma {
namespace {

class soft_factory final : public pair_factory {
public:
    explicit soft_factory(std::shared_ptr<conformance::pair_factory> f, std::string kind)
        : channels_(std::move(f)), kind_(std::move(kind)) {}

    void open(std::unique_ptr<endpoint> (&ends)[2]) override {
        channels_->open();
        for (int side = 0; side < 2; ++side) {
            result<waiter> w = waiter::create();
            ASSERT_TRUE(w.ok()) << w.why().text();
            waiter_[side] = std::make_unique<waiter>(std::move(*w));
            auto c = channels_->end(side, getpid(), *waiter_[side]);
            ASSERT_TRUE(c);
            ends[side] = make_soft_endpoint(std::move(c), {100});
        }
    }
    std::string name() const override { return kind_ + "_" + channels_->name(); }

private:
    std::shared_ptr<conformance::pair_factory> channels_;
    std::string kind_;
    std::unique_ptr<waiter> waiter_[2];
};

std::vector<std::shared_ptr<pair_factory>> factories() {
    using namespace conformance;
    std::vector<std::shared_ptr<pair_factory>> all = {
        std::make_shared<soft_factory>(std::make_shared<shm_factory>("off"), "shm"),
        std::make_shared<soft_factory>(std::make_shared<tcp_factory>(AF_INET, 1), "tcp"),
        std::make_shared<soft_factory>(std::make_shared<tcp_factory>(AF_INET, 3), "tcp")};
    if (can_read_processes())
        all.push_back(std::make_shared<soft_factory>(std::make_shared<shm_factory>("on"), "shm"));
    return all;
}

INSTANTIATE_TEST_SUITE_P(soft, EndpointSuite, testing::ValuesIn(factories()),
                         [](const auto& i) { return i.param->name(); });

INSTANTIATE_TEST_SUITE_P(soft, EndpointPrograms, testing::ValuesIn(factories()),
                         [](const auto& i) { return i.param->name(); });

}  // namespace
}  // namespace ef::rdma
