// Deaths, goodbyes, aborts, and strangers at every listening port.
#include "tests/transport/bootstrap/ranks.hpp"
#include "transport/bootstrap/endpoint.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstring>

namespace ef {
namespace {

using namespace ef::test;

/// A rank in a process of its own that joins and then only makes progress.
pid_t fork_rank(rank_t r, rank_t nranks, const std::string& root) {
    const pid_t child = fork();
    if (child != 0) return child;
    result<waiter> w = waiter::create();
    auto g = group::join(launch_of(r, nranks, root), config_of(10'000), *w);
    if (!g.ok()) _exit(1);
    for (const deadline d = deadline::in_ms(20'000); !d.passed();) {
        (*g)->progress();
        usleep(1000);
    }
    _exit(2);
}

TEST(GroupDeath, IsNamedByEveryOtherRankWithinTwoSeconds) {
    constexpr rank_t nranks = 6, victim = 3;
    std::string root;
    fd listening = listen_loopback(root);
    const pid_t child = fork_rank(victim, nranks, root);
    ASSERT_GT(child, 0);
    std::barrier joined(nranks);
    std::atomic<uint64_t> killed_at{0};
    std::vector<std::thread> threads;
    for (rank_t r = 0; r < nranks; ++r) {
        if (r == victim) continue;
        threads.emplace_back([&, r] {
            launch l = launch_of(r, nranks, root);
            if (r == 0) l.listener = std::move(listening);
            result<waiter> w = waiter::create();
            auto g = group::join(std::move(l), config_of(10'000), *w);
            EXPECT_TRUE(g.ok()) << g.why().text();
            joined.arrive_and_wait();
            if (!g.ok()) return;
            EXPECT_TRUE(progress_until(**g, [&] { return !(*g)->failure().ok(); }));
            EXPECT_EQ((*g)->failure().code(), EF_PEER_LOST);
            const std::string want = (*g)->name(victim).text() + " died";
            EXPECT_EQ((*g)->failure().text().substr(0, want.size()), want);
            EXPECT_NE(want.find(std::to_string(child)), std::string::npos) << want;
            EXPECT_LT(now_ns() - killed_at.load(), 2'000'000'000u);
        });
    }
    std::thread killer([&] {
        killed_at = now_ns() + 1'000'000'000;  // until it is known
        joined.arrive_and_wait();
        killed_at = now_ns();
        kill(child, SIGKILL);
    });
    for (std::thread& t : threads) t.join();
    killer.join();
    int how = 0;
    waitpid(child, &how, 0);
    EXPECT_TRUE(WIFSIGNALED(how));
}

TEST(GroupGoodbye, IsNoDeathAndReachesEveryRank) {
    std::barrier over(8);
    with_ranks(8, [&](member m) {
        if (m.rank == 5) {
            m.g.leave();
        } else {
            EXPECT_TRUE(progress_until(m.g, [&] { return m.g.gone(5); }));
            m.g.suspect(5, status(EF_PEER_LOST, "its connection closed"));
            progress_until(
                m.g, [] { return false; }, 300);
            EXPECT_TRUE(m.g.failure().ok()) << m.g.failure().text();
        }
        over.arrive_and_wait();
        m.g.leave();
    });
}

TEST(GroupGoodbye, LetsRanksLeaveInAnyOrder) {
    with_ranks(5, [&](member m) {
        progress_until(
            m.g, [] { return false; }, 20 * m.rank);
        EXPECT_TRUE(m.g.failure().ok()) << m.g.failure().text();
        m.g.leave();
    });
}

TEST(GroupAbort, ReachesEveryRankWithCodeTextAndWhoSaidIt) {
    std::barrier joined(7), over(7);
    with_ranks(7, [&](member m) {
        joined.arrive_and_wait();
        if (m.rank == 2) m.g.abort(status(EF_ABORTED, "it has had enough"));
        EXPECT_TRUE(progress_until(m.g, [&] { return !m.g.failure().ok(); }));
        EXPECT_EQ(m.g.failure().code(), EF_ABORTED);
        EXPECT_EQ(m.g.failure().text(), m.g.name(2).text() + ": it has had enough");
        over.arrive_and_wait();
    });
}

TEST(GroupSuspicion, BecomesADeathWhenNoGoodbyeExplainsIt) {
    std::barrier joined(4), over(4);
    with_ranks(4, [&](member m) {
        joined.arrive_and_wait();
        const uint64_t start = now_ns();
        if (m.rank == 0) m.g.suspect(1, status(EF_PEER_LOST, "connection reset"));
        EXPECT_TRUE(progress_until(m.g, [&] { return !m.g.failure().ok(); }));
        EXPECT_GT(now_ns() - start, 100'000'000u);
        EXPECT_NE(m.g.failure().text().find("rank 1 ("), std::string_view::npos);
        EXPECT_NE(m.g.failure().text().find("connection reset"), std::string_view::npos);
        over.arrive_and_wait();
    });
}

/// Connect to `to`, send `bytes`, and keep the socket.
fd stranger(const endpoint& to, std::string_view bytes) {
    fd s(socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(s.get(), to.get(), to.bytes) != 0) return fd();
    if (!bytes.empty()) (void)!send(s.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return s;
}

TEST(GroupDescriptors, WhenTheyRunOutTheErrorNamesTheLimit) {
    std::string root;
    fd listening = listen_loopback(root);
    // In a child, since the limit is the process's; each count of free descriptors ends elsewhere.
    for (int spare = 0; spare < 6; ++spare) {
        const pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            std::string here;
            launch l = launch_of(0, 2, "");
            l.listener = listen_loopback(here);
            l.one_host = true;
            result<waiter> w = waiter::create();
            const int next = dup(0);
            close(next);
            const rlimit limit{rlim_t(next + spare), rlim_t(next + spare)};
            setrlimit(RLIMIT_NOFILE, &limit);
            std::thread peer([&here] {
                const fd s = stranger((*resolve(here))[0], "");
                usleep(400'000);
            });
            const auto g = group::join(std::move(l), config_of(300), *w);
            peer.join();
            const status why = g.why();
            const bool named = why.text().find("RLIMIT_NOFILE") != std::string_view::npos;
            if (!named) fprintf(stderr, "%d spare: %s\n", spare, std::string(why.text()).c_str());
            // With enough to spare the other rank is what is missing.
            _exit(named && why.code() == EF_NO_RESOURCE ? 0 : why.code() == EF_TIMEOUT ? 3 : 1);
        }
        int how = 0;
        waitpid(child, &how, 0);
        ASSERT_TRUE(WIFEXITED(how));
        if (spare < 3) {
            EXPECT_EQ(WEXITSTATUS(how), 0) << spare;
        } else {
            EXPECT_NE(WEXITSTATUS(how), 1) << spare;
        }
    }
}

std::vector<fd> strangers(const endpoint& to) {
    std::string half(60, '\0');  // the beginning of a hello
    memcpy(half.data(), "EFHS\1\0\0\0", 8);
    std::vector<fd> all;
    for (int i = 0; i < 50; ++i) {        // 200 in all: fits the backlog, beyond the limit
        all.push_back(stranger(to, ""));  // silent
        all.push_back(stranger(to, "GET / HTTP/1.1\r\n\r\n"));
        all.push_back(stranger(to, half));
        std::string forged(112, '\0');
        memcpy(forged.data(), half.data(), 8);
        forged[8] = 2;  // control, from 0 to 1 of 2, with a mac of zeros
        forged[14] = 1;
        forged[20] = 1;
        forged[24] = 2;
        all.push_back(stranger(to, forged));
    }
    return all;
}

TEST(Strangers, AtTheRootsPortDelayNobody) {
    std::string root;
    fd listening = listen_loopback(root);
    const std::vector<fd> there = strangers((*resolve(root))[0]);
    std::vector<std::thread> threads;
    for (rank_t r = 0; r < 3; ++r)
        threads.emplace_back([&, r] {
            launch l = launch_of(r, 3, root);
            if (r == 0) l.listener = std::move(listening);
            result<waiter> w = waiter::create();
            auto g = group::join(std::move(l), config_of(5'000), *w);
            EXPECT_TRUE(g.ok()) << g.why().text();
            if (g.ok()) (*g)->leave();
        });
    for (std::thread& t : threads) t.join();
}

TEST(Strangers, AtTheDataListenersDelayNeitherExchangeNorLinks) {
    with_ranks(3, [&](member m) {
        const rank_t other = (m.rank + 1) % 3;
        const std::vector<fd> tcp = strangers((*resolve(m.g.info(other).address))[0]);
        const std::vector<fd> near = strangers(abstract_unix(m.g.info(other).unix_name));
        for (rank_t r = 0; r < 3; ++r) m.g.want(r, 0, 1);
        const int32_t mine = m.rank;
        for (int i = 0; i < 20; ++i)
            EXPECT_TRUE(m.g.exchange(std::as_bytes(std::span(&mine, 1))).ok());
        size_t up = 0;
        EXPECT_TRUE(progress_until(
            m.g,
            [&] {
                for (link l; m.g.next(l);) ++up;
                return up == 2;
            },
            4000))
            << up;
        EXPECT_TRUE(m.g.exchange(std::as_bytes(std::span(&mine, 1))).ok());
        m.g.leave();
    });
}

TEST(Strangers, GetNothingButAChallengeAndAreDroppedAtOnceForGarbage) {
    with_ranks(2, [&](member m) {
        if (m.rank == 0) {
            const fd s = stranger((*resolve(m.g.info(0).address))[0], "GET / HTTP/1.1\r\n\r\n");
            std::string heard;
            const auto closed = [&] {
                char buf[256];
                const ssize_t n = recv(s.get(), buf, sizeof(buf), MSG_DONTWAIT);
                if (n > 0) heard.append(buf, size_t(n));
                return n == 0 || (n < 0 && errno != EAGAIN);
            };
            EXPECT_TRUE(progress_until(m.g, closed));
            EXPECT_LE(heard.size(), 40u);
        }
        const int32_t mine = m.rank;
        EXPECT_TRUE(m.g.exchange(std::as_bytes(std::span(&mine, 1))).ok());
        m.g.leave();
    });
}

}  // namespace
}  // namespace ef
