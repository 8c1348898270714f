// What a fault does to flows in a real lab, and that it can be mended.
#include "tests/lab/world.hpp"
#include "tools/lab/namespaces.hpp"
#include "transport/base/clock.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <vector>

namespace ef::lab {
namespace {

using namespace fabric;

class Fault : public LabTest {
protected:
    static constexpr uint16_t first_port = 41'000, sink_port = 9000;
    static constexpr unsigned flows = 16;

    void inject(const std::string& where, fault_kind what, double amount = 0, bool reroute = true,
                bool one_way = false) {
        const status s = l().inject(where, {what, amount, reroute, one_way});
        EXPECT_TRUE(s.ok()) << s.text();
    }

    /// One datagram of each of the flows from `from` to `to`. Returns which arrived, once each of
    /// the others has been counted: as dropped by a link, as without a route on a switch, or as one
    /// that the host could not even send.
    std::set<unsigned> arrived(const std::string& from, const std::string& to) {
        const fd sink = udp(to, sink_port);
        const uint64_t lost_before = lost();
        size_t unsent = 0;
        for (unsigned i = 0; i < flows; ++i) {
            const fd source = udp_to(from, uint16_t(first_port + i), to, sink_port);
            const char byte = char(i);
            unsent += send(source.get(), &byte, 1, 0) != 1;
        }
        std::set<unsigned> there;
        const deadline limit = deadline::in_ms(10'000);
        const auto known = [&] { return there.size() + unsent + (lost() - lost_before); };
        do {
            unsigned char byte = 0;
            (void)readable(sink.get(), 2);
            while (recv(sink.get(), &byte, 1, MSG_DONTWAIT) == 1) there.insert(byte);
        } while (known() < flows && !limit.passed());
        EXPECT_EQ(known(), flows) << there.size() << " arrived, " << unsent << " not sent";
        return there;
    }

    /// Dropped by links and refused by switches since the lab was built.
    uint64_t lost() {
        uint64_t sum = 0;
        const auto t = l().counters();
        EXPECT_TRUE(t.ok()) << t.why().text();
        if (t.ok())
            for (const traffic& x : *t) sum += x.dropped_packets;
        for (const node_id n : l().net().switches()) {
            const status s = l().inside(n, [&] {
                sum += without_route();
                return status();
            });
            EXPECT_TRUE(s.ok()) << s.text();
        }
        return sum;
    }

    /// Packets for which this thread's namespace had no route: IpExt InNoRoutes, the first number.
    static uint64_t without_route() {
        std::ifstream in("/proc/thread-self/net/netstat");
        std::string word, names;
        uint64_t n = 0;
        for (std::string line; std::getline(in, line);) {
            std::istringstream words(line);
            words >> word >> names;
            if (word == "IpExt:" && names != "InNoRoutes") n = std::stoull(names);
        }
        return n;
    }
};

TEST_F(Fault, ALinkThatIsDownIsGoneAroundByAllSwitches) {
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=1,spines=2"));
    ASSERT_EQ(arrived("leaf0p0", "leaf1p0").size(), flows);
    inject("leaf1-spine1", fault_kind::down);
    EXPECT_EQ(arrived("leaf0p0", "leaf1p0").size(), flows);
    EXPECT_EQ(arrived("leaf1p0", "leaf0p0").size(), flows);
    inject("leaf1-spine1", fault_kind::up);
    EXPECT_EQ(arrived("leaf0p0", "leaf1p0").size(), flows);
    // It is used again.
    ASSERT_TRUE(l().reset_counters().ok());
    EXPECT_EQ(arrived("leaf0p0", "leaf1p0").size(), flows);
    const auto t = l().counters();
    ASSERT_TRUE(t.ok());
    EXPECT_GT((*t)[link("spine1-leaf1")].packets, 0u);
}

TEST_F(Fault, ABiGraphGoesAroundALinkThroughOtherSwitchesOfBothSides) {
    ASSERT_TRUE(build("bigraph:S=2,H=1,L=1"));
    ASSERT_EQ(arrived("U0p0", "L1p0").size(), flows);
    inject("U0-L1", fault_kind::down);
    ASSERT_TRUE(l().reset_counters().ok());
    EXPECT_EQ(arrived("U0p0", "L1p0").size(), flows);
    const auto t = l().counters();
    ASSERT_TRUE(t.ok());
    for (const char* way : {"U0-L0", "L0-U1", "U1-L1"})
        EXPECT_GE((*t)[link(way)].packets, uint64_t(flows)) << way;
    EXPECT_EQ((*t)[link("U0-L1")].packets, 0u);
}

TEST_F(Fault, WithoutReroutingTheOthersKeepSendingIntoTheHole) {
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=1,spines=2"));
    ASSERT_EQ(arrived("leaf0p0", "leaf1p0").size(), flows);
    inject("leaf1-spine1", fault_kind::down, 0, false);
    // leaf0 does not know, so what it sends to spine1 has no route there. Back from leaf1 all goes by
    // spine0, because leaf1 sees its own link.
    const std::set<unsigned> first = arrived("leaf0p0", "leaf1p0");
    EXPECT_GT(first.size(), 0u);
    EXPECT_LT(first.size(), flows);
    EXPECT_EQ(arrived("leaf0p0", "leaf1p0"), first);
    EXPECT_EQ(arrived("leaf1p0", "leaf0p0").size(), flows);
    inject("leaf1-spine1", fault_kind::up);
    EXPECT_EQ(arrived("leaf0p0", "leaf1p0").size(), flows);
}

TEST_F(Fault, ALinkThatLosesAllIsABlackHoleThatNobodyNotices) {
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=1,spines=2"));
    ASSERT_EQ(arrived("leaf0p0", "leaf1p0").size(), flows);  // addresses are resolved
    inject("spine1-leaf1", fault_kind::lossy, 100, true, true);
    const std::set<unsigned> first = arrived("leaf0p0", "leaf1p0");
    EXPECT_GT(first.size(), 0u);
    EXPECT_LT(first.size(), flows);
    EXPECT_EQ(l().condition(link("leaf1-spine1")).loss_percent, 0);
    EXPECT_EQ(arrived("leaf1p0", "leaf0p0").size(), flows);
    inject("spine1-leaf1", fault_kind::up);
    EXPECT_EQ(arrived("leaf0p0", "leaf1p0").size(), flows);
}

TEST_F(Fault, ALossyLinkDropsAboutThatShare) {
    ASSERT_TRUE(build("single:hosts=2"));
    ASSERT_EQ(arrived("h0", "h1").size(), flows);
    inject("h0-sw0", fault_kind::lossy, 20, true, true);
    ASSERT_TRUE(l().reset_counters().ok());
    const fd source = udp_to("h0", 0, "h1", 9999);
    constexpr int datagrams = 2000;
    const char byte = 0;
    for (int i = 0; i < datagrams; ++i) (void)send(source.get(), &byte, 1, 0);
    const auto t = l().counters();
    ASSERT_TRUE(t.ok());
    // Standard deviation 18: this fails once in 10^8 runs.
    EXPECT_NEAR(double((*t)[link("h0-sw0")].dropped_packets), datagrams * 0.2, 105);
}

TEST_F(Fault, ASlowLinkIsSlowInBothDirectionsAndUpMendsIt) {
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=1,spines=2"));
    inject("leaf0-spine0", fault_kind::slow, 10);
    EXPECT_EQ(l().condition(link("leaf0-spine0")).mbit, 10);
    EXPECT_EQ(l().condition(link("spine0-leaf0")).mbit, 10);
    EXPECT_EQ(l().condition(link("leaf0-spine1")).mbit, 100);
    // Another process sees it too.
    const result<lab> again = lab::open("lab");
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->condition(link("spine0-leaf0")).mbit, 10);
    inject("leaf0-spine0", fault_kind::up);
    EXPECT_EQ(l().condition(link("spine0-leaf0")).mbit, 100);
}

TEST_F(Fault, ASlowLinkDelaysWhatItCarries) {
    ASSERT_TRUE(build("single:hosts=2"));
    inject("h0-sw0", fault_kind::slow, 1, true, true);
    const fd sink = udp("h1", sink_port), source = udp_to("h0", 0, "h1", sink_port);
    // What is beyond the 70 KB of the bucket waits, 1 s for 125 KB; never less, however busy.
    const std::vector<char> piece(8'000);
    std::vector<char> got(piece.size());
    constexpr int pieces = 12;
    int there = 0;
    const auto take = [&] {
        while (recv(sink.get(), got.data(), got.size(), MSG_DONTWAIT) == ssize_t(piece.size()))
            ++there;
    };
    const uint64_t start = now_ns();
    // The receiving socket has room for about as many.
    for (int i = 0; i < pieces; ++i, take())
        ASSERT_EQ(send(source.get(), piece.data(), piece.size(), 0), ssize_t(piece.size()));
    for (; there < pieces; take()) ASSERT_TRUE(readable(sink.get(), 20'000)) << there << " came";
    EXPECT_GE(double(now_ns() - start) / 1e9, (pieces * 8'042.0 - 70'000) / 125'000 * 0.99);
}

TEST_F(Fault, AHostIsCutOffByItsNameAndComesBack) {
    ASSERT_TRUE(build("single:hosts=3"));
    ASSERT_EQ(arrived("h0", "h1").size(), flows);
    inject("h1", fault_kind::down);
    EXPECT_EQ(arrived("h0", "h1").size(), 0u);
    EXPECT_EQ(arrived("h0", "h2").size(), flows);
    inject("h1", fault_kind::up);
    EXPECT_EQ(arrived("h0", "h1").size(), flows);
    EXPECT_EQ(arrived("h1", "h0").size(), flows);
}

TEST_F(Fault, ASwitchThatIsDownIsGoneAround) {
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=1,spines=2"));
    inject("spine0", fault_kind::down);
    EXPECT_EQ(arrived("leaf0p0", "leaf1p0").size(), flows);
    inject("spine1", fault_kind::down);
    EXPECT_EQ(arrived("leaf0p0", "leaf1p0").size(), 0u);
    inject("spine0", fault_kind::up);
    EXPECT_EQ(arrived("leaf0p0", "leaf1p0").size(), flows);
}

TEST_F(Fault, ALinkNameWithoutALaneIsAllItsLanes) {
    ASSERT_TRUE(build("bigraph:S=1,H=1,L=2"));
    inject("U0-L0/1", fault_kind::slow, 5);
    EXPECT_EQ(l().condition(link("U0-L0/0")).mbit, 100);
    EXPECT_EQ(l().condition(link("U0-L0/1")).mbit, 5);
    inject("U0-L0", fault_kind::slow, 7);
    EXPECT_EQ(l().condition(link("U0-L0/0")).mbit, 7);
    EXPECT_EQ(l().condition(link("U0-L0/1")).mbit, 7);
}

// ---------------------------------------------------------------- processes

char state_of(pid_t pid) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
    std::stringstream text;
    text << in.rdbuf();
    const size_t at = text.str().rfind(')');
    return at == std::string::npos ? '?' : text.str()[at + 2];
}

bool becomes(pid_t pid, const char* states) {
    for (const deadline limit = deadline::in_ms(10'000); !limit.passed(); usleep(1000))
        if (strchr(states, state_of(pid))) return true;
    return false;
}

TEST_F(Fault, AHostIsPausedResumedAndKilled) {
    ASSERT_TRUE(build("single:hosts=2"));
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    pid_t child = -1;
    const status s = l().inside(node("h1"), [&]() -> status {
        child = fork();
        if (child == 0) {
            (void)!write(ready[1], "r", 1);
            for (;;) pause();
        }
        return child > 0 ? status() : system_error("fork", errno);
    });
    ASSERT_TRUE(s.ok()) << s.text();
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    inject("h1", fault_kind::pause);
    EXPECT_TRUE(becomes(child, "T"));
    inject("h1", fault_kind::resume);
    EXPECT_TRUE(becomes(child, "S"));
    inject("h1", fault_kind::pause);
    inject("h1", fault_kind::kill);
    int how = 0;
    ASSERT_EQ(waitpid(child, &how, 0), child);
    EXPECT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    EXPECT_EQ(l().inject("h1", {fault_kind::kill}).text(), "h1: no process runs there");
    close(ready[0]);
    close(ready[1]);
}

TEST_F(Fault, RemovingALabEndsWhatRunsInItAlsoWhatIsPaused) {
    ASSERT_TRUE(build("single:hosts=2"));
    pid_t child = -1;
    ASSERT_TRUE(l().inside(node("h0"),
                           [&]() -> status {
                               child = fork();
                               if (child == 0)
                                   for (;;) pause();
                               return {};
                           })
                    .ok());
    inject("h0", fault_kind::pause);
    const result<size_t> gone = lab::remove("lab");
    ASSERT_TRUE(gone.ok()) << gone.why().text();
    EXPECT_EQ(*gone, 3u);
    int how = 0;
    ASSERT_EQ(waitpid(child, &how, 0), child);
    EXPECT_TRUE(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    EXPECT_TRUE(namespaces_like("eflab-").empty());
}

TEST_F(Fault, WhatCannotBeDoneIsAnErrorThatSaysWhy) {
    ASSERT_TRUE(build("single:hosts=2"));
    const auto why = [&](const std::string& where, const fault& f) {
        return std::string(l().inject(where, f).text());
    };
    EXPECT_EQ(why("h0-h1", {fault_kind::down}),
              "h0-h1: neither a link nor a host or switch; links are: h0-sw0 sw0-h0 h1-sw0 sw0-h1");
    EXPECT_EQ(why("sw0", {fault_kind::pause}), "sw0: not a host; hosts are: h0 .. h1");
    EXPECT_EQ(why("h0", {fault_kind::lossy, 101}), "lossy 101: 0 to 100 percent");
    EXPECT_EQ(why("h0", {fault_kind::slow, 0}), "slow 0: 0.1 to 100000 Mbit/s");
    EXPECT_EQ(why("h0", {fault_kind::down, 0, true, true}),
              "a cable is up or down in both directions, not in one");
}

}  // namespace
}  // namespace ef::lab
