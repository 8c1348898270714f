// Hierarchical: the host first, because memory is faster than the network. L ranks on each of H
// hosts:
//
//   host A   a0 a1 a2     1. pairwise reduce_scatter in the host: rank l holds part l of its host
//            |  |  |      2. allreduce of part l among the ranks l of all hosts: all L at once,
//   host B   b0 b1 b2        each with 1/L of the vector
//                         3. pairwise allgather in the host
//
//   bytes over the network per host: those of the inner allreduce on H ranks, once
//
// Hosts with unequal numbers of ranks: reduce to the host's first rank, allreduce among these,
// broadcast in the host. A broadcast goes to one rank of each host, then through the host. Ranks of
// a host need not be neighbours.
#include "allreduce/algo/hierarchical.hpp"

#include "allreduce/algo/phases.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace ef::algo {

namespace {

struct inner_algorithm {
    void (*run)(plan_builder&, const team&);
    plan (*build)(const plan_request&);  // the same alone
    uint32_t (*parts)(uint32_t hosts);
};

uint32_t one_each(uint32_t hosts) { return hosts; }
uint32_t core(uint32_t hosts) { return uint32_t(power_of_two_core(rank_t(hosts))); }
uint32_t whole(uint32_t) { return 1; }
uint32_t two(uint32_t) { return 2; }

constexpr std::array<inner_algorithm, 6> inners{{
    {ring_allreduce, build_ring, one_each},
    {halving_doubling_allreduce, build_halving_doubling, core},
    {pairwise_allreduce, build_pairwise, one_each},
    {doubling_allreduce, build_doubling, whole},
    {double_tree_allreduce, build_double_tree, two},
    {tree_allreduce, build_tree, whole},
}};

/// Who sits where: by host, its ranks in order; and the index of each rank on its host.
struct layout {
    std::vector<std::vector<rank_t>> hosts;
    uint32_t my_host = 0;
    rank_t my_index = 0;

    explicit layout(const plan_request& r) {
        for (rank_t v = 0; v < r.nranks; ++v) {
            const size_t h = size_t(r.host_of[size_t(v)]);
            if (h >= hosts.size()) hosts.resize(h + 1);
            if (v == r.rank) {
                my_host = uint32_t(h);
                my_index = rank_t(hosts[h].size());
            }
            hosts[h].push_back(v);
        }
    }
    std::vector<rank_t> column(rank_t index) const {
        std::vector<rank_t> ranks;
        for (const auto& h : hosts) ranks.push_back(h[size_t(index)]);
        return ranks;
    }
    size_t largest() const {
        size_t n = 0;
        for (const auto& h : hosts) n = std::max(n, h.size());
        return n;
    }
};

uint32_t ceil_lg(size_t n) {
    uint32_t lg = 0;
    while ((size_t(1) << lg) < n) ++lg;
    return lg;
}

plan equal(const plan_request& r, const inner_algorithm& with, const layout& at) {
    const uint32_t hosts = uint32_t(at.hosts.size()), each = uint32_t(at.hosts[0].size());
    plan_builder out(r, each * with.parts(hosts));
    const team host{at.my_index, rank_t(each), at.hosts[at.my_host], out.everyone().blocks, false};
    const std::vector<rank_t> column = at.column(at.my_index);

    pairwise_reduce_scatter(out, host);
    with.run(out, {rank_t(at.my_host), rank_t(hosts), column, host.part(at.my_index), true});
    out.turn_at(out.round());
    pairwise_allgather(out, host);
    return out.finish();
}

plan unequal(const plan_request& r, const inner_algorithm& with, const layout& at) {
    const uint32_t hosts = uint32_t(at.hosts.size());
    plan_builder out(r, with.parts(hosts));
    const std::vector<rank_t>& mates = at.hosts[at.my_host];
    const team host{at.my_index, rank_t(mates.size()), mates, out.everyone().blocks, false};
    const std::vector<rank_t> leaders = at.column(0);

    // Small hosts idle in some rounds: everyone counts those of the largest.
    const uint32_t up = ceil_lg(at.largest());
    const uint32_t across = with.build({.nranks = rank_t(hosts)}).rounds;
    tree_reduce(out, host, 0);
    out.set_round(up);
    if (at.my_index == 0)
        with.run(out, {rank_t(at.my_host), rank_t(hosts), leaders, host.blocks, true});
    out.set_round(up + across);
    out.turn_at(out.round());
    tree_broadcast(out, host, 0);
    return out.finish();
}

plan broadcast(const plan_request& r, const layout& at) {
    plan_builder out(r, 1);
    const size_t root_host = size_t(r.host_of[size_t(r.root)]);
    std::vector<rank_t> leaders = at.column(0);
    leaders[root_host] = r.root;
    const std::vector<rank_t>& mates = at.hosts[at.my_host];
    const rank_t leader = leaders[at.my_host];
    const rank_t leader_index =
        rank_t(std::find(mates.begin(), mates.end(), leader) - mates.begin());

    const block_range all = out.everyone().blocks;
    if (r.rank == leader)
        tree_broadcast(out, {rank_t(at.my_host), rank_t(leaders.size()), leaders, all, false},
                       rank_t(root_host));
    out.set_round(ceil_lg(leaders.size()));
    tree_broadcast(out, {at.my_index, rank_t(mates.size()), mates, all, false}, leader_index);
    return out.finish();
}

}  // namespace

uint32_t equal_hosts(const plan_request& r, uint32_t* hosts_p) noexcept {
    int hosts = 1;
    for (const int h : r.host_of) hosts = std::max(hosts, h + 1);
    *hosts_p = uint32_t(hosts);
    if (r.host_of.empty()) return uint32_t(r.nranks);
    if (r.nranks % hosts) return 0;
    for (int h = 0; h < hosts; ++h)
        if (std::count(r.host_of.begin(), r.host_of.end(), h) != r.nranks / hosts) return 0;
    return uint32_t(r.nranks / hosts);
}

template <inner I>
bool accepts_hierarchical(const plan_request& r) noexcept {
    if (r.coll == EF_REDUCE_SCATTER || r.coll == EF_ALLGATHER) return false;
    if (r.coll == EF_BROADCAST && I != inner::tree) return false;
    int hosts = 1;
    for (const int h : r.host_of) hosts = std::max(hosts, h + 1);
    return hosts > 1 && hosts < r.nranks;
}

template <inner I>
plan build_hierarchical(const plan_request& r) {
    const layout at(r);
    const inner_algorithm& with = inners[size_t(I)];
    if (r.coll == EF_BROADCAST) return broadcast(r, at);
    const bool same = std::all_of(at.hosts.begin(), at.hosts.end(),
                                  [&](const auto& h) { return h.size() == at.hosts[0].size(); });
    return same ? equal(r, with, at) : unequal(r, with, at);
}

#define EF_INNER(I)                                                             \
    template bool accepts_hierarchical<inner::I>(const plan_request&) noexcept; \
    template plan build_hierarchical<inner::I>(const plan_request&);
EF_INNER(ring)
EF_INNER(halving_doubling)
EF_INNER(pairwise)
EF_INNER(doubling)
EF_INNER(double_tree)
EF_INNER(tree)
#undef EF_INNER

}  // namespace ef::algo
