// Recursive halving and doubling [Thakur, Rabenseifner, Gropp 2005], p = 2^k ranks:
//
//   reduce_scatter  rounds lg p, bytes n (p-1)/p each way     allgather: the same backwards
//   allreduce       rounds 2 lg p, bytes 2 n (p-1)/p each way
//
// Any other p: with c = the largest power of two below p, ranks 0, 2, .. of the first 2 (p-c) take
// in their odd neighbour's vector first and hand it the result at the end: 2 rounds and 2n bytes
// more.
//
// The allreduce halves at distance 1 first, so that the largest messages go to the nearest rank; a
// member then ends with the part whose number is its own in reversed bits. Where the caller fixes
// the order of parts (reduce_scatter, allgather) the distance p/2 comes first.
#include "allreduce/algo/phases.hpp"

#include <vector>

namespace ef::algo {

rank_t power_of_two_core(rank_t n) noexcept {
    rank_t c = 1;
    while (c * 2 <= n) c *= 2;
    return c;
}

namespace {

struct halves {
    uint32_t first, count;
    uint32_t low() const noexcept { return first; }
    uint32_t high() const noexcept { return first + count / 2; }
};

/// One round of halving at distance d: give one half, keep the other.
void halve(plan_builder& out, const team& t, rank_t d, halves& mine, uint32_t parts) {
    const bool up = t.me & d;
    const uint32_t keep = up ? mine.high() : mine.low(), give = up ? mine.low() : mine.high();
    mine = {keep, mine.count / 2};
    out.send(t.global(t.me ^ d), t.parts(give, mine.count, parts));
    out.recv_reduce(t.global(t.me ^ d), t.parts(keep, mine.count, parts),
                    t.completes && mine.count == 1);
    out.next_round();
}

/// One round of doubling: the sibling half comes from the partner that halve() gave it to.
void join(plan_builder& out, const team& t, rank_t d, halves& mine, uint32_t parts) {
    const bool up = t.me & d;
    const uint32_t theirs = up ? mine.first - mine.count : mine.first + mine.count;
    out.send(t.global(t.me ^ d), t.parts(mine.first, mine.count, parts));
    out.recv(t.global(t.me ^ d), t.parts(theirs, mine.count, parts));
    mine = {up ? theirs : mine.first, 2 * mine.count};
    out.next_round();
}

void core_allreduce(plan_builder& out, const team& t) {
    const uint32_t parts = uint32_t(t.size);
    halves mine{0, parts};
    for (rank_t d = 1; d < t.size; d <<= 1) halve(out, t, d, mine, parts);
    out.turn_at(out.round());
    for (rank_t d = t.size >> 1; d >= 1; d >>= 1) join(out, t, d, mine, parts);
}

}  // namespace

void halving_reduce_scatter(plan_builder& out, const team& t) {
    halves mine{0, uint32_t(t.size)};
    for (rank_t d = t.size >> 1; d >= 1; d >>= 1) halve(out, t, d, mine, uint32_t(t.size));
}

void doubling_allgather(plan_builder& out, const team& t) {
    halves mine{uint32_t(t.me), 1};
    out.settle(t.part(t.me));  // so that what is sent together lies together
    for (rank_t d = 1; d < t.size; d <<= 1) join(out, t, d, mine, uint32_t(t.size));
}

void halving_doubling_allreduce(plan_builder& out, const team& t) {
    const rank_t c = power_of_two_core(t.size), extras = t.size - c;
    if (extras == 0) return core_allreduce(out, t);

    const bool paired = t.me < 2 * extras, extra = paired && t.me % 2 == 1;
    const rank_t partner = t.global(paired ? t.me ^ 1 : t.me);
    if (extra) out.send(partner, t.blocks);
    else if (paired) out.recv_reduce(partner, t.blocks, false);
    const uint32_t begin = out.round() + 1;
    out.next_round();

    if (!extra) {
        std::vector<rank_t> members(static_cast<size_t>(c));
        for (rank_t v = 0; v < c; ++v)
            members[size_t(v)] = t.global(v < extras ? 2 * v : v + extras);
        const rank_t me = paired ? t.me / 2 : t.me - extras;
        core_allreduce(out, {me, c, members, t.blocks, t.completes});
    }
    uint32_t lg = 0;
    while ((rank_t(1) << lg) < c) ++lg;
    out.turn_at(begin + lg);
    out.set_round(begin + 2 * lg);
    if (extra) out.recv(partner, t.blocks);
    else if (paired) out.send(partner, t.blocks);
    out.next_round();
}

bool accepts_halving_doubling(const plan_request& r) noexcept {
    if (r.coll == EF_BROADCAST) return false;
    return r.coll == EF_ALLREDUCE || r.coll == EF_BARRIER ||
           power_of_two_core(r.nranks) == r.nranks;
}

plan build_halving_doubling(const plan_request& r) {
    plan_builder out(r, uint32_t(power_of_two_core(r.nranks)));
    const team t = out.everyone();
    if (r.coll == EF_REDUCE_SCATTER) halving_reduce_scatter(out, t);
    else if (r.coll == EF_ALLGATHER) doubling_allgather(out, t);
    else halving_doubling_allreduce(out, t);
    return out.finish();
}

}  // namespace ef::algo
