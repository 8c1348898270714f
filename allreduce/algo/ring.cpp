// Ring [Patarasuk, Yuan 2009]: each rank sends only to the next. Part b starts at rank b+1, is
// summed on its way round to b, and goes round once more.
//
//   0 -> 1 -> 2 -> 3 -> 0        reduce_scatter, allgather  rounds p-1, bytes n (p-1)/p each way
//                                allreduce                  rounds 2 (p-1), bytes 2 n (p-1)/p
//   root -> root+1 -> ... -> root-1     broadcast           rounds p-1, bytes n; pipelined by
//   chunks
//
// With team::by_rank, part b is the block of the rank of member b, so that an order of the ring that is
// not the caller's leaves each rank with its own block.
//
// Fewest bytes and one neighbour each way: no link carries two flows if the ring follows the links.
#include "allreduce/algo/phases.hpp"

namespace ef::algo {

void ring_reduce_scatter(plan_builder& out, const team& t) {
    const rank_t p = t.size, r = t.me;
    for (rank_t k = 0; k + 1 < p; ++k, out.next_round()) {
        out.send(t.global(t.shift(r, 1)), t.part(t.shift(r, -1 - k)));
        const rank_t b = t.shift(t.shift(r, -1 - k), -1);
        out.recv_reduce(t.global(t.shift(r, -1)), t.part(b), t.completes && k == p - 2);
    }
}

void ring_allgather(plan_builder& out, const team& t) {
    const rank_t p = t.size, r = t.me;
    for (rank_t k = 0; k + 1 < p; ++k, out.next_round()) {
        out.send(t.global(t.shift(r, 1)), t.part(t.shift(r, -k)));
        out.recv(t.global(t.shift(r, -1)), t.part(t.shift(r, -1 - k)));
    }
}

void ring_allreduce(plan_builder& out, const team& t) {
    ring_reduce_scatter(out, t);
    out.turn_at(out.round());
    ring_allgather(out, t);
}

namespace {

plan chain_broadcast(const plan_request& r) {
    plan_builder out(r, 1);
    const team t = out.everyone();
    const rank_t v = t.shift(r.rank, -r.root);
    if (v > 0) {
        out.set_round(uint32_t(v - 1));
        out.recv(t.shift(r.rank, -1), t.blocks);
    }
    out.set_round(uint32_t(v));
    if (v + 1 < t.size) out.send(t.shift(r.rank, 1), t.blocks);
    return out.finish();
}

}  // namespace

symmetry rotation_symmetry(const plan_request& r) noexcept {
    return r.coll == EF_BROADCAST ? symmetry::none : symmetry::rotation;
}

plan build_ring(const plan_request& r) {
    if (r.coll == EF_BROADCAST) return chain_broadcast(r);
    plan_builder out(r, uint32_t(r.nranks));
    const team t = out.everyone();
    if (r.coll == EF_REDUCE_SCATTER) ring_reduce_scatter(out, t);
    else if (r.coll == EF_ALLGATHER) ring_allgather(out, t);
    else ring_allreduce(out, t);
    return out.finish();
}

}  // namespace ef::algo
