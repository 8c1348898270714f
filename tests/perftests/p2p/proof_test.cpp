// --verify finds a single wrong bit: a client that spoils what it is about to send, and a server
// that compares.
#include "perftests/p2p/ends.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <functional>

namespace ef::perf::p2p {
namespace {

class Proof : public testing::TestWithParam<kind> {
protected:
    void SetUp() override {
        options_.traffic.sizes = {5000};
        options_.traffic.qps = 2;
        options_.traffic.depth = what_.latency ? 1 : 16;
        options_.timeout_s = 20;
        // The server finds a free port and tells which.
        int ends[2];
        ASSERT_EQ(pipe(ends), 0);
        server_ = fork();
        if (server_ == 0) {
            freopen("/dev/null", "w", stderr);
            ef_listener_t probe = nullptr;
            ef_listener_create("127.0.0.1:0", nullptr, &probe);
            const std::string at = ef_listener_address(probe);
            ef_listener_destroy(probe);
            p2p_options bare;
            bare.port = uint32_t(std::stoul(at.substr(at.rfind(':') + 1)));
            bare.timeout_s = 20;
            if (write(ends[1], &bare.port, sizeof bare.port) != sizeof bare.port) _exit(9);
            try {
                _exit(run_server(what_, bare, 0, nullptr));
            } catch (const failure& e) {
                _exit(e.code());
            }
        }
        uint32_t port = 0;
        ASSERT_EQ(read(ends[0], &port, sizeof port), ssize_t(sizeof port));
        close(ends[0]), close(ends[1]);
        ef_pair_t pair = nullptr;
        ASSERT_EQ(
            ef_pair_connect(fmt::format("127.0.0.1:{}", port).c_str(), nullptr, 20'000, &pair),
            EF_OK)
            << ef_last_error();
        s_ = std::make_unique<session>(pair, what_, options_);
        s_->say({{"word", "hello"}, {"program", what_.program}, {"options", in_force(options_)}});
        s_->hear("welcome");
        s_->open_lanes();
    }
    void TearDown() override {
        if (s_) s_->part();
        s_.reset();
        int how = 0;
        waitpid(server_, &how, 0);
        EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    }

    /// Wrong bytes on both ends when `spoil` has been at the memory of lane 1 before the traffic.
    uint64_t wrong_after(uint64_t salt, const std::function<void(lane&)>& spoil) {
        proof p(*s_, 5000, salt);
        p.fill(true);
        spoil(*s_->lanes()[1]);
        s_->say(
            {{"word", "verify"}, {"size", 5000}, {"salt", salt}, {"posted", begin_row(*s_, 5000)}});
        s_->hear("ready");
        p.move();
        s_->say({{"word", "stop"}, {"posted", posted_so_far(*s_)}});
        const json done = s_->hear("done");
        await_received(*s_, done.at("posted"));
        return done.at("wrong").get<uint64_t>() + p.count_wrong(true);
    }

    const test& what_ = find_test(GetParam());
    p2p_options options_;
    pid_t server_ = -1;
    std::unique_ptr<session> s_;
};

TEST_P(Proof, FindsOneWrongBitAndNoOtherByte) {
    EXPECT_EQ(wrong_after(1, [](lane&) {}), 0u);
    EXPECT_EQ(wrong_after(2, [](lane& l) { l.outgoing(3)[4999] ^= std::byte{1}; }), 1u);
    EXPECT_EQ(wrong_after(3,
                          [](lane& l) {
                              l.outgoing(0)[0] ^= std::byte{128};
                              l.outgoing(1)[17] ^= std::byte{4};
                          }),
              2u);
    EXPECT_EQ(wrong_after(4, [](lane&) {}), 0u);
}

INSTANTIATE_TEST_SUITE_P(P2p, Proof,
                         testing::Values(kind::write_bw, kind::send_bw, kind::write_lat,
                                         kind::send_lat),
                         [](const auto& i) { return std::string(find_test(i.param).name); });

}  // namespace
}  // namespace ef::perf::p2p
