#include "tests/transport/bootstrap/ranks.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstring>

namespace ef {
namespace {

using namespace ef::test;

std::vector<std::byte> bytes_of(int v) {
    std::vector<std::byte> b(sizeof(v));
    memcpy(b.data(), &v, sizeof(v));
    return b;
}

int value_at(const std::vector<std::byte>& all, rank_t r) {
    int v = 0;
    memcpy(&v, all.data() + size_t(r) * sizeof(v), sizeof(v));
    return v;
}

void expect_exchange(group& g, int base) {
    auto all = g.exchange(bytes_of(base + g.rank()));
    ASSERT_TRUE(all.ok()) << all.why().text();
    ASSERT_EQ(all->size(), size_t(g.nranks()) * sizeof(int));
    for (rank_t r = 0; r < g.nranks(); ++r) EXPECT_EQ(value_at(*all, r), base + r);
}

class Group : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Group, testing::Values(1, 2, 3, 5, 8, 16));

TEST_P(Group, JoinsAndGivesEveryRankEveryValueManyTimes) {
    with_ranks(GetParam(), [](member m) {
        for (int i = 0; i < 10; ++i) expect_exchange(m.g, 1000 * i);
        for (rank_t r = 0; r < m.g.nranks(); ++r) {
            EXPECT_EQ(m.g.info(r).pid, getpid());
            EXPECT_TRUE(m.g.local(r));
        }
        m.g.leave();
    });
}

TEST_P(Group, CarriesEveryWordToEveryRankOnceAndInTheSpeakersOrder) {
    constexpr int words = 20;
    std::barrier over(GetParam());
    with_ranks(GetParam(), [&](member m) {
        std::vector<int> heard(static_cast<size_t>(GetParam()));
        const deadline end = deadline::in_ms(10'000);
        int said = 0, total = 0;
        while (total < words * GetParam() && !end.passed()) {
            if (said < words) m.g.tell(bytes_of(++said));
            m.g.progress();
            rank_t from = -1;
            for (std::vector<std::byte> data; m.g.next_word(from, data); ++total)
                EXPECT_EQ(value_at(data, 0), ++heard[size_t(from)]) << "from rank " << from;
        }
        EXPECT_EQ(total, words * GetParam());
        over.arrive_and_wait();
        m.g.progress();
        rank_t from = -1;
        std::vector<std::byte> more;
        EXPECT_FALSE(m.g.next_word(from, more));
        m.g.leave();
    });
}

TEST_P(Group, SplitsByColorInTheOrderOfKeys) {
    with_ranks(GetParam(), [](member m) {
        result<waiter> w = waiter::create();
        ASSERT_TRUE(w.ok());
        // Rank 0 takes no part; the others split into odd and even, in reverse order.
        const int color = m.rank == 0 ? -1 : m.rank % 2;
        auto s = m.g.split(color, -m.rank, *w);
        ASSERT_TRUE(s.ok()) << s.why().text();
        ASSERT_EQ(*s == nullptr, color < 0);
        if (*s) {
            group& n = **s;
            auto all = n.exchange(bytes_of(m.rank));
            ASSERT_TRUE(all.ok()) << all.why().text();
            for (rank_t r = 0; r < n.nranks(); ++r) {
                EXPECT_EQ(value_at(*all, r) % 2, color);
                if (r > 0) {
                    EXPECT_LT(value_at(*all, r), value_at(*all, r - 1));
                }
            }
            EXPECT_EQ(value_at(*all, n.rank()), m.rank);
            n.leave();
        }
        expect_exchange(m.g, 7);
        m.g.leave();
    });
}

TEST(GroupLinks, AreMadeBetweenEveryPairOverUnixAndOverTcp) {
    for (const char* transport : {"auto", "tcp"})
        with_ranks(
            4,
            [&](member m) {
                for (rank_t r = 0; r < 4; ++r) m.g.want(r, 1, 2);
                std::vector<link> links;
                const auto all = [&] {
                    for (link l; m.g.next(l);) links.push_back(std::move(l));
                    return links.size() == 6;
                };
                EXPECT_TRUE(progress_until(m.g, all, 5000)) << links.size();
                for (const link& l : links) {
                    EXPECT_EQ(l.local, strcmp(transport, "auto") == 0);
                    EXPECT_EQ(l.count, 2);
                    EXPECT_EQ(l.lane, 1);
                    const int32_t mine = m.rank;
                    EXPECT_EQ(send(l.socket.get(), &mine, sizeof(mine), MSG_NOSIGNAL), 4);
                }
                expect_exchange(m.g, 0);  // everybody has written
                for (const link& l : links) {
                    int32_t theirs = -1;
                    EXPECT_EQ(recv(l.socket.get(), &theirs, sizeof(theirs), 0), 4);
                    EXPECT_EQ(theirs, l.peer);
                }
                m.g.leave();
            },
            false, [&](config& c, rank_t) { c.transport = transport; });
}

TEST(GroupJoin, WorksOverIPv6) {
    std::string root;
    if (!listen_loopback(root, true)) GTEST_SKIP() << "no IPv6 loopback on this host";
    with_ranks(
        3,
        [](member m) {
            EXPECT_EQ(m.g.info(0).address.rfind("[::1]:", 0), 0u) << m.g.info(0).address;
            expect_exchange(m.g, 3);
            m.g.leave();
        },
        true);
}

/// Join with one launch per rank and give back what each said.
std::vector<status> join_all(std::vector<launch> launches, int timeout_ms) {
    std::vector<status> said(launches.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < launches.size(); ++i)
        threads.emplace_back([&, i] {
            result<waiter> w = waiter::create();
            auto g = group::join(std::move(launches[i]), config_of(timeout_ms), *w);
            said[i] = g.why();
        });
    for (std::thread& t : threads) t.join();
    return said;
}

TEST(GroupJoin, NamesTheMissingRanksOnEveryRankInTime) {
    std::string root;
    fd listening = listen_loopback(root);
    std::vector<launch> l;
    for (const rank_t r : {0, 1, 2, 4}) l.push_back(launch_of(r, 6, root));
    l[0].listener = std::move(listening);
    const uint64_t start = now_ns();
    const auto said = join_all(std::move(l), 500);
    EXPECT_LT(now_ns() - start, 2'000'000'000u);
    for (const status& s : said) {
        EXPECT_EQ(s.code(), EF_TIMEOUT);
        EXPECT_NE(s.text().find("ranks 3, 5 have not come within"), std::string_view::npos)
            << s.text();
    }
}

TEST(GroupJoin, SaysThatRankZeroIsNotThereWhenThePortIsClosed) {
    std::string root;
    listen_loopback(root).reset();
    std::vector<launch> l;
    l.push_back(launch_of(1, 2, root));
    const auto said = join_all(std::move(l), 300);
    EXPECT_EQ(said[0].code(), EF_TIMEOUT);
    EXPECT_NE(said[0].text().find(root), std::string_view::npos) << said[0].text();
    EXPECT_NE(said[0].text().find("Connection refused"), std::string_view::npos) << said[0].text();
}

TEST(GroupJoin, RefusesAWrongKeyAndSaysSoOnBothSides) {
    std::string root;
    fd listening = listen_loopback(root);
    std::vector<launch> l;
    l.push_back(launch_of(0, 2, root));
    l.push_back(launch_of(1, 2, root, "another key altogether"));
    l[0].listener = std::move(listening);
    const auto said = join_all(std::move(l), 500);
    EXPECT_EQ(said[0].code(), EF_TIMEOUT);
    EXPECT_NE(said[0].text().find("1 connection was refused for a wrong key"),
              std::string_view::npos)
        << said[0].text();
    EXPECT_EQ(said[1].code(), EF_AUTH_FAILED);
    EXPECT_NE(said[1].text().find(root), std::string_view::npos) << said[1].text();
}

TEST(GroupJoin, RefusesASecondOneOfTheSameRank) {
    std::string root;
    fd listening = listen_loopback(root);
    std::vector<launch> l;
    for (const rank_t r : {0, 1, 1}) l.push_back(launch_of(r, 3, root));
    l[0].listener = std::move(listening);
    const auto said = join_all(std::move(l), 500);
    const bool second = said[1].code() == EF_INVALID;
    EXPECT_EQ(said[second ? 1 : 2].code(), EF_INVALID);
    EXPECT_NE(said[second ? 1 : 2].text().find("rank 1 has already come"), std::string_view::npos);
    EXPECT_EQ(said[second ? 2 : 1].code(), EF_TIMEOUT);
    EXPECT_EQ(said[0].code(), EF_TIMEOUT);
}

TEST(GroupJoin, NamesBothNumbersWhenTheRanksDisagreeAboutTheSize) {
    std::string root;
    fd listening = listen_loopback(root);
    std::vector<launch> l;
    l.push_back(launch_of(0, 2, root));
    l.push_back(launch_of(1, 3, root));
    l[0].listener = std::move(listening);
    for (const status& s : join_all(std::move(l), 2000)) {
        EXPECT_EQ(s.code(), EF_MISMATCH) << s.text();
        EXPECT_NE(s.text().find("was started for 3 ranks, rank 0 for 2"), std::string_view::npos);
    }
}

}  // namespace
}  // namespace ef
