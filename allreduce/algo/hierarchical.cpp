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
//
// With an order of the hosts (hdrm, eulerian_ring) step 2 runs in it, on all L rails in lock step:
// where each rail is a plane of the fabric, or the rails of one fabric are wired alike, no link
// carries two flows as long as all rails are in the same round.
#include "allreduce/algo/hierarchical.hpp"

#include "allreduce/algo/fold.hpp"

#include <algorithm>
#include <array>
#include <vector>

namespace ef::algo {

namespace {

// An allreduce among hosts, one rank each: `t` is by index of the host.
struct inner_algorithm {
    void (*run)(plan_builder&, const team& t, const rank_maps*);
    uint32_t (*parts)(uint32_t hosts, const rank_maps*);
    bool rounds_of_pairs;  // keeps its rounds apart when asked to
};

/// In the order `o` of the hosts: `run` gets positions and members by position.
template <class Run>
void in_order(plan_builder& out, const team& t, const rank_order& o, Run run) {
    std::vector<rank_t> members;
    for (const rank_t host : o.order) members.push_back(t.global(host));
    run(out, team{o.position_of(t.me), t.size, members, t.blocks, t.completes});
}

void hdrm_between(plan_builder& out, const team& t, const rank_maps* maps) {
    const rank_order& o = maps->server_halving;
    in_order(out, t, o, [&](plan_builder& b, const team& at) {
        folded_halving_allreduce(b, at, o, bit_order::near);
    });
}

void ring_between(plan_builder& out, const team& t, const rank_maps* maps) {
    in_order(out, t, maps->server_ring, ring_allreduce);
}

template <void (*Phase)(plan_builder&, const team&)>
void plainly(plan_builder& out, const team& t, const rank_maps*) {
    Phase(out, t);
}

uint32_t one_each(uint32_t hosts, const rank_maps*) { return hosts; }
uint32_t core(uint32_t hosts, const rank_maps*) {
    return uint32_t(power_of_two_core(rank_t(hosts)));
}
uint32_t mapped_core(uint32_t hosts, const rank_maps* maps) {
    return uint32_t(folding(maps->server_halving, rank_t(hosts)).core());
}
uint32_t whole(uint32_t, const rank_maps*) { return 1; }
uint32_t two(uint32_t, const rank_maps*) { return 2; }

constexpr std::array<inner_algorithm, 8> inners{{
    {plainly<ring_allreduce>, one_each, false},
    {plainly<halving_doubling_allreduce>, core, true},
    {plainly<pairwise_allreduce>, one_each, false},
    {plainly<doubling_allreduce>, whole, false},
    {plainly<double_tree_allreduce>, two, false},
    {plainly<tree_allreduce>, whole, false},
    {hdrm_between, mapped_core, true},
    {ring_between, one_each, true},
}};

/// Who sits where. Two passes over host_of, and no list per host: 10^4 plans of 10^4 ranks are built
/// when a fabric is priced.
struct layout {
    std::span<const int> host_of;
    std::vector<uint32_t> sizes;  // by host: its ranks
    std::vector<rank_t> mates;    // the ranks of my host, in order
    uint32_t my_host = 0;
    rank_t my_index = 0;

    explicit layout(const plan_request& r)
        : host_of(r.host_of), my_host(uint32_t(r.host_of[size_t(r.rank)])) {
        for (size_t v = 0; v < host_of.size(); ++v) {
            const size_t h = size_t(host_of[v]);
            if (h >= sizes.size()) sizes.resize(h + 1, 0);
            if (rank_t(v) == r.rank) my_index = rank_t(sizes[h]);
            if (h == my_host) mates.push_back(rank_t(v));
            ++sizes[h];
        }
    }
    uint32_t hosts() const { return uint32_t(sizes.size()); }
    /// By host, its rank number `index`; every host has one.
    std::vector<rank_t> column(rank_t index) const {
        std::vector<rank_t> ranks(sizes.size(), 0), seen(sizes.size(), 0);
        for (size_t v = 0; v < host_of.size(); ++v)
            if (seen[size_t(host_of[v])]++ == index) ranks[size_t(host_of[v])] = rank_t(v);
        return ranks;
    }
    uint32_t largest() const { return *std::max_element(sizes.begin(), sizes.end()); }
    bool same() const {
        return std::all_of(sizes.begin(), sizes.end(), [&](uint32_t n) { return n == sizes[0]; });
    }
};

uint32_t ceil_lg(size_t n) {
    uint32_t lg = 0;
    while ((size_t(1) << lg) < n) ++lg;
    return lg;
}

plan equal(const plan_request& r, const inner_algorithm& with, const layout& at) {
    const uint32_t hosts = at.hosts(), each = at.sizes[0];
    plan_builder out(r, each * with.parts(hosts, r.maps));
    if (with.rounds_of_pairs) out.set_sync(r.sync);
    const team host{at.my_index, rank_t(each), at.mates, out.everyone().blocks, false};
    const std::vector<rank_t> column = at.column(at.my_index);

    pairwise_reduce_scatter(out, host);
    with.run(out, {rank_t(at.my_host), rank_t(hosts), column, host.part(at.my_index), true},
             r.maps);
    out.turn_at(out.round());
    pairwise_allgather(out, host);
    return out.finish();
}

/// Every phase leaves the builder in the round after its last, whoever it is built for.
uint32_t rounds_of(const inner_algorithm& with, uint32_t hosts, uint32_t parts,
                   const rank_maps* maps) {
    plan_builder dry({.nranks = rank_t(hosts)}, parts);
    with.run(dry, dry.everyone(), maps);
    return dry.round();
}

plan unequal(const plan_request& r, const inner_algorithm& with, const layout& at) {
    const uint32_t hosts = at.hosts();
    const uint32_t parts = with.parts(hosts, r.maps);
    plan_builder out(r, parts);
    if (with.rounds_of_pairs) out.set_sync(r.sync);
    const std::vector<rank_t>& mates = at.mates;
    const team host{at.my_index, rank_t(mates.size()), mates, out.everyone().blocks, false};
    const std::vector<rank_t> leaders = at.column(0);

    // Small hosts idle in some rounds: everyone counts those of the largest.
    const uint32_t up = ceil_lg(at.largest());
    const uint32_t across = rounds_of(with, hosts, parts, r.maps);
    tree_reduce(out, host, 0);
    out.set_round(up);
    if (at.my_index == 0)
        with.run(out, {rank_t(at.my_host), rank_t(hosts), leaders, host.blocks, true}, r.maps);
    out.set_round(up + across);
    out.turn_at(out.round());
    tree_broadcast(out, host, 0);
    out.set_round(up + across + up);
    return out.finish();
}

plan broadcast(const plan_request& r, const layout& at) {
    plan_builder out(r, 1);
    const size_t root_host = size_t(r.host_of[size_t(r.root)]);
    std::vector<rank_t> leaders = at.column(0);
    leaders[root_host] = r.root;
    const std::vector<rank_t>& mates = at.mates;
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
    if (hosts < 2 || hosts >= r.nranks) return false;
    if (I == inner::hdrm) return r.maps && serves_halving(r.maps->server_halving, hosts);
    if (I == inner::eulerian_ring)
        return r.maps && r.maps->server_ring.order.size() == size_t(hosts);
    return true;
}

template <inner I>
plan build_hierarchical(const plan_request& r) {
    const layout at(r);
    const inner_algorithm& with = inners[size_t(I)];
    if (r.coll == EF_BROADCAST) return broadcast(r, at);
    return at.same() ? equal(r, with, at) : unequal(r, with, at);
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
EF_INNER(hdrm)
EF_INNER(eulerian_ring)
#undef EF_INNER

}  // namespace ef::algo
