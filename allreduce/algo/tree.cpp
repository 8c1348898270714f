// Binomial tree, p = 8, root 0:            0
//                                       / | `-.
//   allreduce  rounds 2 ceil(lg p),    1  2    4         broadcast  rounds ceil(lg p),
//              bytes n per message        |    |`.                  bytes n per message
//                                         3    5  6
//                                                 |
//                                                 7
// 2 (p-1) messages of all ranks together are the fewest an allreduce can do with, where direct has
// p (p-1) and doubling p lg p: it wins when many ranks share few cores.
#include "allreduce/algo/phases.hpp"

namespace ef::algo {

void tree_reduce(plan_builder& out, const team& t, rank_t root) {
    const rank_t v = t.shift(t.me, -root);
    const uint32_t begin = out.round();
    uint32_t i = 0;
    bool sent = false;
    for (rank_t d = 1; d < t.size; d <<= 1, ++i) {
        if (sent) continue;
        out.set_round(begin + i);
        if (v & d) {
            out.send(t.global(t.shift(t.me, -d)), t.blocks);
            sent = true;
        } else if (v + d < t.size) {
            out.recv_reduce(t.global(t.shift(t.me, d)), t.blocks,
                            t.completes && v == 0 && 2 * d >= t.size);
        }
    }
    out.set_round(begin + i);
}

void tree_broadcast(plan_builder& out, const team& t, rank_t root) {
    const rank_t v = t.shift(t.me, -root);
    rank_t d = 1;
    while (d < t.size) d <<= 1;
    for (d >>= 1; d >= 1; d >>= 1, out.next_round()) {
        if (v % (2 * d) == d) out.recv(t.global(t.shift(t.me, -d)), t.blocks);
        else if (v % (2 * d) == 0 && v + d < t.size) out.send(t.global(t.shift(t.me, d)), t.blocks);
    }
}

void tree_allreduce(plan_builder& out, const team& t) {
    tree_reduce(out, t, 0);
    out.turn_at(out.round());
    tree_broadcast(out, t, 0);
}

bool accepts_tree(const plan_request& r) noexcept {
    return r.coll != EF_REDUCE_SCATTER && r.coll != EF_ALLGATHER;
}

plan build_tree(const plan_request& r) {
    plan_builder out(r, 1);
    if (r.coll == EF_BROADCAST) tree_broadcast(out, out.everyone(), r.root);
    else tree_allreduce(out, out.everyone());
    return out.finish();
}

}  // namespace ef::algo
