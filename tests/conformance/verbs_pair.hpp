// Two ends of a verbs channel over fake devices, for the suites.
#pragma once

#include "tests/conformance/channel_pair.hpp"
#include "tests/support/fake_verbs.hpp"
#include "transport/verbs/channel.hpp"
#include "transport/verbs/rails.hpp"

#include <sys/socket.h>

#include <sstream>

namespace ef::conformance {

class fake_verbs_factory final : public pair_factory {
public:
    fake_verbs_factory(uint32_t rails, uint32_t lanes, size_t ring_bytes, uint64_t seed = 0)
        : rails_(rails), lanes_(lanes), ring_bytes_(ring_bytes), seed_(seed) {}
    ~fake_verbs_factory() override {
        drop(0);
        drop(1);
    }

    bool across_processes() const override { return false; }

    void open() override {
        for (auto& side : rail_) side.clear();
        network = std::make_unique<verbs::fake_network>(seed_);
        for (int side = 0; side < 2; ++side)
            for (uint32_t i = 0; i < rails_; ++i) {
                const std::string name = "fake" + std::to_string(side) + std::to_string(i);
                rail_[side].push_back(std::make_unique<verbs::rail>(
                    name + "/1", network->open(name), verbs::rail_address{}));
            }
        int both[2] = {-1, -1};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both) != 0)
            ADD_FAILURE() << "socketpair: " << strerror(errno);
        for (int side = 0; side < 2; ++side) socket_[side] = both[side];
    }

    std::unique_ptr<channel> end(int side, int peer_pid, waiter& w) override {
        verbs::channel_setup s;
        s.peer = {1 - side, "here", peer_pid};
        s.socket = fd(std::exchange(socket_[side], -1));
        for (auto& r : rail_[side]) s.rails.push_back(r.get());
        s.lanes = lanes_;
        s.ring_bytes = ring_bytes_;
        result<std::unique_ptr<channel>> c = verbs::make_channel(std::move(s), w);
        if (c.ok()) return std::move(*c);
        ADD_FAILURE() << c.why().text();
        return nullptr;
    }

    void drop(int side) override {
        if (socket_[side] >= 0) close(std::exchange(socket_[side], -1));
    }

    std::string name() const override {
        return "fake_" + std::to_string(rails_) + "_rails_" + std::to_string(lanes_) + "_lanes_" +
               std::to_string(ring_bytes_ >> 10) + "_KiB" + (seed_ ? "_delays" : "");
    }

    std::unique_ptr<verbs::fake_network> network;

private:
    uint32_t rails_, lanes_;
    size_t ring_bytes_;
    uint64_t seed_;
    std::vector<std::unique_ptr<verbs::rail>> rail_[2];
    int socket_[2] = {-1, -1};
};

/// The same over the RDMA devices that EF_TEST_RAILS lends ("rxe0,rxe1"): side 0 has those at even
/// places, side 1 the others.
class real_verbs_factory final : public pair_factory {
public:
    real_verbs_factory(uint32_t rails, uint32_t lanes) : rails_(rails), lanes_(lanes) {}
    ~real_verbs_factory() override {
        drop(0);
        drop(1);
    }

    void open() override {
        int both[2] = {-1, -1};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both) != 0)
            ADD_FAILURE() << "socketpair: " << strerror(errno);
        for (int side = 0; side < 2; ++side) socket_[side] = both[side];
    }

    // The device is opened by the process that uses it.
    std::unique_ptr<channel> end(int side, int peer_pid, waiter& w) override {
        config c;
        std::istringstream list(getenv("EF_TEST_RAILS"));
        uint32_t n = 0;
        for (std::string one; std::getline(list, one, ',');)
            if (int(n++ % 2) == side && n <= 2 * rails_)
                c.device += (c.device.empty() ? "" : ",") + one;
        if (const char* module = getenv("EFLOPS_VERBS_MODULE")) c.verbs_module = module;
        result<std::vector<verbs::rail_plan>> plan = verbs::plan_rails(c);
        if (!plan.ok()) {
            ADD_FAILURE() << plan.why().text();
            return nullptr;
        }
        result<std::vector<std::unique_ptr<verbs::rail>>> rails = verbs::open_rails(*plan, c);
        if (!rails.ok()) {
            ADD_FAILURE() << rails.why().text();
            return nullptr;
        }
        rail_[side] = std::move(*rails);
        verbs::channel_setup s;
        s.peer = {1 - side, "here", peer_pid};
        s.socket = fd(std::exchange(socket_[side], -1));
        for (auto& r : rail_[side]) s.rails.push_back(r.get());
        s.lanes = lanes_;
        result<std::unique_ptr<channel>> made = verbs::make_channel(std::move(s), w);
        if (made.ok()) return std::move(*made);
        ADD_FAILURE() << made.why().text();
        return nullptr;
    }

    void drop(int side) override {
        if (socket_[side] >= 0) close(std::exchange(socket_[side], -1));
    }

    std::string name() const override {
        return std::to_string(rails_) + "_rails_" + std::to_string(lanes_) + "_lanes";
    }

private:
    uint32_t rails_, lanes_;
    std::vector<std::unique_ptr<verbs::rail>> rail_[2];
    int socket_[2] = {-1, -1};
};

}  // namespace ef::conformance
