// Two processes' ends of a pair, as two threads of one: through the C interface, as programs use it.
#include <eflops/transport.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr uint32_t patience_ms = 10'000;

struct ends {
    ef_listener_t listener = nullptr;
    ef_pair_t pair[2] = {};
    ~ends() {
        for (ef_pair_t p : pair) ef_pair_destroy(p);
        ef_listener_destroy(listener);
    }
};

ef_pair_options with_key(const char* key) {
    ef_pair_options o{};
    o.size = sizeof o;
    o.key = key;
    return o;
}

/// Side 0 serves, side 1 is the client; what the two calls came to.
std::pair<ef_status_t, ef_status_t> meet(ends& e, const char* server_key, const char* client_key,
                                         uint32_t ms, std::string* why = nullptr) {
    const ef_pair_options s = with_key(server_key), c = with_key(client_key);
    EXPECT_EQ(ef_listener_create("127.0.0.1:0", &s, &e.listener), EF_OK) << ef_last_error();
    const std::string at = ef_listener_address(e.listener);
    ef_status_t client = EF_OK;
    std::thread other([&] {
        client = ef_pair_connect(at.c_str(), &c, ms, &e.pair[1]);
        if (why) *why = ef_last_error();
    });
    const ef_status_t server = ef_listener_accept(e.listener, ms, &e.pair[0]);
    other.join();
    return {server, client};
}

/// Both sides open an endpoint.
std::pair<ef_status_t, ef_status_t> open_both(ends& e, const char* server, const char* client,
                                              ef_endpoint_t (&out)[2], std::string (&why)[2]) {
    ef_status_t second = EF_OK;
    std::thread other([&] {
        second = ef_endpoint_open(e.pair[1], client, patience_ms, &out[1]);
        if (second != EF_OK) why[1] = ef_last_error();
    });
    const ef_status_t first = ef_endpoint_open(e.pair[0], server, patience_ms, &out[0]);
    if (first != EF_OK) why[0] = ef_last_error();
    other.join();
    return {first, second};
}

TEST(Pair, MeetsWithoutAKeyAndKnowsTheOtherEnd) {
    ends e;
    EXPECT_EQ(meet(e, nullptr, nullptr, patience_ms), std::pair(EF_OK, EF_OK)) << ef_last_error();
    for (ef_pair_t p : e.pair) {
        ef_pair_info info{};
        info.size = sizeof info;
        ASSERT_EQ(ef_pair_peer(p, &info), EF_OK);
        EXPECT_EQ(info.pid, getpid());
        EXPECT_EQ(info.same_host, 1);
        EXPECT_NE(std::string(info.address).find("127.0.0.1:"), std::string::npos);
    }
}

TEST(Pair, RefusesAnotherKeyAndSaysSo) {
    ends e;
    std::string why;
    const auto [server, client] =
        meet(e, "a key of the server only", "another key, the client's", 1000, &why);
    EXPECT_EQ(server, EF_TIMEOUT);
    EXPECT_EQ(client, EF_AUTH_FAILED) << why;
    EXPECT_NE(why.find("key"), std::string::npos) << why;
}

TEST(Pair, RefusesAClientWithoutTheKey) {
    ends e;
    std::string why;
    EXPECT_EQ(meet(e, "a key of the server only", nullptr, 1000, &why).second, EF_AUTH_FAILED);
}

TEST(Pair, NamesAServerThatIsNotThere) {
    ef_pair_t p = nullptr;
    EXPECT_EQ(ef_pair_connect("127.0.0.1:1", nullptr, 300, &p), EF_TIMEOUT);
    EXPECT_NE(std::string(ef_last_error()).find("127.0.0.1:1"), std::string::npos);
    EXPECT_EQ(p, nullptr);
    EXPECT_EQ(ef_pair_connect("nothing", nullptr, 300, &p), EF_INVALID);
}

TEST(Pair, CarriesBlobsInOrder) {
    ends e;
    ASSERT_EQ(meet(e, nullptr, nullptr, patience_ms).second, EF_OK);
    const std::string big(3'000'000, 'x');
    std::thread sender([&] {
        EXPECT_EQ(ef_pair_send(e.pair[1], "one", 3), EF_OK);
        EXPECT_EQ(ef_pair_send(e.pair[1], big.data(), big.size()), EF_OK);
        // What the socket did not take goes out while this end waits for an answer.
        char c;
        size_t n = 0;
        EXPECT_EQ(ef_pair_receive(e.pair[1], &c, 1, patience_ms, &n), EF_OK);
    });
    std::string got(big.size(), 0);
    size_t n = 0;
    EXPECT_EQ(ef_pair_receive(e.pair[0], got.data(), got.size(), patience_ms, &n), EF_OK);
    EXPECT_EQ(got.substr(0, n), "one");
    EXPECT_EQ(ef_pair_receive(e.pair[0], got.data(), 10, patience_ms, &n), EF_INVALID);
    EXPECT_EQ(n, big.size()) << "the length is told, and the blob stays";
    EXPECT_EQ(ef_pair_receive(e.pair[0], got.data(), got.size(), patience_ms, &n), EF_OK);
    EXPECT_EQ(got, big);
    EXPECT_EQ(ef_pair_send(e.pair[0], "!", 1), EF_OK);
    sender.join();
    EXPECT_EQ(ef_pair_receive(e.pair[0], got.data(), 10, 0, &n), EF_IN_PROGRESS);
    EXPECT_EQ(ef_pair_receive(e.pair[0], got.data(), 10, 20, &n), EF_TIMEOUT);
}

TEST(Pair, NoticesThatTheOtherEndHasLeft) {
    ends e;
    ASSERT_EQ(meet(e, nullptr, nullptr, patience_ms).second, EF_OK);
    ef_pair_destroy(std::exchange(e.pair[1], nullptr));
    char c;
    size_t n = 0;
    EXPECT_EQ(ef_pair_receive(e.pair[0], &c, 1, patience_ms, &n), EF_PEER_LOST);
    EXPECT_NE(std::string(ef_last_error()).find("pid"), std::string::npos) << ef_last_error();
}

TEST(Pair, ServesOneClientAfterTheOther) {
    ends e;
    ASSERT_EQ(meet(e, nullptr, nullptr, patience_ms).second, EF_OK);
    ef_pair_t second = nullptr;
    EXPECT_EQ(ef_listener_accept(e.listener, 10, &second), EF_INVALID);
    for (ef_pair_t& p : e.pair) ef_pair_destroy(std::exchange(p, nullptr));
    const std::string at = ef_listener_address(e.listener);
    std::thread other(
        [&] { EXPECT_EQ(ef_pair_connect(at.c_str(), nullptr, patience_ms, &e.pair[1]), EF_OK); });
    EXPECT_EQ(ef_listener_accept(e.listener, patience_ms, &e.pair[0]), EF_OK) << ef_last_error();
    other.join();
}

class PairEndpoint : public testing::TestWithParam<const char*> {};

TEST_P(PairEndpoint, WritesThroughTheCInterface) {
    ends e;
    ASSERT_EQ(meet(e, nullptr, nullptr, patience_ms).second, EF_OK);
    for (int round = 0; round < 3; ++round) {  // several endpoints of one pair
        ef_endpoint_t ep[2] = {};
        std::string why[2];
        ASSERT_EQ(open_both(e, nullptr, GetParam(), ep, why), std::pair(EF_OK, EF_OK))
            << why[0] << why[1];
        ef_endpoint_info about{};
        about.size = sizeof about;
        ASSERT_EQ(ef_endpoint_describe(ep[1], &about), EF_OK);
        EXPECT_EQ(std::string(about.medium).substr(0, 3), GetParam());
        std::vector<char> from(1000, 'a'), to(1000, 'b');
        ef_region_info mine{}, theirs{};
        mine.size = theirs.size = sizeof mine;
        ASSERT_EQ(ef_endpoint_register(ep[1], from.data(), from.size(), &mine), EF_OK);
        ASSERT_EQ(ef_endpoint_register(ep[0], to.data(), to.size(), &theirs), EF_OK);
        ef_work w{};
        w.size = sizeof w;
        w.id = 5;
        w.local = from.data();
        w.bytes = from.size();
        w.lkey = mine.lkey;
        w.rkey = theirs.rkey;
        w.remote_address = theirs.address;
        size_t taken = 0, n = 0;
        ASSERT_EQ(ef_endpoint_post(ep[1], &w, 1, &taken), EF_OK);
        EXPECT_EQ(taken, 1u);
        ef_completion c[4] = {};
        c[0].size = sizeof c[0];
        for (int i = 0; i < 1'000'000 && n == 0; ++i) {
            size_t none = 0;
            ASSERT_EQ(ef_endpoint_poll(ep[0], c, 4, &none), EF_OK);
            ASSERT_EQ(ef_endpoint_poll(ep[1], c, 4, &n), EF_OK);
        }
        ASSERT_EQ(n, 1u);
        EXPECT_EQ(c[0].id, 5u);
        EXPECT_EQ(c[0].status, uint32_t(EF_WORK_OK));
        EXPECT_EQ(from, to);
        EXPECT_EQ(ef_endpoint_deregister(ep[1], mine.lkey), EF_OK);
        EXPECT_EQ(ef_endpoint_deregister(ep[1], mine.lkey), EF_INVALID);
        for (ef_endpoint_t x : ep) ef_endpoint_close(x);
    }
}

INSTANTIATE_TEST_SUITE_P(Over, PairEndpoint, testing::Values("shm", "tcp"));

TEST(Pair, NamesBothTransportsWhereTheyDiffer) {
    ends e;
    ASSERT_EQ(meet(e, nullptr, nullptr, patience_ms).second, EF_OK);
    ef_endpoint_t ep[2] = {};
    std::string why[2];
    EXPECT_EQ(open_both(e, "tcp", "shm", ep, why), std::pair(EF_MISMATCH, EF_MISMATCH));
    for (const std::string& w : why) {
        EXPECT_NE(w.find("tcp"), std::string::npos) << w;
        EXPECT_NE(w.find("shm"), std::string::npos) << w;
    }
}

TEST(Pair, TellsBothThatATransportIsNotToBeHad) {
    ends e;
    ASSERT_EQ(meet(e, nullptr, nullptr, patience_ms).second, EF_OK);
    ef_endpoint_t ep[2] = {};
    std::string why[2];
    EXPECT_EQ(open_both(e, nullptr, "pigeon", ep, why), std::pair(EF_UNSUPPORTED, EF_UNSUPPORTED));
    for (const std::string& w : why) EXPECT_NE(w.find("pigeon"), std::string::npos) << w;
}

}  // namespace
