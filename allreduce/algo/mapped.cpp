// The algorithms that run in an order which the fabric wants (plan_request::maps), so that no link
// carries two flows at a time:
//
//   hdrm           halving-doubling, near bits first, over maps->halving [EFLOPS, HPCA 2020]
//                  rounds 2 lg p, bytes 2 n (p-1)/p; extras fold (fold.hpp)
//   eulerian_ring  ring over maps->ring: rounds 2 (p-1), bytes 2 n (p-1)/p
//
// Parts of an allreduce are by position: nobody sees them. A reduce_scatter must leave rank r with
// block r, though, so position v takes the blocks of ranks: what hdrm halves is a set of positions,
//
//   position 1 of 4, order 2 0 3 1      round 0 keeps positions {1 3}: blocks 0 and 1, one message
//                                       round 1 keeps position  {1}:   block 0
//
// and what such a set holds is sent as runs of neighbouring blocks, a message each.
#include "allreduce/algo/fold.hpp"

#include <algorithm>
#include <vector>

namespace ef::algo {

namespace {

bool is_allreduce(const plan_request& r) noexcept {
    return r.coll == EF_ALLREDUCE || r.coll == EF_BARRIER;
}

/// Blocks of the positions that agree with `like` in the bits below `d` (a power of two).
std::vector<block_range> blocks_of(std::span<const rank_t> order, rank_t like, rank_t d) {
    std::vector<rank_t> ranks;
    ranks.reserve(order.size() / size_t(d));
    for (size_t v = size_t(like & (d - 1)); v < order.size(); v += size_t(d))
        ranks.push_back(order[v]);
    std::sort(ranks.begin(), ranks.end());
    std::vector<block_range> runs;
    for (const rank_t b : ranks) {
        if (!runs.empty() && runs.back().end() == uint32_t(b)) ++runs.back().count;
        else runs.push_back({uint32_t(b), 1});
    }
    return runs;
}

void scattered_reduce_scatter(plan_builder& out, rank_t v, std::span<const rank_t> order) {
    const rank_t p = rank_t(order.size());
    for (rank_t d = 1; d < p; d <<= 1, out.next_round()) {
        const rank_t partner = order[size_t(v ^ d)];
        for (const block_range b : blocks_of(order, v ^ d, 2 * d)) out.send(partner, b);
        for (const block_range b : blocks_of(order, v, 2 * d))
            out.recv_reduce(partner, b, 2 * d == p);
    }
}

void scattered_allgather(plan_builder& out, rank_t v, std::span<const rank_t> order) {
    const rank_t p = rank_t(order.size());
    out.settle({uint32_t(order[size_t(v)]), 1});
    for (rank_t d = p >> 1; d >= 1; d >>= 1, out.next_round()) {
        const rank_t partner = order[size_t(v ^ d)];
        for (const block_range b : blocks_of(order, v, 2 * d)) out.send(partner, b);
        for (const block_range b : blocks_of(order, v ^ d, 2 * d)) out.recv(partner, b);
    }
}

}  // namespace

const rank_order* hdrm_order(const plan_request& r) noexcept { return &r.maps->halving; }
const rank_order* eulerian_ring_order(const plan_request& r) noexcept { return &r.maps->ring; }

bool accepts_hdrm(const plan_request& r) noexcept {
    if (r.coll == EF_BROADCAST || !r.maps || !serves_halving(r.maps->halving, r.nranks))
        return false;
    // Where the caller fixes who ends with which block, extras have no part.
    return is_allreduce(r) || folding(r.maps->halving, r.nranks).core() == r.nranks;
}

plan build_hdrm(const plan_request& r) {
    const rank_order& o = r.maps->halving;
    const rank_t me = o.position_of(r.rank);
    plan_builder out(r, uint32_t(folding(o, r.nranks).core()));
    out.set_sync(r.sync);
    if (r.coll == EF_REDUCE_SCATTER) scattered_reduce_scatter(out, me, o.order);
    else if (r.coll == EF_ALLGATHER) scattered_allgather(out, me, o.order);
    else
        folded_halving_allreduce(out, {me, r.nranks, o.order, out.everyone().blocks, true}, o,
                                 bit_order::near);
    return out.finish();
}

symmetry hdrm_symmetry(const plan_request& r) noexcept {
    return folding(r.maps->halving, r.nranks).core() == r.nranks ? symmetry::exclusive_or
                                                                 : symmetry::none;
}

bool accepts_eulerian_ring(const plan_request& r) noexcept {
    return r.coll != EF_BROADCAST && r.maps && r.maps->ring.order.size() == size_t(r.nranks);
}

plan build_eulerian_ring(const plan_request& r) {
    const rank_order& o = r.maps->ring;
    plan_builder out(r, uint32_t(r.nranks));
    out.set_sync(r.sync);
    team t{o.position_of(r.rank), r.nranks, o.order, out.everyone().blocks, true};
    t.by_rank = !is_allreduce(r);
    if (r.coll == EF_REDUCE_SCATTER) ring_reduce_scatter(out, t);
    else if (r.coll == EF_ALLGATHER) ring_allgather(out, t);
    else ring_allreduce(out, t);
    return out.finish();
}

}  // namespace ef::algo
