// Paths found by probing, in a fabric of real routers that hash flows over their links: held against
// the bytes that each link of it then carries.
#include "transport/path/probe.hpp"

#include "tests/lab/world.hpp"
#include "transport/base/clock.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
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

    /// Links named by the answers of a trace: the ones into its routers.
    std::set<fabric::link_id> links_of(const trace& t) {
        std::set<fabric::link_id> links;
        for (const hop& h : t.hops) {
            in_addr a{};
            inet_pton(AF_INET, h.address.c_str(), &a);
            links.insert(l().addresses().link_into(ntohl(a.s_addr)));
        }
        return links;
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
    for (uint16_t p = 0; p < 8; ++p) flows.push_back(flow(0, 2, uint16_t(20000 + p)));
    const std::vector<trace> traces = probe(0, flows);
    // What the probes have opened and reset is not the data's connection.
    fcntl(listening.get(), F_SETFL, O_NONBLOCK);
    for (fd s; (s = fd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC)));) {
    }
    fcntl(listening.get(), F_SETFL, 0);
    std::set<std::string> spines;
    constexpr size_t bytes = 100'000;
    for (uint16_t p = 0; p < 8; ++p) {
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
    probe_options quick;  // the receiver says nothing: its silence takes all attempts
    quick.answer_ms = 10;
    for (uint16_t p = 23000; p < 23004; ++p) {
        const trace t = probe(0, {flow(0, 2, p, protocol::udp)}, quick)[0];
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
    probe_options quick;
    quick.answer_ms = 10;
    const trace before = probe(0, {flow(0, 2, 24000)})[0];
    ASSERT_EQ(before.hops.size(), 3u) << before.text();
    // The link behind the second router on this path: packets vanish in it and nobody is told.
    in_addr a{};
    inet_pton(AF_INET, before.hops[2].address.c_str(), &a);
    const fabric::link_id dead = l().addresses().link_into(ntohl(a.s_addr));
    lab::fault f;
    f.what = lab::fault_kind::lossy;
    f.amount = 100;
    f.one_way = true;
    ASSERT_TRUE(l().inject(l().net().text_of(dead), f).ok());
    const trace after = probe(0, {flow(0, 2, 24000)}, quick)[0];
    EXPECT_FALSE(after.reached) << after.text();
    ASSERT_EQ(after.hops.size(), 2u) << after.text();
    EXPECT_EQ(after.hops[1], before.hops[1]);
}

TEST_F(Probe, AsksAgainWhereAnswersAreScarceAndReportsSilenceInTheEnd) {
    // A router that answers nobody, and one that answers a few times a second.
    const trace seen = probe(0, {flow(0, 2, 25000)})[0];
    ASSERT_EQ(seen.hops.size(), 3u) << seen.text();
    in_addr a{};
    inet_pton(AF_INET, seen.hops[1].address.c_str(), &a);
    const fabric::node_id mute = l().net().edge(l().addresses().link_into(ntohl(a.s_addr))).to;
    const status s = l().inside(mute, []() -> status {
        // 2048: time exceeded (bit 11), 10 s between two of them.
        for (const auto& [file, text] :
             {std::pair("icmp_ratemask", "2048"), std::pair("icmp_ratelimit", "100000")}) {
            const fd f(
                open((std::string("/proc/sys/net/ipv4/") + file).c_str(), O_WRONLY | O_CLOEXEC));
            if (!f || write(f.get(), text, strlen(text)) < 0) return system_error(file, errno);
        }
        return {};
    });
    ASSERT_TRUE(s.ok()) << s.text();
    probe_options quick;
    quick.answer_ms = 5;
    trace t;
    for (int i = 0; i < 12; ++i) {
        const uint64_t since = now_ns();
        t = probe(0, {flow(0, 2, 25000)}, quick)[0];
        EXPECT_LT(now_ns() - since, 3'000'000'000u);
        ASSERT_TRUE(t.reached) << t.text();
        if (t.hops[1].address.empty()) break;
    }
    ASSERT_EQ(t.hops.size(), 3u);
    EXPECT_TRUE(t.hops[1].address.empty()) << t.text();
    EXPECT_EQ(t.hops[2], seen.hops[2]) << "what is behind a silent router is found all the same";
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
