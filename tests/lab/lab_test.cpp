// Real labs: what is forwarded, where the hash sends it, what is counted.
#include "tests/lab/world.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "transport/base/clock.hpp"

namespace ef::lab {
namespace {

using namespace fabric;

class LabOf : public LabTest, public testing::WithParamInterface<const char*> {};

TEST_P(LabOf, LetsEveryHostConnectToEveryOther) {
    ASSERT_TRUE(build(GetParam()));
    const graph& g = l().net();
    std::vector<fd> listening, dialled;
    for (const node_id h : g.hosts()) listening.push_back(listener(g.at(h).name, 7000));
    std::vector<std::string> pairs;
    for (const node_id a : g.hosts())
        for (const node_id b : g.hosts()) {
            if (a == b) continue;
            dialled.push_back(dial(g.at(a).name, g.at(b).name, 7000));
            pairs.push_back(g.at(a).name + " to " + g.at(b).name);
        }
    for (size_t i = 0; i < dialled.size(); ++i) {
        pollfd p{dialled[i].get(), POLLOUT, 0};
        ASSERT_EQ(poll(&p, 1, 10'000), 1) << pairs[i] << ": no connection within 10 s";
        int error = 0;
        socklen_t n = sizeof error;
        ASSERT_EQ(getsockopt(dialled[i].get(), SOL_SOCKET, SO_ERROR, &error, &n), 0);
        EXPECT_EQ(error, 0) << pairs[i] << ": " << strerror(error);
    }
}

INSTANTIATE_TEST_SUITE_P(Fabrics, LabOf,
                         testing::Values("single:hosts=4", "bigraph:S=2,H=2,L=2",
                                         "leafspine:leaves=2,hosts=2,spines=2", "fattree:k=2"),
                         [](const auto& p) {
                             std::string name = p.param;
                             for (char& c : name)
                                 if (!isalnum(static_cast<unsigned char>(c))) c = '_';
                             return name;
                         });

/// Which of these links carried more packets than before.
std::set<std::string> grown(const lab& l, const std::vector<traffic>& before,
                            const std::vector<traffic>& after, const std::string& from) {
    std::set<std::string> names;
    for (link_id i = 0; i < after.size(); ++i)
        if (l.net().at(l.net().edge(i).from).name == from && after[i].packets > before[i].packets)
            names.insert(l.net().text_of(i));
    return names;
}

class Ecmp : public LabTest {
protected:
    static constexpr uint16_t first_port = 40'000;

    /// By source port: the uplink of leaf0 that a UDP flow from leaf0p0 to leaf1p0 takes.
    std::map<uint16_t, std::string> uplinks(unsigned ports) {
        std::map<uint16_t, std::string> taken;
        const fd sink = udp("leaf1p0", 9000);
        for (uint16_t p = first_port; p < first_port + ports; ++p) {
            const fd source = udp_to("leaf0p0", p, "leaf1p0", 9000);
            const auto before = l().counters();
            for (int i = 0; i < 3; ++i) {
                char byte[100] = {};
                EXPECT_EQ(send(source.get(), byte, sizeof byte, 0), ssize_t(sizeof byte));
                EXPECT_TRUE(readable(sink.get(), 5000)) << "port " << p;
                EXPECT_EQ(recv(sink.get(), byte, sizeof byte, MSG_DONTWAIT), ssize_t(sizeof byte));
            }
            const auto after = l().counters();
            if (!before.ok() || !after.ok()) {
                ADD_FAILURE() << before.why().text() << after.why().text();
                return taken;
            }
            std::set<std::string> up;
            for (const std::string& name : grown(l(), *before, *after, "leaf0"))
                if (name.find("spine") != std::string::npos) up.insert(name);
            EXPECT_EQ(up.size(), 1u)
                << "port " << p << ": three datagrams of one flow took " << up.size() << " ways";
            if (!up.empty()) taken[p] = *up.begin();
        }
        return taken;
    }
};

TEST_F(Ecmp, SpreadsFlowsOverAllSpinesAndKeepsEachOnItsWay) {
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=1,spines=4"));
    const auto once = uplinks(24);
    std::set<std::string> used;
    for (const auto& [port, uplink] : once) used.insert(uplink);
    // 24 flows over 4 ways miss one with probability 0.4 %; with this seed they do not.
    EXPECT_EQ(used.size(), 4u);
    EXPECT_EQ(uplinks(24), once);
}

TEST_F(Ecmp, TakesTheSameWaysInALabOfTheSameSeedAndOthersWithAnother) {
    if (access("/proc/sys/net/ipv4/fib_multipath_hash_seed", F_OK) != 0)
        GTEST_SKIP() << "this kernel has no fib_multipath_hash_seed (6.11)";
    options o;
    o.seed = 7;
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=1,spines=4", o));
    const auto once = uplinks(12);
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=1,spines=4", o));
    EXPECT_EQ(uplinks(12), once);
    o.seed = 8;
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=1,spines=4", o));
    EXPECT_NE(uplinks(12), once);
}

// ---------------------------------------------------------------- bytes and rates

struct transfer {
    double seconds = 0;
    size_t bytes = 0;
};

class Transfer : public LabTest {
protected:
    /// One TCP connection carries `bytes`; the time is that of all but the first eighth.
    transfer send_all(const std::string& from, const std::string& to, size_t bytes) {
        transfer t;
        const fd listening = listener(to, 7001);
        const fd out = dial(from, to, 7001);
        if (!readable(listening.get(), 10'000)) {
            ADD_FAILURE() << from << " to " << to << ": no connection";
            return t;
        }
        const fd in(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
        fcntl(out.get(), F_SETFL, fcntl(out.get(), F_GETFL) & ~O_NONBLOCK);
        std::thread writer([&] {
            const std::vector<char> piece(1 << 16);
            for (size_t left = bytes; left > 0;) {
                const ssize_t n =
                    send(out.get(), piece.data(), std::min(left, piece.size()), MSG_NOSIGNAL);
                if (n <= 0) break;
                left -= size_t(n);
            }
            shutdown(out.get(), SHUT_WR);
        });
        std::vector<char> piece(1 << 18);
        uint64_t begun = 0;
        size_t timed_from = 0;
        while (t.bytes < bytes && readable(in.get(), 20'000)) {
            const ssize_t n = recv(in.get(), piece.data(), piece.size(), 0);
            if (n <= 0) break;
            t.bytes += size_t(n);
            if (begun == 0 && t.bytes >= bytes / 8) {
                begun = now_ns();
                timed_from = t.bytes;
            }
        }
        t.seconds = double(now_ns() - begun) / 1e9;
        EXPECT_EQ(t.bytes, bytes);
        if (t.bytes < bytes) shutdown(in.get(), SHUT_RDWR);
        writer.join();
        t.bytes -= timed_from;
        return t;
    }

    /// Of TCP's payload through a bucket of this rate that counts the Ethernet header.
    static double goodput(double mbit, double mtu) {
        return mbit * 1e6 / 8 * (mtu - 52) / (mtu + 14);
    }
};

TEST_F(Transfer, IsAsFastAsTheBucketAndNotFaster) {
    ASSERT_TRUE(build("single:hosts=2"));
    const size_t bytes = 6'000'000;
    const double wanted = goodput(100, 9000);
    double best = 0;
    for (int attempt = 0; attempt < 3 && best < 0.95; ++attempt) {
        const transfer t = send_all("h0", "h1", bytes);
        ASSERT_GT(t.seconds, 0);
        const double rate = double(t.bytes) / t.seconds;
        // Whatever waited in front of a reader that got no core comes in one piece: a full window.
        EXPECT_LT(rate, wanted * 1.05 + 4e6 / t.seconds);
        best = std::max(best, rate / wanted);
    }
    RecordProperty("of_ideal", std::to_string(best));
    if (best < 0.95 && cpu_pressure() > 20)
        GTEST_SKIP() << "processes waited for a core " << cpu_pressure()
                     << " % of the last 10 s, and the flow reached " << best << " of its rate";
    EXPECT_GE(best, 0.95);
    EXPECT_LE(best, 1.05);
}

TEST_F(Transfer, IsCountedOnEveryLinkOfItsWayAndOnNoOther) {
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=2,spines=2", [] {
        options o;
        o.host_mbit = 400;
        return o;
    }()));
    const size_t bytes = 4'000'000;
    ASSERT_TRUE(l().reset_counters().ok());
    send_all("leaf0p1", "leaf1p0", bytes);
    const auto t = l().counters();
    ASSERT_TRUE(t.ok()) << t.why().text();
    const double wire = double(bytes) * 9014 / 8948;
    const auto carried = [&](const char* name) { return double((*t)[link(name)].bytes); };
    EXPECT_NEAR(carried("leaf0p1-leaf0") / wire, 1, 0.02);
    EXPECT_NEAR(carried("leaf1-leaf1p0") / wire, 1, 0.02);
    // One flow: one spine has it all.
    const double up0 = carried("leaf0-spine0"), up1 = carried("leaf0-spine1");
    EXPECT_NEAR(std::max(up0, up1) / wire, 1, 0.02);
    EXPECT_LT(std::min(up0, up1), wire / 100);
    EXPECT_NEAR(carried("spine0-leaf1"), up0, wire / 100);
    EXPECT_NEAR(carried("spine1-leaf1"), up1, wire / 100);
    // Acknowledgements only, and nothing.
    EXPECT_LT(carried("leaf0-leaf0p1"), wire / 50);
    EXPECT_EQ(carried("leaf0-leaf0p0"), 0);
    EXPECT_EQ(carried("leaf1p1-leaf1"), 0);
    ASSERT_TRUE(l().reset_counters().ok());
    const auto fresh = l().counters();
    ASSERT_TRUE(fresh.ok());
    for (const traffic& x : *fresh) EXPECT_EQ(x.bytes, 0u);
}

// ---------------------------------------------------------------- building

TEST_F(LabTest, GivesEachLinkARateInProportionToItsCapacity) {
    options o;
    o.host_mbit = 50;
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=2,spines=1,gbps=25", o));
    for (link_id i = 0; i < l().net().links().size(); ++i)
        EXPECT_DOUBLE_EQ(l().built_mbit(i), 50 * l().net().edge(i).gbps / 25);
}

TEST_F(LabTest, RefusesASecondLabOfTheSameName) {
    ASSERT_TRUE(build("single:hosts=2"));
    const result<lab> second = lab::build(make_single(3, 100), {});
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.why().text(), "lab lab is up already: single hosts=2");
    // The first one is as it was.
    const result<lab> first = lab::open("lab");
    ASSERT_TRUE(first.ok()) << first.why().text();
    EXPECT_EQ(first->net().hosts().size(), 2u);
}

TEST_F(LabTest, RefusesWhatItCannotBuildAndLeavesNothing) {
    const auto why = [](const graph& g, const options& o) {
        const result<lab> l = lab::build(g, o);
        return l.ok() ? "built" : std::string(l.why().text());
    };
    options o;
    o.name = "a-b";
    EXPECT_EQ(why(make_single(2, 100), o), "lab name \"a-b\": 1 to 32 letters, digits and '_'");
    o = {};
    o.mtu = 100;
    EXPECT_EQ(why(make_single(2, 100), o), "mtu 100: 576 to 65535");
    o = {};
    o.queue_bytes = 60'000;
    EXPECT_NE(why(make_single(2, 100), o).find("a queue of 60000 bytes is smaller than the bucket"),
              std::string::npos);
    o = {};
    o.congestion = "warp";
    const std::string refused = why(make_single(2, 100), o);
    EXPECT_NE(refused.find("lab lab: h0: /proc/sys/net/ipv4/tcp_congestion_control = warp"),
              std::string::npos)
        << refused;
    EXPECT_TRUE(lab::all().empty());
    EXPECT_NE(access("/run/eflops-lab", F_OK), 0);
    EXPECT_NE(access("/run/netns", F_OK), 0);
}

TEST_F(LabTest, HasLinksDownThatTheFabricHasDown) {
    graph g = make_leaf_spine(2, 1, 2, 1, 100);
    const node_id leaf = g.find("leaf0");
    const link_id up = g.out(leaf).back();  // to spine1
    g.set_up(up, false);
    const result<lab> made = lab::build(g, {});
    ASSERT_TRUE(made.ok()) << made.why().text();
    const result<lab> found = lab::open("lab");
    EXPECT_TRUE(found.ok() && !found->condition(up).up && !found->net().edge(up).up);
    EXPECT_TRUE(lab::remove("lab").ok());
}

}  // namespace
}  // namespace ef::lab
