// Direct, one shot: every rank sends its whole vector to every other and each computes the result
// for itself. For small vectors, where the start of a message is all that counts.
//
//   allreduce       rounds 1, messages p-1 per rank, bytes n (p-1) each way, reductions n (p-1)
//   reduce_scatter  rounds 1, bytes n (p-1)/p        allgather, broadcast: rounds 1
//
// All ranks must get the same bits, and even a commutative operation is not commutative in bits
// (two NaNs, +0 and -0): everyone combines in the order ((0 (+) 1) (+) 2) ... p-1. What
// a rank sends it never overwrites, so the plan needs no buffering to be free of deadlock; eager
// only says that messages are small.
#include "allreduce/algo/phases.hpp"

namespace ef::algo {

namespace {

void allreduce(plan_builder& out, const team& t) {
    const block_range all = t.blocks;
    const rank_t r = t.me, p = t.size;
    if (p == 1) return;
    // In place the result would overwrite what is being sent.
    if (out.in_place()) out.copy(buffer::tmp, buffer::in, all);
    const buffer own = out.where(all);
    for (rank_t k = 1; k < p; ++k) out.send_from(t.global(t.shift(r, k)), own, all);

    // Ranks 0 and 1 start from their own value, the others from 0's.
    const rank_t final = r == 1 && p == 2 ? 0 : p - 1;
    if (r >= 2) out.recv(t.global(0), all);
    for (rank_t k = r >= 2 ? 1 : 0; k < p; ++k) {
        if (k != r)
            out.recv_reduce_into(buffer::out, t.global(k), all, k == final, r == 1 && k == 0);
        else if (r >= 2) out.reduce(buffer::out, own, all, k == final);
    }
}

}  // namespace

plan build_direct(const plan_request& r) {
    if (r.coll == EF_REDUCE_SCATTER || r.coll == EF_ALLGATHER) {
        plan p = build_pairwise(r);  // its halves are one shot already
        p.eager = true;
        return p;
    }
    plan_builder out(r, 1);
    out.set_eager();
    const team t = out.everyone();
    if (r.coll != EF_BROADCAST) allreduce(out, t);
    else if (r.rank == r.root)
        for (rank_t k = 1; k < t.size; ++k) out.send(t.shift(r.root, k), t.blocks);
    else out.recv(r.root, t.blocks);
    return out.finish();
}

}  // namespace ef::algo
