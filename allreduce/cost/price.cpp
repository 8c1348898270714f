#include "allreduce/cost/price.hpp"

#include <algorithm>
#include <set>

namespace ef::cost {
namespace {

constexpr rank_t most_ranks_read = 64;

bool same_host(std::span<const int> host_of, rank_t a, rank_t b) {
    return host_of.empty() || host_of[size_t(a)] == host_of[size_t(b)];
}

// Bytes of a block range, exact enough for a price.
double share(const plan& p, block_range b, uint64_t bytes) {
    return double(bytes) * b.count / p.nblocks;
}

struct round_work {
    double work = 0;      // ns on bytes
    double messages = 0;  // ns on messages, both directions
    double alpha = 0;
};

std::vector<round_work> work_of(const plan& p, const placement& where, uint64_t bytes,
                                uint64_t chunk, const machine_model& m) {
    std::vector<round_work> rounds(p.rounds + 1);
    for (const move& v : p.moves) {
        round_work& w = rounds[std::min(v.round, p.rounds)];
        const double n = share(p, v.what, bytes);
        if (v.kind == move_kind::copy) w.work += n * m.copy_ns_per_byte / 2;
        if (v.kind == move_kind::reduce || v.kind == move_kind::recv_reduce)
            w.work += n * m.gamma_ns_per_byte;
        if (v.peer < 0) continue;
        const medium_model& via = same_host(where.host_of, p.rank, v.peer) ? m.intra : m.inter;
        const double messages = std::max(1.0, n / double(chunk));
        w.messages += via.cpu_ns * messages;
        w.work += n * (v.kind == move_kind::send ? via.send_ns_per_byte : via.recv_ns_per_byte);
        if (v.kind != move_kind::send) w.alpha = std::max(w.alpha, via.alpha_ns);
    }
    return rounds;
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

price price_of(const algorithm& a, const plan_request& request, const placement& where,
               uint64_t bytes, uint64_t chunk, const machine_model& m) {
    std::vector<round_work> slowest;
    double fullest = 0, longest_message = 0, all_work = 0;
    const std::vector<rank_t> ranks = ranks_to_read(request.nranks);
    for (rank_t rank : ranks) {
        plan_request r = request;
        r.rank = rank;
        const plan p = a.build(r);
        const std::vector<round_work> rounds = work_of(p, where, bytes, chunk, m);
        if (slowest.size() < rounds.size()) slowest.resize(rounds.size());
        double sum = 0;
        for (size_t t = 0; t < rounds.size(); ++t) {
            slowest[t].work = std::max(slowest[t].work, rounds[t].work);
            slowest[t].messages = std::max(slowest[t].messages, rounds[t].messages);
            slowest[t].alpha = std::max(slowest[t].alpha, rounds[t].alpha);
            sum += rounds[t].work;
            all_work += rounds[t].work + rounds[t].messages;
        }
        fullest = std::max(fullest, sum);
        for (const move& v : p.moves)
            if (v.peer >= 0) longest_message = std::max(longest_message, share(p, v.what, bytes));
    }
    all_work *= double(request.nranks) / double(ranks.size());

    double latency = 0, in_turn = 0;
    uint32_t rounds = 0;
    for (const round_work& w : slowest) {
        latency += w.alpha + w.messages;
        in_turn += w.work;
        rounds += w.messages > 0;
    }
    const double chunks = std::max(1.0, longest_message / double(chunk));
    double ns = latency + fullest + (in_turn - fullest) / chunks;
    if (where.ranks_per_host > m.cores) {
        const double hosts = double(request.nranks) / where.ranks_per_host;
        const double turns = where.ranks_per_host / m.cores;
        ns = std::max(ns, all_work / hosts / m.cores) + rounds * turns * m.switch_ns;
    }
    return {ns, rounds};
}

traffic_count count_traffic(const plan& p, std::span<const int> host_of, uint64_t bytes,
                            bool shared_memory) {
    traffic_count c;
    for (const move& v : p.moves) {
        const uint64_t n = uint64_t(share(p, v.what, bytes));
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
