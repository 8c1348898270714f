// Who does not hold the job's key neither joins nor hangs a job: garbage and slow-loris connections
// at every listening port, before and while the job runs, a wrong key, a closed port, a rank that
// never comes.
#include "tests/support/faults.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

namespace ef::test {
namespace {

job_setup setup_for(const std::vector<int>& host_of, uint32_t timeout_ms = 20'000) {
    job_setup s;
    s.nranks = int(host_of.size());
    s.host_of = host_of;
    s.timeout_ms = timeout_ms * uint32_t(patience());
    s.environment = {{"EFLOPS_CALIBRATION", "off"}};
    return s;
}

/// Where somebody listens in this network namespace.
struct door {
    sockaddr_storage address{};
    socklen_t bytes = 0;
};

std::vector<door> tcp_doors() {
    std::vector<door> all;
    std::ifstream table("/proc/net/tcp");
    for (std::string line; std::getline(table, line);) {
        std::istringstream words(line);
        std::string slot, local, remote, state;
        words >> slot >> local >> remote >> state;
        if (state != "0A") continue;
        door d;
        auto& a = reinterpret_cast<sockaddr_in&>(d.address);
        a.sin_family = AF_INET;
        a.sin_addr.s_addr = uint32_t(std::stoul(local.substr(0, 8), nullptr, 16));
        if (a.sin_addr.s_addr == 0) a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        a.sin_port = htons(uint16_t(std::stoul(local.substr(9), nullptr, 16)));
        d.bytes = sizeof(a);
        all.push_back(d);
    }
    return all;
}

std::vector<door> abstract_doors() {
    std::vector<door> all;
    std::ifstream table("/proc/net/unix");
    for (std::string line; std::getline(table, line);) {
        const size_t at = line.find(" @eflops");
        if (at == std::string::npos || line.find(" 00010000 ") == std::string::npos) continue;
        const std::string name = line.substr(at + 2);
        door d;
        auto& a = reinterpret_cast<sockaddr_un&>(d.address);
        a.sun_family = AF_UNIX;
        memcpy(a.sun_path + 1, name.data(), name.size());
        d.bytes = socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
        all.push_back(d);
    }
    return all;
}

/// Connections of strangers: half of them say nothing or a byte now and then, half send garbage.
class attack {
public:
    explicit attack(unsigned seed) : random_(seed) {}
    ~attack() {
        for (int s : sockets_) close(s);
    }
    attack(const attack&) = delete;

    void open(const door& d, int connections) {
        for (int i = 0; i < connections; ++i) {
            const int s =
                socket(d.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
            if (s < 0) continue;
            (void)!connect(s, reinterpret_cast<const sockaddr*>(&d.address), d.bytes);
            sockets_.push_back(s);
        }
    }

    /// A byte from every slow one, a block of garbage from every other, which then hangs up.
    void turn() {
        unsigned char block[4096];
        for (unsigned char& b : block) b = static_cast<unsigned char>(random_());
        for (size_t i = 0; i < sockets_.size(); ++i) {
            const bool slow = i % 2 == 0;
            if (send(sockets_[i], block, slow ? 1 : sizeof(block), MSG_NOSIGNAL) > 0) ++sent_;
            if (!slow) shutdown(sockets_[i], SHUT_WR);
        }
    }
    int sent() const { return sent_; }
    size_t connections() const { return sockets_.size(); }

private:
    std::mt19937 random_;
    std::vector<int> sockets_;
    int sent_ = 0;
};

class Strangers : public Faults, public testing::WithParamInterface<std::vector<int>> {};

void work(rank_process& me, ef_comm_t comm, int times) {
    std::vector<int> x(5000);
    for (int i = 0; i < times; ++i) {
        std::fill(x.begin(), x.end(), me.rank + i);
        me.must(ef_allreduce(x.data(), x.data(), x.size(), EF_INT32, EF_SUM, comm), "ef_allreduce");
        const int sum = me.nranks * i + me.nranks * (me.nranks - 1) / 2;
        if (x.front() != sum || x.back() != sum) me.fail("a wrong sum");
    }
}

TEST_P(Strangers, AtEveryListeningPortOfARunningJobDisturbNobody) {
    if (!not_isolated().empty()) GTEST_SKIP() << not_isolated();
    for (int i = 0; i < repeats(3); ++i) {
        SCOPED_TRACE(fmt::format("repeat {}", i));
        job j(setup_for(GetParam()), [](rank_process& me) {
            const ef_comm_t comm = me.join();
            work(me, comm, 10);
            me.say("running");
            me.hear();  // the strangers are there
            work(me, comm, 100);
            ef_comm_t part = nullptr;  // new connections through the doors that are under attack
            me.must(ef_comm_split(comm, 0, -me.rank, &part), "ef_comm_split");
            work(me, part, 100);
            me.must(ef_barrier(comm), "ef_barrier");
            me.must(ef_comm_destroy(part), "ef_comm_destroy");
            me.must(ef_comm_destroy(comm), "ef_comm_destroy");
        });
        for (int r = 0; r < j.nranks(); ++r) expect_line(j, r, "running", 20'000);
        attack strangers{unsigned(i) + 1};
        std::vector<door> doors = tcp_doors();
        const size_t tcp = doors.size();
        for (const door& d : abstract_doors()) doors.push_back(d);
        EXPECT_GE(tcp, 1u);
        EXPECT_GE(doors.size() - tcp, size_t(j.nranks()));
        for (const door& d : doors) strangers.open(d, 12);
        strangers.turn();
        for (int r = 0; r < j.nranks(); ++r) j.tell(r, "go");
        const deadline end = deadline::in_ms(uint64_t(300));
        while (!end.passed()) {  // a slow-loris sends a byte every 5 ms
            strangers.turn();
            usleep(5000);
        }
        EXPECT_EQ(j.finish_all(20'000), "");
        EXPECT_GT(strangers.sent(), int(strangers.connections()) / 4);
        if (HasFailure()) break;
    }
}

TEST_P(Strangers, AtTheRootBeforeTheRanksComeDoNotKeepThemOut) {
    for (int i = 0; i < repeats(3); ++i) {
        SCOPED_TRACE(fmt::format("repeat {}", i));
        job j(setup_for(GetParam()), [](rank_process& me) {
            me.hear();
            const ef_comm_t comm = me.join();
            work(me, comm, 3);
            me.must(ef_comm_destroy(comm), "ef_comm_destroy");
        });
        door root;
        auto& a = reinterpret_cast<sockaddr_in&>(root.address);
        a.sin_family = AF_INET;
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        a.sin_port = htons(uint16_t(std::stoi(j.root().substr(j.root().rfind(':') + 1))));
        root.bytes = sizeof(a);
        attack strangers{unsigned(i) + 100};
        strangers.open(root, 40);
        strangers.turn();
        const uint64_t began = now_ns();
        for (int r = 0; r < j.nranks(); ++r) j.tell(r, "go");
        EXPECT_EQ(j.finish_all(20'000), "");
        EXPECT_LT(double(now_ns() - began) / 1e6, 10'000.0 * patience());
        EXPECT_GT(strangers.sent(), 10);
        if (HasFailure()) break;
    }
}

INSTANTIATE_TEST_SUITE_P(Placements, Strangers,
                         testing::Values(std::vector<int>{0, 0, 0}, std::vector<int>{0, 1, 2},
                                         std::vector<int>{0, 0, 1, 1}),
                         [](const auto& p) { return fmt::format("{}", fmt::join(p.param, "")); });

class Joining : public Faults {};

/// Create with options(0), changed by `change`, and report what it came to.
template <class F>
void try_to_join(rank_process& me, F change) {
    ef_comm_options o = me.options();
    change(o);
    ef_comm_t comm = nullptr;
    const ef_status_t s = ef_comm_create(me.rank, me.nranks, &o, &comm);
    say_report(me, s);
    if (s != EF_OK && comm) me.fail("a failed create touched its output");
    if (s == EF_OK) ef_comm_destroy(comm);
}

constexpr uint32_t join_ms = 800;

TEST_F(Joining, WithAWrongKeyIsRefusedAndTheOthersNameWhoIsMissing) {
    for (int i = 0; i < repeats(3); ++i) {
        job j(setup_for({0, 0, 1}, join_ms), [](rank_process& me) {
            try_to_join(me, [&](ef_comm_options& o) {
                if (me.rank == 1) o.key = "not the key of this job at all";
            });
        });
        const uint64_t began = now_ns();
        const report refused = hear_report(j, 1, 10'000);
        EXPECT_EQ(refused.code, "EF_AUTH_FAILED") << refused.text;
        EXPECT_LT(ms_after(refused, began), (join_ms + 1000) * patience());
        for (int r : {0, 2}) {
            const report e = hear_report(j, r, 10'000);
            SCOPED_TRACE(fmt::format("rank {}: {} {}", r, e.code, e.text));
            EXPECT_EQ(e.code, "EF_TIMEOUT");
            EXPECT_LT(ms_after(e, began), (join_ms + 1500) * patience());
        }
        EXPECT_EQ(j.finish_all(10'000), "");
        if (HasFailure()) break;
    }
}

TEST_F(Joining, WithoutARankThatNeverComesNamesIt) {
    for (int i = 0; i < repeats(3); ++i) {
        job j(setup_for({0, 1, 0, 1}, join_ms), [](rank_process& me) {
            if (me.rank == 2) return;
            try_to_join(me, [](ef_comm_options&) {});
        });
        const uint64_t began = now_ns();
        for (int r : {0, 1, 3}) {
            const report e = hear_report(j, r, 10'000);
            SCOPED_TRACE(fmt::format("rank {}: {} {}", r, e.code, e.text));
            EXPECT_EQ(e.code, "EF_TIMEOUT");
            EXPECT_LT(ms_after(e, began), (join_ms + 1500) * patience());
            if (r != 0) continue;  // only the root knows who has come
            EXPECT_NE(e.text.find("rank 2"), std::string::npos);
        }
        EXPECT_EQ(j.finish_all(10'000), "");
        if (HasFailure()) break;
    }
}

TEST_F(Joining, AtAClosedPortNamesTheAddress) {
    std::string closed;
    const int s = listen_on_loopback(closed);
    close(s);
    for (int i = 0; i < repeats(3); ++i) {
        job j(setup_for({0, 0}, join_ms), [&](rank_process& me) {
            if (me.rank == 0) return;  // nobody listens
            try_to_join(me, [&](ef_comm_options& o) { o.root = closed.c_str(); });
        });
        const uint64_t began = now_ns();
        const report e = hear_report(j, 1, 10'000);
        SCOPED_TRACE(fmt::format("{} {}", e.code, e.text));
        EXPECT_EQ(e.code, "EF_TIMEOUT");
        EXPECT_LT(ms_after(e, began), (join_ms + 1500) * patience());
        EXPECT_NE(e.text.find(closed), std::string::npos);
        EXPECT_EQ(j.finish_all(10'000), "");
        if (HasFailure()) break;
    }
}

}  // namespace
}  // namespace ef::test
