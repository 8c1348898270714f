// Paths found by probing, in a fabric of real routers that hash flows over their links: held against
// the bytes that each link of it then carries.
#include "transport/path/probe.hpp"

#include "tests/lab/world.hpp"
#include "transport/base/clock.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <set>
#include <thread>

namespace ef::path {
namespace {

using lab::LabTest;

constexpr uint16_t data_port = 5000;

endpoint at(lab::ipv4 address, uint16_t port) {
    const sockaddr_in a = lab::socket_address(address, port);
    return of_sockaddr(reinterpret_cast<const sockaddr*>(&a), sizeof a);
}

class Probe : public LabTest {
protected:
    void SetUp() override {
        LabTest::SetUp();
        if (IsSkipped()) return;
        ASSERT_TRUE(build("leafspine:leaves=2,hosts=2,spines=4"));
        hosts_.assign(l().net().hosts().begin(), l().net().hosts().end());
    }

    std::string name(size_t host) { return l().net().at(hosts_[host]).name; }
    tuple flow(size_t from, size_t to, uint16_t port, protocol proto = protocol::tcp) {
        return {proto, at(l().address_of(hosts_[from]), port),
                at(l().address_of(hosts_[to]), data_port)};
    }
    /// Probe from within a host.
    std::vector<trace> probe(size_t host, std::vector<tuple> t, const probe_options& o = {}) {
        std::vector<trace> traces;
        const status s = l().inside(hosts_[host], [&]() -> status {
            traces = probe_paths(std::move(t), o);
            return {};
        });
        EXPECT_TRUE(s.ok()) << s.text();
        return traces;
    }
    fd listen_at(size_t host) { return listener(name(host), data_port); }

    /// Send so much from a socket bound to `port`, to a listener, and take it there.
    void send_bytes(size_t from, size_t to, const fd& listening, uint16_t port, size_t bytes) {
        fd out;
        const status s = l().inside(hosts_[from], [&]() -> status {
            out = fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
            const tuple t = flow(from, to, port);
            const linger none{1, 0};
            setsockopt(out.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
            if (bind(out.get(), t.from.get(), t.from.bytes) != 0 ||
                connect(out.get(), t.to.get(), t.to.bytes) != 0)
                return system_error("connect " + t.from.text(), errno);
            return {};
        });
        ASSERT_TRUE(s.ok()) << s.text();
        ASSERT_TRUE(lab::readable(listening.get(), 5000));
        const fd in(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
        ASSERT_TRUE(in);
        const std::vector<char> data(bytes, 'x');
        std::thread sender([&] { EXPECT_EQ(send(out.get(), data.data(), bytes, 0), bytes); });
        std::vector<char> got(bytes);
        EXPECT_EQ(recv(in.get(), got.data(), bytes, MSG_WAITALL), ssize_t(bytes));
        sender.join();
    }

    /// The link that an answer names.
    fabric::link_id into(const hop& h) {
        in_addr a{};
        EXPECT_EQ(inet_pton(AF_INET, h.address.c_str(), &a), 1) << h.address;
        return l().addresses().link_into(ntohl(a.s_addr));
    }
    fabric::node_id router(const hop& h) { return l().net().edge(into(h)).to; }
    std::set<fabric::link_id> links_of(const trace& t) {
        std::set<fabric::link_id> links;
        for (const hop& h : t.hops) links.insert(into(h));
        return links;
    }
    /// From now on a switch says "time exceeded" to a host once in `ms`, as its kernel counts.
    void ration(fabric::node_id at, unsigned ms) {
        const status s = l().inside(at, [&]() -> status {
            const auto put = [](const std::string& file, const std::string& text) -> status {
                const fd f(open(("/proc/sys/net/ipv4/" + file).c_str(), O_WRONLY | O_CLOEXEC));
                if (!f || write(f.get(), text.data(), text.size()) < 0)
                    return system_error(file, errno);
                return {};
            };
            const status mask = put("icmp_ratemask", "2048");  // 1 << type 11
            return mask.ok() ? put("icmp_ratelimit", std::to_string(ms)) : mask;
        });
        ASSERT_TRUE(s.ok()) << s.text();
    }
    static constexpr unsigned never_ms = 1'000'000;
    // Where silence is expected; 300 ms for all attempts, as a busy machine answers late.
    static probe_options impatient() {
        probe_options o;
        o.answer_ms = 20;
        return o;
    }
    /// Links that have carried at least so much since the last reset.
    std::set<fabric::link_id> links_with(uint64_t bytes, bool into_switches) {
        std::set<fabric::link_id> links;
        const result<std::vector<lab::traffic>> c = l().counters();
        EXPECT_TRUE(c.ok()) << c.why().text();
        for (fabric::link_id i = 0; c.ok() && i < c->size(); ++i) {
            const bool host = l().net().at(l().net().edge(i).to).kind == fabric::node_kind::host;
            if ((*c)[i].bytes >= bytes && host != into_switches) links.insert(i);
        }
        return links;
    }

    std::vector<fabric::node_id> hosts_;
};

TEST_F(Probe, FindsTheLinksThatTheDataThenTakes) {
    const fd listening = listen_at(2);
    std::vector<tuple> flows;
    for (uint16_t p = 0; p < 16; ++p) flows.push_back(flow(0, 2, uint16_t(20000 + p)));
    const std::vector<trace> traces = probe(0, flows);
    // What the probes have opened and reset is not the data's connection.
    fcntl(listening.get(), F_SETFL, O_NONBLOCK);
    for (fd s; (s = fd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC)));) {
    }
    fcntl(listening.get(), F_SETFL, 0);
    std::set<std::string> spines;
    constexpr size_t bytes = 100'000;
    for (uint16_t p = 0; p < 16; ++p) {
        const trace& t = traces[p];
        SCOPED_TRACE(t.text());
        ASSERT_TRUE(t.reached);
        ASSERT_EQ(t.hops.size(), 3u);
        spines.insert(t.hops[1].address);
        ASSERT_TRUE(l().reset_counters().ok());
        send_bytes(0, 2, listening, uint16_t(20000 + p), bytes);
        EXPECT_EQ(links_of(t), links_with(bytes / 2, true));
    }
    EXPECT_GT(spines.size(), 1u) << "all ports hash to one spine";
}

TEST_F(Probe, SaysTheSameEachTimeAndIsQuick) {
    const fd listening = listen_at(3);
    std::vector<tuple> flows;
    for (uint16_t p = 0; p < 30; ++p) flows.push_back(flow(0, 3, uint16_t(21000 + p)));
    const uint64_t since = now_ns();
    const std::vector<trace> first = probe(0, flows);
    const double us = double(now_ns() - since) / 1e3 / 30;
    RecordProperty("us_per_path", std::to_string(us));
    const std::vector<trace> second = probe(0, flows);
    for (size_t i = 0; i < flows.size(); ++i) {
        EXPECT_TRUE(first[i].reached) << first[i].text();
        EXPECT_EQ(first[i].hops, second[i].hops) << first[i].text() << " then " << second[i].text();
    }
}

TEST_F(Probe, RecognisesTheDestinationThoughNobodyListensThere) {
    for (const protocol p : {protocol::tcp, protocol::udp}) {
        const trace t = probe(0, {flow(0, 2, 22000, p)})[0];
        EXPECT_TRUE(t.reached) << t.text();
        EXPECT_EQ(t.hops.size(), 3u) << t.text();
    }
}

TEST_F(Probe, FindsThePathOfDatagramsByTheirOwnPorts) {
    const fd receiver = udp(name(2), data_port);
    std::vector<tuple> flows;
    for (uint16_t p = 23000; p < 23016; ++p) flows.push_back(flow(0, 2, p, protocol::udp));
    // The receiver says nothing: its silence takes all attempts.
    const std::vector<trace> traces = probe(0, flows, impatient());
    for (uint16_t p = 23000; p < 23016; ++p) {
        const trace& t = traces[p - 23000u];
        ASSERT_EQ(t.hops.size(), 3u) << t.text();
        ASSERT_TRUE(l().reset_counters().ok());
        fd out;
        const status s = l().inside(hosts_[0], [&]() -> status {
            out = fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
            const tuple f = flow(0, 2, p, protocol::udp);
            const std::vector<char> data(8000, 'x');
            if (bind(out.get(), f.from.get(), f.from.bytes) != 0)
                return system_error("bind", errno);
            for (int i = 0; i < 4; ++i)
                sendto(out.get(), data.data(), data.size(), 0, f.to.get(), f.to.bytes);
            return {};
        });
        ASSERT_TRUE(s.ok()) << s.text();
        const deadline d = deadline::in_ms(2000);
        while (links_with(16000, false).empty() && !d.passed()) usleep(1000);
        EXPECT_EQ(links_of(t), links_with(16000, true)) << t.text();
    }
}

TEST_F(Probe, NamesTheLastThatAnsweredBeforeADeadLink) {
    const trace before = probe(0, {flow(0, 2, 24000)})[0];
    ASSERT_EQ(before.hops.size(), 3u) << before.text();
    // The link behind the second router on this path: packets vanish in it and nobody is told.
    lab::fault f;
    f.what = lab::fault_kind::lossy;
    f.amount = 100;
    f.one_way = true;
    ASSERT_TRUE(l().inject(l().net().text_of(into(before.hops[2])), f).ok());
    const trace after = probe(0, {flow(0, 2, 24000)}, impatient())[0];
    EXPECT_FALSE(after.reached) << after.text();
    ASSERT_EQ(after.hops.size(), 2u) << after.text();
    EXPECT_EQ(after.hops[1], before.hops[1]);
}

TEST_F(Probe, PassesOnWhatARouterSaysThatHasNoWayOn) {
    const trace before = probe(0, {flow(0, 2, 24100)})[0];
    ASSERT_EQ(before.hops.size(), 3u) << before.text();
    lab::fault f;
    f.what = lab::fault_kind::down;
    f.reroute = false;
    ASSERT_TRUE(l().inject(l().net().text_of(into(before.hops[2])), f).ok());
    const uint64_t since = now_ns();
    const trace after = probe(0, {flow(0, 2, 24100)})[0];
    EXPECT_LT(now_ns() - since, 3'000'000'000u);
    EXPECT_FALSE(after.reached) << after.text();
    ASSERT_EQ(after.hops.size(), 2u) << after.text();
    EXPECT_EQ(after.hops[1], before.hops[1]) << after.text();
    EXPECT_NE(after.refusal.find("unreachable"), std::string::npos) << after.text();
}

TEST_F(Probe, AsksAgainUntilARouterThatRationsItsAnswersHasOneLeft) {
    const trace seen = probe(0, {flow(0, 2, 25000)})[0];
    ASSERT_EQ(seen.hops.size(), 3u) << seen.text();
    ration(router(seen.hops[1]), 100);
    // The first six may be answered out of savings, the others wait for one of ten a second.
    const uint64_t since = now_ns();
    for (int i = 0; i < 12; ++i) {
        const trace t = probe(0, {flow(0, 2, 25000)})[0];
        EXPECT_TRUE(t.reached);
        EXPECT_EQ(t.hops, seen.hops) << t.text();
    }
    EXPECT_GT(now_ns() - since, 300'000'000u) << "the router did not ration";
}

TEST_F(Probe, FindsWhatIsBehindARouterThatNeverAnswers) {
    const trace seen = probe(0, {flow(0, 2, 25100)})[0];
    ASSERT_EQ(seen.hops.size(), 3u) << seen.text();
    ration(router(seen.hops[1]), never_ms);
    const trace t = probe(0, {flow(0, 2, 25100)}, impatient())[0];
    EXPECT_TRUE(t.reached) << t.text();
    ASSERT_EQ(t.hops.size(), 3u) << t.text();
    EXPECT_TRUE(t.hops[1].address.empty()) << t.text();
    EXPECT_EQ(t.hops[2], seen.hops[2]) << t.text();
}

TEST_F(Probe, DoesNotTakeAPathForDeadBecauseItsRoutersAreMute) {
    const trace seen = probe(0, {flow(0, 2, 25200)})[0];
    ASSERT_EQ(seen.hops.size(), 3u) << seen.text();
    ration(router(seen.hops[0]), never_ms);
    ration(router(seen.hops[1]), never_ms);
    const trace two = probe(0, {flow(0, 2, 25200)}, impatient())[0];
    EXPECT_TRUE(two.reached) << two.text();
    ASSERT_EQ(two.hops.size(), 3u) << two.text();
    EXPECT_EQ(two.hops[2], seen.hops[2]) << "hops behind the mute ones are still told";

    ration(router(seen.hops[2]), never_ms);
    const trace none = probe(0, {flow(0, 2, 25200)}, impatient())[0];
    EXPECT_TRUE(none.reached) << none.text();
    ASSERT_EQ(none.hops.size(), 3u) << none.text();
    for (const hop& h : none.hops) EXPECT_TRUE(h.address.empty()) << none.text();
}

TEST_F(Probe, GoesNoFartherThanItMay) {
    probe_options o;
    o.most_hops = 2;
    const trace t = probe(0, {flow(0, 2, 25300)}, o)[0];
    EXPECT_FALSE(t.reached) << t.text();
    EXPECT_EQ(t.hops.size(), 2u) << t.text();
}

TEST_F(Probe, GetsByWithFewDescriptors) {
    std::vector<tuple> flows;
    for (uint16_t p = 25400; p < 25440; ++p) flows.push_back(flow(0, 2, p));
    std::vector<trace> traces;
    const status s = l().inside(hosts_[0], [&]() -> status {
        rlimit before{};
        const fd next(dup(0));
        if (!next || getrlimit(RLIMIT_NOFILE, &before) != 0) return system_error("dup", errno);
        // The prober's epoll and five probes.
        rlimit few{rlim_t(next.get()) + 7, before.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &few) != 0) return system_error("setrlimit", errno);
        traces = probe_paths(flows, {});
        setrlimit(RLIMIT_NOFILE, &before);
        return {};
    });
    ASSERT_TRUE(s.ok()) << s.text();
    for (const trace& t : traces) EXPECT_TRUE(t.reached) << t.text();
}

TEST_F(Probe, LetsFlowsThatWantOnePortTakeTurns) {
    for (const protocol p : {protocol::tcp, protocol::udp}) {
        const std::vector<trace> t =
            probe(0, {flow(0, 2, 25500, p), flow(0, 3, 25500, p), flow(0, 2, 25500, p)});
        for (const trace& x : t) EXPECT_TRUE(x.reached) << x.text();
        EXPECT_EQ(t[0].hops, t[2].hops);
    }
}

TEST_F(Probe, SaysThatAPortIsTaken) {
    const fd holder = listener(name(0), 26000);
    ASSERT_TRUE(holder);
    const std::vector<trace> t = probe(0, {flow(0, 2, 26000), flow(0, 2, 26001)});
    EXPECT_EQ(t[0].why.code(), EF_NO_RESOURCE) << t[0].text();
    EXPECT_NE(t[0].why.text().find(":26000"), std::string::npos) << t[0].why.text();
    EXPECT_TRUE(t[1].reached) << "the others are probed: " << t[1].text();
}

TEST_F(Probe, EndsAtItsDeadlineWhateverIsSilent) {
    probe_options o;
    o.deadline_ms = 300;
    o.at_once = 8;
    lab::fault f;
    f.what = lab::fault_kind::lossy;
    f.amount = 100;
    ASSERT_TRUE(l().inject(name(0), f).ok());
    std::vector<tuple> flows;
    for (uint16_t p = 27000; p < 27500; ++p) flows.push_back(flow(0, 2, p));
    const uint64_t since = now_ns();
    const std::vector<trace> t = probe(0, flows, o);
    EXPECT_LT(now_ns() - since, 3'000'000'000u);
    for (const trace& x : t) EXPECT_FALSE(x.reached);
    // Most had no turn: nothing is known of them, which is not silence.
    EXPECT_TRUE(t.front().why.ok()) << t.front().why.text();
    EXPECT_EQ(t.back().why.code(), EF_TIMEOUT) << t.back().text();
}

TEST(ProbeLoopback, ReachesAnIPv6DestinationWithoutARouter) {
    sockaddr_in6 a{};
    a.sin6_family = AF_INET6;
    a.sin6_addr = in6addr_loopback;
    tuple t;
    t.from = t.to = of_sockaddr(reinterpret_cast<const sockaddr*>(&a), sizeof a);
    const fd probing(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!probing || bind(probing.get(), t.from.get(), t.from.bytes) != 0)
        GTEST_SKIP() << "no IPv6 loopback here";
    t.to.set_port(9);
    const endpoint free_port = local_end(probing.get());
    for (const protocol p : {protocol::tcp, protocol::udp}) {
        t.proto = p;
        t.from.set_port(uint16_t(free_port.port() ^ 1));
        const trace seen = probe_paths({t}, {})[0];
        EXPECT_TRUE(seen.reached) << seen.text();
        EXPECT_TRUE(seen.hops.empty()) << seen.text();
    }
}

}  // namespace
}  // namespace ef::path
