// Recursive halving and doubling [Thakur, Rabenseifner, Gropp 2005], p = 2^k ranks:
//
//   reduce_scatter  rounds lg p, bytes n (p-1)/p each way     allgather: the same backwards
//   allreduce       rounds 2 lg p, bytes 2 n (p-1)/p each way
//
// Any other p: with c = the largest power of two below p, ranks 0, 2, .. of the first 2 (p-c) take
// in their odd neighbour's vector first and hand it the result at the end (fold.hpp): 2 rounds and
// 2n bytes more.
//
// The distances may come in any order; two are of use:
//
//   near  1, 2, .. p/2   the largest messages go to the nearest rank; a member ends with the part
//                        whose number is its own in reversed bits
//   far   p/2, .. 2, 1   member v ends with part v: what reduce_scatter and allgather need
#include "allreduce/algo/fold.hpp"
#include "allreduce/algo/phases.hpp"

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

}  // namespace

void halving_core_allreduce(plan_builder& out, const team& t, bit_order bits) {
    const uint32_t parts = uint32_t(t.size);
    halves mine{0, parts};
    const auto distance = [&](rank_t d) { return bits == bit_order::near ? d : t.size / 2 / d; };
    for (rank_t d = 1; d < t.size; d <<= 1) halve(out, t, distance(d), mine, parts);
    out.turn_at(out.round());
    for (rank_t d = t.size >> 1; d >= 1; d >>= 1) join(out, t, distance(d), mine, parts);
}

void halving_reduce_scatter(plan_builder& out, const team& t) {
    halves mine{0, uint32_t(t.size)};
    for (rank_t d = t.size >> 1; d >= 1; d >>= 1) halve(out, t, d, mine, uint32_t(t.size));
}

void doubling_allgather(plan_builder& out, const team& t) {
    halves mine{uint32_t(t.me), 1};
    out.settle(t.part(t.me));  // so that what is sent together lies together
    for (rank_t d = 1; d < t.size; d <<= 1) join(out, t, d, mine, uint32_t(t.size));
}

namespace {

void in_callers_order(plan_builder& out, const team& t, bit_order bits) {
    const rank_t c = power_of_two_core(t.size), extras = t.size - c;
    if (extras == 0) return halving_core_allreduce(out, t, bits);
    rank_order pairs;
    pairs.core = c;
    pairs.order.resize(size_t(t.size));
    for (rank_t v = 0; v < c; ++v)
        pairs.order[size_t(v)] = t.global(v < extras ? 2 * v : v + extras);
    for (rank_t i = 0; i < extras; ++i) pairs.order[size_t(c + i)] = t.global(2 * i + 1);
    const bool paired = t.me < 2 * extras;
    const rank_t me = !paired ? t.me - extras : t.me % 2 ? c + t.me / 2 : t.me / 2;
    folded_halving_allreduce(out, {me, t.size, pairs.order, t.blocks, t.completes}, pairs, bits);
}

plan build(const plan_request& r, bit_order bits) {
    plan_builder out(r, uint32_t(power_of_two_core(r.nranks)));
    out.set_sync(r.sync);
    const team t = out.everyone();
    if (r.coll == EF_REDUCE_SCATTER) halving_reduce_scatter(out, t);
    else if (r.coll == EF_ALLGATHER) doubling_allgather(out, t);
    else in_callers_order(out, t, bits);
    return out.finish();
}

}  // namespace

void halving_doubling_allreduce(plan_builder& out, const team& t) {
    in_callers_order(out, t, bit_order::near);
}

bool accepts_halving_doubling(const plan_request& r) noexcept {
    if (r.coll == EF_BROADCAST) return false;
    return r.coll == EF_ALLREDUCE || r.coll == EF_BARRIER ||
           power_of_two_core(r.nranks) == r.nranks;
}

bool accepts_halving_doubling_far(const plan_request& r) noexcept {
    // The other collectives are the same in both: their order of distances is given.
    return r.coll == EF_ALLREDUCE || r.coll == EF_BARRIER;
}

plan build_halving_doubling(const plan_request& r) { return build(r, bit_order::near); }
plan build_halving_doubling_far(const plan_request& r) { return build(r, bit_order::far); }

symmetry power_of_two_symmetry(const plan_request& r) noexcept {
    return power_of_two_core(r.nranks) == r.nranks ? symmetry::exclusive_or : symmetry::none;
}

}  // namespace ef::algo
