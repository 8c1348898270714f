// The price that is read off a plan against the closed forms of the literature, with alpha, beta,
// gamma as there: beta is the time of a byte from memory to memory (send and receive), n the bytes,
// p the ranks.
#include "allreduce/cost/price.hpp"

#include "allreduce/cost/planner.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace ef::cost {
namespace {

machine_model plain() {
    machine_model m;
    m.inter = {1000, 0, 0.5, 0.5};  // cpu 0: the closed forms know no such thing
    m.intra = m.inter;
    m.gamma_ns_per_byte = 0.25;
    m.copy_ns_per_byte = 0;
    m.cores = 1024;
    return m;
}

double priced(const char* name, ef_collective_t coll, rank_t p, uint64_t n, const machine_model& m,
              uint64_t chunk = uint64_t(1) << 40) {
    plan_request r;
    r.coll = coll;
    r.nranks = p;
    std::vector<int> apart;  // every rank on a host of its own: a message is received, then reduced
    for (rank_t i = 0; i < p; ++i) apart.push_back(i);
    r.host_of = apart;
    return price_of(profile_of(*find_algorithm(name), r), p, p, n, chunk, m).ns;
}

constexpr double alpha = 1000, beta = 1, gamma_ = 0.25;
constexpr uint64_t n = 1 << 20;

TEST(price, of_a_ring_is_2_p_minus_1_alpha_and_2_p_minus_1_over_p_n_beta) {
    for (rank_t p : {2, 3, 5, 8, 16, 64}) {
        const double share = double(p - 1) / p;
        EXPECT_NEAR(priced("ring", EF_ALLREDUCE, p, n, plain()),
                    2 * (p - 1) * alpha + 2 * share * n * beta + share * n * gamma_, 100)
            << p;
        EXPECT_NEAR(priced("ring", EF_REDUCE_SCATTER, p, n, plain()),
                    (p - 1) * alpha + share * n * (beta + gamma_), 100);
        EXPECT_NEAR(priced("ring", EF_ALLGATHER, p, n, plain()), (p - 1) * alpha + share * n * beta,
                    100);
    }
}

TEST(price, of_halving_doubling_is_2_lg_p_alpha_and_the_bytes_of_a_ring) {
    for (rank_t p : {2, 4, 8, 16, 64}) {
        const double share = double(p - 1) / p;
        EXPECT_NEAR(priced("halving_doubling", EF_ALLREDUCE, p, n, plain()),
                    2 * std::log2(p) * alpha + 2 * share * n * beta + share * n * gamma_, 100)
            << p;
    }
}

TEST(price, of_recursive_doubling_is_lg_p_times_the_whole_vector) {
    for (rank_t p : {2, 4, 8, 32})
        EXPECT_NEAR(priced("doubling", EF_ALLREDUCE, p, n, plain()),
                    std::log2(p) * (alpha + n * (beta + gamma_)), 100)
            << p;
}

TEST(price, of_pairwise_exchange_has_the_bytes_of_a_ring) {
    for (rank_t p : {2, 5, 8}) {
        const double share = double(p - 1) / p;
        const double bytes = 2 * share * n * beta + share * n * gamma_;
        const double t = priced("pairwise", EF_ALLREDUCE, p, n, plain());
        EXPECT_GE(t, bytes);
        EXPECT_LE(t, bytes + 2 * (p - 1) * alpha);
    }
}

TEST(price, falls_towards_the_fullest_rank_when_a_tree_is_pipelined) {
    const double whole = priced("double_tree", EF_ALLREDUCE, 16, n, plain());
    double last = whole;
    for (uint64_t chunk = n / 2; chunk >= n / 64; chunk /= 2) {
        const double t = priced("double_tree", EF_ALLREDUCE, 16, n, plain(), chunk);
        EXPECT_LE(t, last);
        last = t;
    }
    EXPECT_LT(last, whole / 2);
}

TEST(price, is_at_least_the_work_of_all_ranks_over_the_cores) {
    machine_model m = plain();
    m.switch_ns = 0;
    const double alone = priced("pairwise", EF_ALLREDUCE, 8, n, m);
    m.cores = 2;
    const double share = 7.0 / 8, each = 2 * share * n * beta + share * n * gamma_;
    EXPECT_GE(priced("pairwise", EF_ALLREDUCE, 8, n, m), 8 * each / 2);
    EXPECT_GT(priced("pairwise", EF_ALLREDUCE, 8, n, m), 2 * alone);
    m.switch_ns = 3000;
    EXPECT_GT(priced("ring", EF_ALLREDUCE, 8, 64, m), priced("direct", EF_ALLREDUCE, 8, 64, m))
        << "every round of a ring costs a turn of the scheduler";
}

TEST(price, counts_the_bytes_of_every_copy) {
    plan_request r;
    r.nranks = 2;
    const plan p = find_algorithm("pairwise")->build(r);
    const traffic_count copied = count_traffic(p, {}, n, false),
                        shared = count_traffic(p, {}, n, true);
    EXPECT_EQ(copied.sent, n);
    // Half goes out twice (read and written each time), half is summed (two read, one written),
    // half comes back.
    EXPECT_EQ(copied.read, n + n + n / 2);
    EXPECT_EQ(copied.written, n + n / 2 + n / 2);
    EXPECT_EQ(shared.read, n + n / 2);
    EXPECT_EQ(shared.written, n);
}

// ---------------------------------------------------------------- planner

result<decision> decided(rank_t p, uint64_t bytes, const machine_model& m,
                         const std::string& forced = "") {
    plan_request r;
    r.nranks = p;
    return planner(p, forced, 0).decide(r, bytes, m);
}

TEST(planner, takes_few_rounds_for_short_vectors_and_few_bytes_for_long_ones) {
    const machine_model m = plain();
    const result<decision> small = decided(16, 8, m), large = decided(16, 64 << 20, m);
    ASSERT_TRUE(small.ok() && large.ok());
    EXPECT_EQ(small->algo->name, "direct");
    for (const candidate& c : large->candidates) {
        if (c.refused) continue;
        EXPECT_GE(c.ns, large->predicted_ns) << c.algo->name;
    }
    EXPECT_LT(large->predicted_ns, 2.2 * (64 << 20) * (beta + gamma_));
}

TEST(planner, decides_alike_whatever_the_rank_and_whether_in_place) {
    const machine_model m = plain();
    planner a(8, "", 0), b(8, "", 0);
    for (uint64_t bytes = 1; bytes < (64 << 20); bytes *= 3) {
        plan_request r;
        r.nranks = 8;
        plan_request other = r;
        other.rank = 5;
        other.in_place = true;
        const result<decision> x = a.decide(r, bytes, m), y = b.decide(other, bytes, m);
        ASSERT_TRUE(x.ok() && y.ok());
        EXPECT_EQ(x->algo, y->algo);
        EXPECT_EQ(x->chunk_bytes, y->chunk_bytes);
    }
}

TEST(planner, obeys_a_forced_name_and_says_so_where_it_can_not) {
    const machine_model m = plain();
    const result<decision> ring = decided(8, 8, m, "ring");
    ASSERT_TRUE(ring.ok());
    EXPECT_EQ(ring->algo->name, "ring");
    EXPECT_NE(ring->reason.find("asked for"), std::string::npos);
    const result<decision> direct = decided(8, 64 << 20, m, "direct");
    ASSERT_TRUE(direct.ok());
    EXPECT_NE(direct->algo->name, "direct") << "its messages are copied: too long for that";
    EXPECT_NE(direct->reason.find("does not serve"), std::string::npos);
}

TEST(planner, explains_with_every_candidate_and_the_one_taken) {
    const machine_model m = plain();
    plan_request r;
    r.nranks = 8;
    const result<decision> d = decided(8, 1 << 20, m);
    ASSERT_TRUE(d.ok());
    const std::string text = explain(*d, r, 1 << 20, m);
    for (const algorithm& a : algorithms())
        EXPECT_NE(text.find(a.name), std::string::npos) << a.name;
    EXPECT_NE(text.find("taken"), std::string::npos);
}

}  // namespace
}  // namespace ef::cost
