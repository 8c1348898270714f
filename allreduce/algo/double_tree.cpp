// Two binary trees [Sanders, Speck, Traeff 2009], each for one half of the vector. A tree is in
// order: of labels 1 .. p the odd ones are leaves, and a label's height is its number of trailing
// zero bits. p = 7:
//
//      tree 0, label = rank + 1          tree 1, label = (rank + 1) mod p + 1   (ranks shown)
//              3                                 2
//          1       5                         0       4
//        0   2   4   6                     6   1   3   5
//
// For even p tree 1 is the mirror image, label = p - rank. Either way an inner rank of one tree is
// a leaf of the other, so that no rank receives and sends more than two vectors:
//
//   allreduce  rounds 2 floor(lg p), bytes up to 2 n per rank each way, pipelined by chunks
//   broadcast  rounds 1 + floor(lg (p-1)), bytes n; trees of the p-1 others, the root feeds both
//
// Rounds follow heights, which both ends know: a label of height h sends up in round h.
#include "allreduce/algo/phases.hpp"

namespace ef::algo {

namespace {

struct node {
    int32_t label = 1;
    int32_t size = 1;

    static int32_t low_bit(int32_t v) noexcept { return v & -v; }
    static uint32_t height_of(int32_t v) noexcept { return uint32_t(__builtin_ctz(unsigned(v))); }

    static int32_t root(int32_t size) noexcept {
        int32_t v = 1;
        while (2 * v <= size) v *= 2;
        return v;
    }
    /// 0 if this is the root.
    int32_t parent() const noexcept {
        const int32_t h = low_bit(label), up = (label ^ h) | (h << 1);
        return up <= size ? up : label ^ h;
    }
    /// 0 if there is none. The left one is always as high as a child can be.
    int32_t left() const noexcept {
        const int32_t h = low_bit(label) / 2;
        return h ? label - h : 0;
    }
    int32_t right() const noexcept {
        for (int32_t h = low_bit(label) / 2; h; h /= 2)
            if (label + h <= size) return label + h;
        return 0;
    }
};

/// Positions 0 .. size-1 and labels 1 .. size of one of the two trees.
struct tree {
    int which = 0;
    int32_t size = 1;

    int32_t label(int32_t position) const noexcept {
        if (which == 0) return position + 1;
        return size % 2 ? (position + 1) % size + 1 : size - position;
    }
    int32_t position(int32_t label) const noexcept {
        if (which == 0) return label - 1;
        return size % 2 ? (label - 2 + size) % size : size - label;
    }
};

void reduce_up(plan_builder& out, const team& t, const tree& tr, uint32_t begin) {
    const block_range half = t.parts(uint32_t(tr.which), 1, 2);
    const node n{tr.label(t.me), tr.size};
    // The right child may be lower, so it comes first; the left one is the last.
    for (const int32_t child : {n.right(), n.left()}) {
        if (!child) continue;
        out.set_round(begin + node::height_of(child));
        out.recv_reduce(t.global(tr.position(child)), half,
                        t.completes && !n.parent() && child == n.left());
    }
    if (!n.parent()) return;
    out.set_round(begin + node::height_of(n.label));
    out.send(t.global(tr.position(n.parent())), half);
}

/// The root's children receive in round `begin`. `rank_at` gives the rank at a tree's position.
template <class Rank>
void pass_down(plan_builder& out, block_range half, const tree& tr, int32_t position,
               uint32_t begin, Rank rank_at) {
    const node n{tr.label(position), tr.size};
    const uint32_t top = node::height_of(node::root(tr.size));
    if (n.parent()) {
        out.set_round(begin + top - node::height_of(n.parent()));
        out.recv(rank_at(tr.position(n.parent())), half);
    }
    out.set_round(begin + top - node::height_of(n.label));
    for (const int32_t child : {n.left(), n.right()})
        if (child) out.send(rank_at(tr.position(child)), half);
}

plan broadcast(const plan_request& r) {
    plan_builder out(r, 2);
    const team all = out.everyone();
    const int32_t others = r.nranks - 1;
    const auto rank_at = [&](int32_t position) { return all.shift(r.root, position + 1); };
    for (int which = 0; which < 2 && others > 0; ++which) {
        const tree tr{which, others};
        const block_range half = all.parts(uint32_t(which), 1, 2);
        const rank_t top = rank_at(tr.position(node::root(others)));
        out.set_round(0);
        if (r.rank == r.root) {
            out.send(top, half);
            continue;
        }
        if (r.rank == top) out.recv(r.root, half);
        pass_down(out, half, tr, all.shift(r.rank, -r.root) - 1, 1, rank_at);
    }
    return out.finish();
}

}  // namespace

void double_tree_allreduce(plan_builder& out, const team& t) {
    const uint32_t begin = out.round(), top = node::height_of(node::root(t.size));
    for (int which = 0; which < 2; ++which) {
        const tree tr{which, t.size};
        reduce_up(out, t, tr, begin);
        pass_down(out, t.parts(uint32_t(which), 1, 2), tr, t.me, begin + top,
                  [&](int32_t position) { return t.global(position); });
    }
    out.set_round(begin + 2 * top);
}

plan build_double_tree(const plan_request& r) {
    if (r.coll == EF_BROADCAST) return broadcast(r);
    plan_builder out(r, 2);
    double_tree_allreduce(out, out.everyone());
    return out.finish();
}

}  // namespace ef::algo
