#include "allreduce/algo/builder.hpp"

#include <algorithm>

namespace ef::algo {

plan_builder::plan_builder(const plan_request& r, uint32_t nblocks)
    : root_(r.root), in_place_(r.in_place), where_(nblocks, buffer::in) {
    plan_.coll = r.coll == EF_BARRIER ? EF_ALLREDUCE : r.coll;
    plan_.rank = r.rank;
    plan_.nranks = r.nranks;
    plan_.nblocks = nblocks;
}

team plan_builder::everyone() const noexcept {
    return {plan_.rank, plan_.nranks, {}, {0, plan_.nblocks}, true};
}

bool plan_builder::owns(block_range b) const noexcept {
    const uint32_t each = plan_.nblocks / uint32_t(plan_.nranks);
    const uint32_t first = uint32_t(plan_.rank) * each;
    return first <= b.first && b.end() <= first + each;
}

buffer plan_builder::accumulator(block_range b) const noexcept {
    return plan_.coll != EF_REDUCE_SCATTER || owns(b) ? buffer::out : buffer::tmp;
}

void plan_builder::add(move m) {
    m.round = round_;
    if (m.what.count) plan_.moves.push_back(m);
}

void plan_builder::send_from(rank_t to, buffer src, block_range b) {
    add({.kind = move_kind::send, .src = src, .peer = to, .what = b});
}

void plan_builder::recv(rank_t from, block_range b) {
    add({.kind = move_kind::recv, .dst = buffer::out, .peer = from, .what = b});
    std::fill_n(where_.begin() + b.first, b.count, buffer::out);
}

void plan_builder::recv_reduce_into(buffer dst, rank_t from, block_range b, bool last,
                                    bool message_first) {
    add({move_kind::recv_reduce, dst, where(b), message_first, last, from, 0, b});
    std::fill_n(where_.begin() + b.first, b.count, dst);
}

void plan_builder::copy(buffer dst, buffer src, block_range b) {
    add({.kind = move_kind::copy, .dst = dst, .src = src, .what = b});
    std::fill_n(where_.begin() + b.first, b.count, dst);
}

void plan_builder::reduce(buffer dst, buffer src, block_range b, bool last) {
    add({.kind = move_kind::reduce, .dst = dst, .src = src, .last = last, .what = b});
    std::fill_n(where_.begin() + b.first, b.count, dst);
}

void plan_builder::settle(block_range b) {
    for (uint32_t i = b.first; i < b.end();) {
        const buffer at = where_[i];
        uint32_t n = 1;
        while (i + n < b.end() && where_[i + n] == at) ++n;
        if (at == buffer::tmp || (at == buffer::in && !in_place_)) copy(buffer::out, at, {i, n});
        // In place the memory is the same, but only `out` spans the blocks that may follow.
        if (at == buffer::in && in_place_) std::fill_n(where_.begin() + i, n, buffer::out);
        i += n;
    }
}

plan plan_builder::finish() {
    const uint32_t each = plan_.nblocks / uint32_t(plan_.nranks);
    switch (plan_.coll) {
    case EF_REDUCE_SCATTER:
    case EF_ALLGATHER:
        settle({uint32_t(plan_.rank) * each, each});
        break;
    case EF_BROADCAST:
        if (plan_.rank == root_) settle({0, plan_.nblocks});
        break;
    default:
        settle({0, plan_.nblocks});
    }
    std::stable_sort(plan_.moves.begin(), plan_.moves.end(),
                     [](const move& a, const move& b) { return a.round < b.round; });
    plan_.rounds = plan_.moves.empty() ? 0 : plan_.moves.back().round + 1;
    plan_.all_rounds = std::max(round_, plan_.rounds);
    return std::move(plan_);
}

}  // namespace ef::algo
