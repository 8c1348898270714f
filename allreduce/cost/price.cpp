#include "allreduce/cost/price.hpp"

#include <algorithm>
#include <set>

namespace ef::cost {
namespace {

constexpr rank_t most_ranks_read = 64;

// Ranks of one host share its memory; this many of them can have all that they ask for no more.
constexpr int ranks_that_fill_memory = 4;

// What does not fit the last cache comes from memory and goes back to it, once each way.
double memory_ns(uint64_t bytes, int ranks_per_host, const machine_model& m) {
    const double footprint = 2.0 * double(bytes) * ranks_per_host;
    if (footprint <= m.cache_bytes) return 0;
    const double beyond = 1 - m.cache_bytes / footprint;
    return beyond * double(bytes) * m.copy_ns_per_byte *
           std::min(ranks_per_host, ranks_that_fill_memory);
}

// Where ranks share cores, the chain of rounds and the work of all ranks overlap, but not wholly: at
// equal work the plan that leaves fewer ranks idle wins (8 ranks on 2 cores, 1 MiB over tcp:
// double_tree 1.5 ms, tree 2.3 ms).
constexpr double imperfect_overlap = 0.25;

bool same_host(std::span<const int> host_of, rank_t a, rank_t b) {
    return host_of.empty() || host_of[size_t(a)] == host_of[size_t(b)];
}

std::vector<profile::round> rounds_of(const plan& p, std::span<const int> host_of) {
    std::vector<profile::round> rounds(p.rounds + 1);
    for (const move& v : p.moves) {
        profile::round& w = rounds[std::min(v.round, p.rounds)];
        const float n = float(v.what.count) / float(p.nblocks);
        if (v.kind == move_kind::copy) w.copied += n;
        if (v.kind == move_kind::reduce) w.reduced += n;
        if (v.peer < 0) continue;
        const bool near = same_host(host_of, p.rank, v.peer), sends = v.kind == move_kind::send;
        (near ? w.messages_near : w.messages_far) += 1;
        if (near) (sends ? w.sent_near : w.received_near) += n;
        else (sends ? w.sent_far : w.received_far) += n;
        if (v.kind == move_kind::recv_reduce) (near ? w.reduced_near : w.reduced) += n;
        if (!sends) (near ? w.waits_near : w.waits_far) = true;
    }
    return rounds;
}

struct round_work {
    double work = 0;      // ns on bytes
    double messages = 0;  // ns on messages, both directions
    double alpha = 0;
};

round_work work_of(const profile::round& r, double bytes, double chunk, const machine_model& m) {
    const double near_bytes = bytes * (r.sent_near + r.received_near),
                 far_bytes = bytes * (r.sent_far + r.received_far);
    round_work w;
    w.work =
        bytes * (r.sent_near * m.intra.send_ns_per_byte +
                 (r.received_near - r.reduced_near) * m.intra.recv_ns_per_byte +
                 r.reduced_near * std::max(m.intra.recv_ns_per_byte, m.gamma_ns_per_byte) +
                 r.sent_far * m.inter.send_ns_per_byte + r.received_far * m.inter.recv_ns_per_byte +
                 r.reduced * m.gamma_ns_per_byte + r.copied * m.copy_ns_per_byte / 2);
    w.messages = std::max<double>(r.messages_near, near_bytes / chunk) * m.intra.cpu_ns +
                 std::max<double>(r.messages_far, far_bytes / chunk) * m.inter.cpu_ns;
    w.alpha = std::max(r.waits_near ? m.intra.alpha_ns : 0, r.waits_far ? m.inter.alpha_ns : 0);
    return w;
}

std::vector<rank_t> ranks_to_read(rank_t n) {
    if (n <= most_ranks_read) {
        std::vector<rank_t> all(static_cast<size_t>(n));
        for (rank_t r = 0; r < n; ++r) all[size_t(r)] = r;
        return all;
    }
    const std::set<rank_t> some = {0, 1, 2, n / 4, n / 2 - 1, n / 2, n - 2, n - 1};
    return {some.begin(), some.end()};
}

}  // namespace

profile profile_of(const algorithm& a, const plan_request& request) {
    profile out;
    for (rank_t rank : ranks_to_read(request.nranks)) {
        plan_request r = request;
        r.rank = rank;
        const plan p = a.build(r);
        out.eager = p.eager;
        out.ranks.push_back(rounds_of(p, r.host_of));
        for (const move& v : p.moves)
            if (v.peer >= 0)
                out.longest_message =
                    std::max(out.longest_message, float(v.what.count) / float(p.nblocks));
    }
    return out;
}

price price_of(const profile& p, rank_t nranks, int ranks_per_host, uint64_t bytes, uint64_t chunk,
               const machine_model& m) {
    std::vector<round_work> slowest;
    double fullest = 0, all_work = 0;
    for (const auto& rounds : p.ranks) {
        if (slowest.size() < rounds.size()) slowest.resize(rounds.size());
        double sum = 0;
        for (size_t t = 0; t < rounds.size(); ++t) {
            const round_work w = work_of(rounds[t], double(bytes), double(chunk), m);
            slowest[t].work = std::max(slowest[t].work, w.work);
            slowest[t].messages = std::max(slowest[t].messages, w.messages);
            slowest[t].alpha = std::max(slowest[t].alpha, w.alpha);
            sum += w.work;
            all_work += w.work + w.messages;
        }
        fullest = std::max(fullest, sum);
    }
    all_work *= double(nranks) / double(p.ranks.size());

    double latency = 0, in_turn = 0;
    uint32_t rounds = 0;
    for (const round_work& w : slowest) {
        latency += w.alpha + w.messages;
        in_turn += w.work;
        rounds += w.messages > 0;
    }
    const double chunks = std::max(1.0, double(p.longest_message) * double(bytes) / double(chunk));
    double ns =
        latency + fullest + (in_turn - fullest) / chunks + memory_ns(bytes, ranks_per_host, m);
    if (ranks_per_host > m.cores) {
        const double hosts = double(nranks) / ranks_per_host, turns = ranks_per_host / m.cores;
        const double work = all_work / hosts / m.cores;
        ns = std::max(ns, work) + std::min(ns, work) * imperfect_overlap +
             rounds * turns * m.switch_ns;
    }
    return {ns, rounds};
}

traffic_count count_traffic(const plan& p, std::span<const int> host_of, uint64_t bytes,
                            bool shared_memory) {
    traffic_count c;
    for (const move& v : p.moves) {
        const uint64_t n = uint64_t(double(bytes) * v.what.count / p.nblocks);
        const bool by_reference =
            shared_memory && !p.eager && v.peer >= 0 && same_host(host_of, p.rank, v.peer);
        switch (v.kind) {
        case move_kind::send:
            ++c.transfers;
            c.sent += n;
            if (by_reference) break;  // the peer reads it here
            c.read += n;
            c.written += n;
            break;
        case move_kind::recv:
        case move_kind::copy:
            c.read += n;
            c.written += n;
            break;
        case move_kind::recv_reduce:
        case move_kind::reduce:
            c.read += 2 * n;
            c.written += n;
            break;
        }
    }
    return c;
}

double limit_ns(const plan_request& r, uint64_t bytes, const machine_model& m) {
    const double n = double(bytes), p = r.nranks;
    if (r.nranks == 1) return r.in_place ? 0 : n * m.copy_ns_per_byte;
    const bool one_host =
        r.host_of.empty() ||
        std::all_of(r.host_of.begin(), r.host_of.end(), [&](int h) { return h == r.host_of[0]; });
    if (one_host) return n * m.copy_ns_per_byte;
    const double each_way = n * (p - 1) / p * (m.inter.send_ns_per_byte + m.inter.recv_ns_per_byte);
    return r.coll == EF_ALLREDUCE || r.coll == EF_BARRIER ? 2 * each_way : each_way;
}

}  // namespace ef::cost
