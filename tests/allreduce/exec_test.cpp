// The engine on real channels, without a communicator: every algorithm, every collective, ranks as
// threads over shared memory, against sums that anybody can do in his head.
#include "allreduce/exec.hpp"

#include "allreduce/algo/algorithm.hpp"
#include "tests/support/orders.hpp"
#include "transport/base/clock.hpp"
#include "transport/shm/channel.hpp"

#include <eflops/transport.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/socket.h>

#include <mutex>
#include <numeric>
#include <thread>

namespace ef {
namespace {

// All ranks of a job in one process, each pair with an shm channel.
class mesh {
public:
    explicit mesh(int n) : channels_(size_t(n)) {
        for (int r = 0; r < n; ++r)
            waiters_.push_back(std::make_unique<waiter>(std::move(*waiter::create())));
        for (auto& row : channels_) row.resize(size_t(n));
        for (int a = 0; a < n; ++a)
            for (int b = a + 1; b < n; ++b) connect(a, b);
    }

    std::vector<channel*> row(int r) {
        std::vector<channel*> out;
        for (auto& c : channels_[size_t(r)]) out.push_back(c.get());
        return out;
    }

private:
    void connect(int a, int b) {
        int sv[2];
        ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv), 0);
        const auto end = [&](int me, int other, int socket) {
            auto c = make_shm_channel({other, "here", getpid()}, fd(socket), me < other, "off",
                                      *waiters_[size_t(me)]);
            ASSERT_TRUE(c.ok()) << c.why().text();
            channels_[size_t(me)][size_t(other)] = std::move(*c);
        };
        end(a, b, sv[0]);
        end(b, a, sv[1]);
    }

    std::vector<std::unique_ptr<waiter>> waiters_;
    std::vector<std::vector<std::unique_ptr<channel>>> channels_;
};

struct job {
    std::string_view algorithm;
    ef_collective_t coll;
    int nranks;
    int root;
    size_t count;  // as the collective counts it
    bool in_place;
    uint64_t chunk;
    bool shared_memory;
    sync_policy sync = sync_policy::none;
};

struct memory_deleter {
    bool shared;
    void operator()(int64_t* p) const {
        if (shared) EXPECT_EQ(ef_mem_free(p), EF_OK);
        else delete[] p;
    }
};
using buffer_ptr = std::unique_ptr<int64_t[], memory_deleter>;

buffer_ptr allocate(size_t n, bool shared) {
    if (!shared) return buffer_ptr(new int64_t[n + 1], {false});
    void* p = nullptr;
    EXPECT_EQ(ef_mem_alloc((n + 1) * sizeof(int64_t), &p), EF_OK) << ef_last_error();
    return buffer_ptr(static_cast<int64_t*>(p), {true});
}

int64_t contribution(int rank, size_t i) { return int64_t(i) * 10 + (int64_t(1) << rank); }

// What rank `r` must find at element i of its receive buffer.
int64_t expected(const job& j, int r, size_t i) {
    if (j.coll == EF_BROADCAST) return contribution(j.root, i);
    if (j.coll == EF_ALLGATHER) return contribution(int(i / j.count), i % j.count);
    const size_t at = j.coll == EF_REDUCE_SCATTER ? size_t(r) * j.count + i : i;
    return int64_t(at) * 10 * j.nranks + (int64_t(1) << j.nranks) - 1;
}

void add(void* d, const void* a, const void* b, size_t n) noexcept {
    for (size_t i = 0; i < n; ++i)
        static_cast<int64_t*>(d)[i] =
            static_cast<const int64_t*>(a)[i] + static_cast<const int64_t*>(b)[i];
}

void run_rank(const job& j, int r, std::vector<channel*> channels, std::string& failure) {
    const size_t n = size_t(j.nranks);
    const size_t in_count = j.count * (j.coll == EF_REDUCE_SCATTER ? n : 1);
    const size_t out_count = j.count * (j.coll == EF_ALLGATHER ? n : 1);
    buffer_ptr a = allocate(in_count, j.shared_memory),
               b = allocate(std::max(in_count, out_count), j.shared_memory);
    int64_t* out = b.get();
    int64_t* in = j.in_place ? out : a.get();
    if (j.in_place && j.coll == EF_ALLGATHER) in = out + size_t(r) * j.count;
    if (j.in_place && j.coll == EF_REDUCE_SCATTER) out = in + size_t(r) * j.count;
    for (size_t i = 0; i < in_count; ++i) in[i] = contribution(r, i);

    plan_request request;
    request.coll = j.coll;
    request.rank = r;
    request.nranks = j.nranks;
    request.root = j.root;
    request.in_place = j.in_place;
    const rank_maps maps = test::any_maps(j.nranks);
    request.maps = &maps;
    const bool per_rank = j.coll == EF_REDUCE_SCATTER || j.coll == EF_ALLGATHER;
    plan p = find_algorithm(j.algorithm)->build(request);
    p.sync = j.sync;
    const program prog =
        compile(p, j.count * (per_rank ? n : 1), sizeof(int64_t), j.in_place, j.chunk);

    exec e(channels);
    exec_call call;
    call.prog = &prog;
    call.in = reinterpret_cast<std::byte*>(in);
    call.out = reinterpret_cast<std::byte*>(out);
    call.element_bytes = sizeof(int64_t);
    call.reduce = add;
    call.nranks = uint32_t(j.nranks);
    call.chunk_bytes = j.chunk;
    call.tag = 77;
    e.start(call);
    const deadline limit = deadline::in_ms(20'000);
    while (!e.done()) {
        if (!e.advance()) sched_yield();
        if (!e.error().ok()) failure = e.error().text();
        else if (limit.passed()) failure = "no end after 20 s";
        else continue;
        return;
    }
    for (size_t i = 0; i < out_count; ++i) {
        if (out[i] == expected(j, r, i)) continue;
        failure = "element " + std::to_string(i) + " is " + std::to_string(out[i]) + ", not " +
                  std::to_string(expected(j, r, i));
        return;
    }
}

std::string describe(const job& j) {
    return std::string(j.algorithm) + " collective " + std::to_string(j.coll) + " ranks " +
           std::to_string(j.nranks) + " root " + std::to_string(j.root) + " count " +
           std::to_string(j.count) + " chunk " + std::to_string(j.chunk) +
           (j.sync == sync_policy::pair      ? " pair"
            : j.sync == sync_policy::barrier ? " barrier"
                                             : "") +
           (j.in_place ? " in place" : "") + (j.shared_memory ? " shared" : "");
}

void run(const job& j) {
    mesh m(j.nranks);
    std::vector<std::string> failures(size_t(j.nranks));
    std::vector<std::thread> ranks;
    for (int r = 0; r < j.nranks; ++r)
        ranks.emplace_back([&, r] {
            std::vector<channel*> row = m.row(r);
            for (channel* c : row)
                while (c && c->error().ok() && !c->progress() && c->sent() == 0) sched_yield();
            run_rank(j, r, std::move(row), failures[size_t(r)]);
        });
    for (std::thread& t : ranks) t.join();
    for (int r = 0; r < j.nranks; ++r)
        EXPECT_EQ(failures[size_t(r)], "") << "rank " << r << " of " << describe(j);
}

class engine : public testing::TestWithParam<std::string_view> {};

TEST_P(engine, gives_every_rank_every_contribution_once_whatever_the_count_chunk_and_memory) {
    for (int coll = EF_ALLREDUCE; coll <= EF_BROADCAST; ++coll)
        for (int n : {1, 2, 3, 4, 5, 8}) {
            const rank_maps maps = test::any_maps(n);
            plan_request request;
            request.maps = &maps;
            request.coll = ef_collective_t(coll);
            request.nranks = n;
            if (!find_algorithm(GetParam())->accepts(request)) continue;
            const bool eager = find_algorithm(GetParam())->build(request).eager;
            size_t turn = size_t(n + coll);
            for (size_t count : {size_t(1), size_t(7), size_t(1000), size_t(30'011)}) {
                if (eager && count > 8000) continue;
                const uint64_t chunks[] = {1024, 16384, 65536};
                const job j{
                    GetParam(),    ef_collective_t(coll), n,           int(turn % size_t(n)), count,
                    turn % 2 == 0, chunks[turn % 3],      turn % 4 < 2};
                run(j);
                ++turn;
            }
        }
}

TEST_P(engine, gives_the_same_with_rounds_kept_apart) {
    for (int coll = EF_ALLREDUCE; coll <= EF_BROADCAST; ++coll)
        for (int n : {2, 3, 4, 7, 8}) {
            const rank_maps maps = test::any_maps(n);
            plan_request request;
            request.maps = &maps;
            request.coll = ef_collective_t(coll);
            request.nranks = n;
            if (!find_algorithm(GetParam())->accepts(request)) continue;
            const uint32_t rounds = find_algorithm(GetParam())->build(request).all_rounds;
            bool in_step = true;  // a barrier needs plans whose ranks agree on the number of rounds
            for (request.rank = 0; request.rank < n; ++request.rank)
                in_step &= find_algorithm(GetParam())->build(request).all_rounds == rounds;
            for (sync_policy sync : {sync_policy::pair, sync_policy::barrier})
                if (sync == sync_policy::pair || in_step)
                    run({GetParam(), ef_collective_t(coll), n, n / 2, size_t(n % 2 ? 5000 : 3),
                         n > 3, 4096, n % 2 == 0, sync});
        }
}

std::vector<std::string_view> names() {
    std::vector<std::string_view> out;
    for (const algorithm& a : algorithms()) out.push_back(a.name);
    return out;
}

INSTANTIATE_TEST_SUITE_P(algorithms, engine, testing::ValuesIn(names()), [](const auto& of) {
    std::string name(of.param);
    for (char& c : name)
        if (!isalnum(static_cast<unsigned char>(c))) c = '_';
    return name;
});

}  // namespace
}  // namespace ef
