// Recursive doubling [Thakur, Rabenseifner, Gropp 2005]: the whole vector to ever farther partners.
//
//   allreduce  rounds lg p, bytes n lg p each way        p not a power of two: 2 rounds more
//
// Fewest rounds; right for vectors of a few KiB. Everyone computes the result for itself, so both
// partners must combine in the same order: lower (+) upper.
//
// Writing the sum over what is still being sent would make two partners wait for each other's
// receive. So the value moves between out and tmp, such that the last round writes out:
//
//   lg p = 3:   in -> out -> tmp -> out         lg p = 2:   in -> tmp -> out
#include "allreduce/algo/phases.hpp"

namespace ef::algo {

void doubling_allreduce(plan_builder& out, const team& t) {
    const rank_t c = power_of_two_core(t.size), extras = t.size - c;
    const block_range all = t.blocks;
    uint32_t lg = 0;
    while ((rank_t(1) << lg) < c) ++lg;
    if (lg == 0) return;
    // Where the value lies after round j.
    const auto after = [&](uint32_t j) { return (lg - 1 - j) % 2 ? buffer::tmp : buffer::out; };
    const uint32_t begin = out.round() + (extras ? 1 : 0);

    const bool paired = t.me < 2 * extras, extra = paired && t.me % 2 == 1;
    const rank_t partner = t.global(paired ? t.me ^ 1 : t.me);
    if (extra) {
        out.send(partner, all);
    } else {
        if (paired) {
            out.recv_reduce_into(lg % 2 ? buffer::tmp : buffer::out, partner, all, false, false);
        } else if (after(0) == buffer::out && (out.where(all) == buffer::out || out.in_place())) {
            out.copy(buffer::tmp, out.where(all), all);
        }
        const rank_t v = paired ? t.me / 2 : t.me - extras;
        for (uint32_t j = 0; j < lg; ++j) {
            const rank_t w = v ^ (rank_t(1) << j);
            const rank_t peer = t.global(w < extras ? 2 * w : w + extras);
            out.set_round(begin + j);
            out.send(peer, all);
            out.recv_reduce_into(after(j), peer, all, t.completes && j == lg - 1, w < v);
        }
    }
    out.set_round(begin + lg);
    if (extras == 0) return;
    if (extra) out.recv(partner, all);
    else if (paired) out.send(partner, all);
    out.next_round();
}

bool accepts_doubling(const plan_request& r) noexcept {
    return r.coll == EF_ALLREDUCE || r.coll == EF_BARRIER;
}

plan build_doubling(const plan_request& r) {
    plan_builder out(r, 1);
    doubling_allreduce(out, out.everyone());
    return out.finish();
}

}  // namespace ef::algo
