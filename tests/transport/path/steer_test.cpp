// Ranks in a fabric of real routers choose their paths together; the bytes on each link of it are
// the judge.
#include "transport/path/steer.hpp"

#include "allreduce/links.hpp"
#include "tests/lab/world.hpp"
#include "tests/transport/bootstrap/ranks.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

namespace ef::path {
namespace {

constexpr size_t bytes_sent = 300'000;

struct rank_in_lab {
    rank_t rank;
    group& g;
    links& l;
};

class Steer : public lab::LabTest {
protected:
    /// One rank per host, each on a thread in its namespace.
    void with_ranks(
        const std::function<void(rank_in_lab)>& body,
        const std::function<const char*(rank_t)>& steer = [](rank_t) { return "on"; }) {
        const auto hosts = l().net().hosts();
        const auto n = rank_t(hosts.size());
        ++root_port_;  // the last one may be in TIME_WAIT
        fd root = listener(l().net().at(hosts[0]).name, root_port_);
        ASSERT_TRUE(root);
        fcntl(root.get(), F_SETFL, O_NONBLOCK);
        const std::string at =
            fmt::format("{}:{}", lab::text_of(l().address_of(hosts[0])), root_port_);
        std::vector<std::thread> threads;
        for (rank_t r = 0; r < n; ++r)
            threads.emplace_back([&, r] {
                const status s = l().inside(hosts[size_t(r)], [&]() -> status {
                    launch how = test::launch_of(r, n, at);
                    if (r == 0) how.listener = std::move(root);
                    config c = test::config_of(20'000);
                    c.transport = "tcp";
                    c.host_id = std::to_string(r);
                    c.shm_single_copy = "off";
                    c.steer = steer(r);
                    result<waiter> w = waiter::create();
                    if (!w.ok()) return w.why();
                    result<std::unique_ptr<group>> g = group::join(std::move(how), c, *w);
                    if (!g.ok()) return g.why();
                    links all(**g, *w, c);
                    body({r, **g, all});
                    const status end = meet(**g);
                    (*g)->leave();
                    return end;
                });
                EXPECT_TRUE(s.ok()) << "rank " << r << ": " << s.text();
            });
        for (std::thread& t : threads) t.join();
    }

    static status meet(group& g) {
        const std::byte one{1};
        return g.exchange(std::span(&one, 1)).why();
    }

    static bool connect(rank_in_lab me, std::initializer_list<rank_t> peers) {
        for (const rank_t p : peers) me.l.want(p, traffic::collectives);
        std::string why;
        const bool up = test::progress_until(
            me.g,
            [&] {
                const result<bool> moved = me.l.progress();
                if (!moved.ok()) why = moved.why().text();
                return !why.empty() || !me.l.connecting();
            },
            5000);
        EXPECT_TRUE(up && why.empty()) << "rank " << me.rank << " not connected: " << why;
        return up && why.empty();
    }

    /// Everybody sends to `to` and takes from `from`.
    static void exchange_data(rank_in_lab me, rank_t to, rank_t from) {
        channel* out = me.l.channels(traffic::collectives)[size_t(to)];
        channel* in = me.l.channels(traffic::collectives)[size_t(from)];
        ASSERT_TRUE(out && in);
        std::vector<std::byte> data(bytes_sent, std::byte(me.rank)), got(bytes_sent);
        bool taken = false, given = false;
        for (const deadline d = deadline::in_ms(8000); !d.passed() && !(taken && given);) {
            if (!given) given = out->send(7, data.data(), data.size(), ownership::borrow);
            out->progress();
            message m;
            if (!taken && in->peek(m) && in->fetch(got.data()) == bytes_sent) {
                in->release();
                taken = true;
            }
        }
        EXPECT_TRUE(taken && given) << "rank " << me.rank << ": " << out->error().text();
        EXPECT_EQ(std::count(got.begin(), got.end(), std::byte(from)), ptrdiff_t(bytes_sent));
        while (out->completed() < out->sent()) out->progress();
    }

    /// From now on a link loses all tcp packets from these source ports, and nobody is told. The
    /// ranks' control connections, which have others, stay.
    status swallow(fabric::link_id i, uint16_t first_port) {
        const fabric::link& e = l().net().edge(i);
        const std::string rules = fmt::format(
            "nft 'add table ip t; add chain ip t f {{ type filter hook postrouting priority 0; }}; "
            "add rule ip t f oifname {} tcp sport {}-{} drop'",
            l().addresses().interface_of(i), first_port, first_port + 2000);
        return l().inside(e.from, [&]() -> status {
            return system(rules.c_str()) == 0 ? status() : status(EF_SYSTEM, rules);
        });
    }

    /// Whether swallow() can work: nft is installed, and the kernel has what it needs.
    bool can_swallow() {
        const char* const probe = "nft 'add table ip t; delete table ip t' >/dev/null 2>&1";
        return l()
            .inside(l().net().hosts()[0],
                    [&]() -> status {
                        return system(probe) == 0 ? status() : status(EF_SYSTEM, probe);
                    })
            .ok();
    }

    fabric::link_id link_of(const std::string& router) {
        in_addr a{};
        inet_pton(AF_INET, router.c_str(), &a);
        return l().addresses().link_into(ntohl(a.s_addr));
    }

    /// Flows' worth of data that each link between switches carries, rounded.
    std::map<fabric::link_id, uint64_t> loads() {
        std::map<fabric::link_id, uint64_t> on;
        const result<std::vector<lab::traffic>> c = l().counters();
        EXPECT_TRUE(c.ok()) << c.why().text();
        for (fabric::link_id i = 0; c.ok() && i < c->size(); ++i) {
            const fabric::link& e = l().net().edge(i);
            const bool inner = l().net().at(e.from).kind == fabric::node_kind::network_switch &&
                               l().net().at(e.to).kind == fabric::node_kind::network_switch;
            const uint64_t flows = ((*c)[i].bytes + bytes_sent / 2) / bytes_sent;
            if (inner && flows) on[i] = flows;
        }
        return on;
    }

private:
    uint16_t root_port_ = 4000;
};

TEST_F(Steer, PutsEachFlowOfARoundOnLinksOfItsOwn) {
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=4,spines=4"));
    std::mutex m;
    std::map<fabric::link_id, uint64_t> predicted;
    with_ranks([&](rank_in_lab me) {
        const rank_t peer = (me.rank + 4) % 8;
        const std::vector<peer_rounds> flows = {{peer, {0}}};
        const status s = me.l.steer(flows);
        ASSERT_TRUE(s.ok()) << s.text();
        const steering& chosen = *me.l.paths();
        EXPECT_EQ(chosen.worst, 1u);
        EXPECT_TRUE(chosen.shared.empty()) << chosen.shared[0].text();
        EXPECT_FALSE(chosen.by_router);
        ASSERT_EQ(chosen.peers.size(), 1u);
        EXPECT_TRUE(chosen.peers[0].why.ok()) << chosen.peers[0].text();
        {
            const std::lock_guard hold(m);
            for (size_t i = 1; i < chosen.peers[0].predicted.hops.size(); ++i)
                ++predicted[link_of(chosen.peers[0].predicted.hops[i].address)];
        }
        if (!connect(me, {peer})) return;
        (void)meet(me.g);
        if (me.rank == 0) {
            EXPECT_TRUE(l().reset_counters().ok());
        }
        (void)meet(me.g);
        exchange_data(me, peer, peer);
    });
    EXPECT_EQ(loads(), predicted) << "the data takes the links that were predicted, alone";
    EXPECT_EQ(predicted.size(), 16u);
}

TEST_F(Steer, KeepsTheRoundsOfSeveralPeersApartEach) {
    ASSERT_TRUE(build("leafspine:leaves=4,hosts=2,spines=2"));
    with_ranks([&](rank_in_lab me) {
        const std::vector<peer_rounds> flows = {
            {me.rank ^ 1, {0, 5}}, {me.rank ^ 2, {1, 4}}, {me.rank ^ 4, {2, 3}}};
        const status s = me.l.steer(flows);
        ASSERT_TRUE(s.ok()) << s.text();
        EXPECT_EQ(me.l.paths()->worst, 1u);
        EXPECT_EQ(me.l.paths()->peers.size(), 3u);
        EXPECT_TRUE(connect(me, {me.rank ^ 1, me.rank ^ 2, me.rank ^ 4}));
    });
}

TEST_F(Steer, NamesTheLinksThatMustBeShared) {
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=3,spines=2"));
    with_ranks([&](rank_in_lab me) {
        const std::vector<peer_rounds> flows = {{(me.rank + 3) % 6, {9}}};
        const status s = me.l.steer(flows);
        ASSERT_TRUE(s.ok()) << s.text();
        const steering& chosen = *me.l.paths();
        EXPECT_EQ(chosen.worst, 2u);
        ASSERT_EQ(chosen.shared.size(), 4u) << "up and down, from either side";
        for (const shared_link& x : chosen.shared) {
            EXPECT_EQ(x.round, 9u);
            EXPECT_EQ(x.flows.size(), 2u);
            EXPECT_LT(link_of(x.link), l().net().links().size()) << x.text();
        }
    });
}

TEST_F(Steer, GoesAroundADeadLinkAndNamesItsEnds) {
    ASSERT_TRUE(build("leafspine:leaves=2,hosts=3,spines=4"));
    if (!can_swallow()) GTEST_SKIP() << "no packet filter: nft is not installed or does not work";
    steer_options quick;
    quick.probe.answer_ms = 20;
    std::string before, behind;
    with_ranks([&](rank_in_lab me) {
        const rank_t peer = (me.rank + 3) % 6;
        const std::vector<peer_rounds> flows = {{peer, {0}}};
        status s = me.l.steer(flows, quick);
        ASSERT_TRUE(s.ok()) << s.text();
        if (!connect(me, {peer})) return;
        exchange_data(me, peer, peer);
        (void)meet(me.g);  // nothing is under way when the link dies
        if (me.rank == 0) {
            const std::vector<hop> path = me.l.paths()->peers[0].predicted.hops;
            ASSERT_EQ(path.size(), 3u);
            behind = path[1].address;
            before = path[2].address;
            const status injected = swallow(link_of(before), quick.first_port);
            ASSERT_TRUE(injected.ok()) << injected.text();
        }
        (void)meet(me.g);
        const result<std::vector<checked_path>> changed = me.l.resteer(quick);
        ASSERT_TRUE(changed.ok()) << changed.why().text();
        // Everybody hears of rank 0's path.
        const auto of_0 = std::find_if(changed->begin(), changed->end(),
                                       [](const checked_path& p) { return p.from == 0; });
        ASSERT_NE(of_0, changed->end());
        EXPECT_EQ(of_0->state, path_state::dead);
        EXPECT_EQ(of_0->last_seen, behind) << of_0->text();
        EXPECT_EQ(of_0->next_silent, before) << of_0->text();
        EXPECT_EQ(me.l.paths()->worst, 1u) << "three flows, three spines left";
        for (const hop& h : me.l.paths()->peers[0].predicted.hops) EXPECT_NE(h.address, before);
        if (connect(me, {peer})) exchange_data(me, peer, peer);
    });
}

TEST_F(Steer, RefusesRanksThatDoNotSteerAlike) {
    ASSERT_TRUE(build("single:hosts=2"));
    for (const rank_t unlike : {0, 1}) {
        std::atomic<int> told{0};
        with_ranks(
            [&](rank_in_lab me) {
                EXPECT_EQ(me.l.steers(), me.rank != unlike);
                if (!me.l.steers()) {
                    EXPECT_EQ(me.l.steer({}).code(), EF_INVALID);
                }
                me.l.want(1 - me.rank, traffic::collectives);
                (void)test::progress_until(me.g, [&] {
                    const result<bool> moved = me.l.progress();
                    if (moved.ok()) return told > 0;
                    EXPECT_EQ(moved.why().code(), EF_MISMATCH) << moved.why().text();
                    EXPECT_NE(moved.why().text().find("EFLOPS_STEER"), std::string::npos);
                    ++told;
                    return true;
                });
            },
            [&](rank_t r) { return r == unlike ? "off" : "on"; });
        EXPECT_GT(told, 0);
    }
}

TEST(RoceChoice, GivesTheFlowLabelThatLinuxTurnsIntoThisSourcePort) {
    for (uint32_t port = 0xc000; port <= 0xffff; ++port)
        ASSERT_EQ(roce_source_port(roce_choice(uint16_t(port)).flow_label), port);
    EXPECT_EQ(roce_source_port(0xfffff), 0xc000 | (0x3fff ^ 0x3f));
}

}  // namespace
}  // namespace ef::path
