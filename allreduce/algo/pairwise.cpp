// Pairwise, two shots: part b of the vector is summed by rank b and sent to all. Every rank talks
// to every other, so it wants a medium where distance costs nothing: shared memory.
//
//   reduce_scatter, allgather   rounds 1, messages p-1, bytes n (p-1)/p each way
//   allreduce                   rounds 2, messages 2 (p-1), bytes 2 n (p-1)/p each way
//
// Step k pairs rank r's send to r-k with its receive from r+k, so that at no step two ranks write
// to the same one. The owner combines in the order r, r+1, ..., r-1: each part is computed once.
#include "allreduce/algo/phases.hpp"

namespace ef::algo {

void pairwise_reduce_scatter(plan_builder& out, const team& t) {
    const rank_t p = t.size;
    for (rank_t k = 1; k < p; ++k) {
        const rank_t to = t.shift(t.me, -k), from = t.shift(t.me, k);
        out.send(t.global(to), t.part(to));
        out.recv_reduce(t.global(from), t.part(t.me), t.completes && k == p - 1);
    }
    if (p > 1) out.next_round();
}

void pairwise_allgather(plan_builder& out, const team& t) {
    for (rank_t k = 1; k < t.size; ++k) {
        const rank_t to = t.shift(t.me, -k), from = t.shift(t.me, k);
        out.send(t.global(to), t.part(t.me));
        out.recv(t.global(from), t.part(from));
    }
    if (t.size > 1) out.next_round();
}

void pairwise_allreduce(plan_builder& out, const team& t) {
    pairwise_reduce_scatter(out, t);
    out.turn_at(out.round());
    pairwise_allgather(out, t);
}

bool accepts_pairwise(const plan_request& r) noexcept { return r.coll != EF_BROADCAST; }

plan build_pairwise(const plan_request& r) {
    plan_builder out(r, uint32_t(r.nranks));
    const team t = out.everyone();
    if (r.coll == EF_REDUCE_SCATTER) pairwise_reduce_scatter(out, t);
    else if (r.coll == EF_ALLGATHER) pairwise_allgather(out, t);
    else pairwise_allreduce(out, t);
    return out.finish();
}

}  // namespace ef::algo
