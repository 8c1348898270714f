#include "allreduce/algo/builder.hpp"

#include <algorithm>

namespace ef::algo {

size_t block_places::run_of(uint32_t block) const noexcept {
    const auto after = std::upper_bound(runs_.begin(), runs_.end(), block,
                                        [](uint32_t b, const piece& p) { return b < p.begin; });
    return size_t(after - runs_.begin()) - 1;
}

block_range block_places::run(uint32_t block, uint32_t end) const noexcept {
    const size_t next = run_of(block) + 1;
    const uint32_t until = next < runs_.size() ? runs_[next].begin : nblocks_;
    return {block, std::min(until, end) - block};
}

// A run begins at `block`.
void block_places::cut(uint32_t block) {
    if (block >= nblocks_) return;
    const size_t i = run_of(block);
    if (runs_[i].begin != block) runs_.insert(runs_.begin() + long(i) + 1, {block, runs_[i].at});
}

void block_places::set(block_range b, buffer at) {
    if (b.count == 0) return;
    cut(b.first);
    cut(b.end());
    size_t first = run_of(b.first);
    size_t last = run_of(b.end() - 1) + 1;
    runs_[first].at = at;
    if (last < runs_.size() && runs_[last].at == at) ++last;
    if (first > 0 && runs_[first - 1].at == at) --first;
    runs_.erase(runs_.begin() + long(first) + 1, runs_.begin() + long(last));
}

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
    if (m.what.count == 0) return;
    m.round = round_;
    if (m.peer >= 0) rounds_with_peers_ = std::max(rounds_with_peers_, round_ + 1);
    plan_.moves.push_back(m);
}

void plan_builder::send_from(rank_t to, buffer src, block_range b) {
    add({.kind = move_kind::send, .src = src, .peer = to, .what = b});
}

void plan_builder::recv(rank_t from, block_range b) {
    add({.kind = move_kind::recv, .dst = buffer::out, .peer = from, .what = b});
    where_.set(b, buffer::out);
}

void plan_builder::recv_reduce_into(buffer dst, rank_t from, block_range b, bool last,
                                    bool message_first) {
    add({move_kind::recv_reduce, dst, where(b), message_first, last, from, 0, b});
    where_.set(b, dst);
}

void plan_builder::copy(buffer dst, buffer src, block_range b) {
    add({.kind = move_kind::copy, .dst = dst, .src = src, .what = b});
    where_.set(b, dst);
}

void plan_builder::reduce(buffer dst, buffer src, block_range b, bool last) {
    add({.kind = move_kind::reduce, .dst = dst, .src = src, .last = last, .what = b});
    where_.set(b, dst);
}

void plan_builder::settle(block_range b) {
    while (b.count) {
        const block_range run = where_.run(b.first, b.end());
        const buffer at = where_.at(b.first);
        b = {run.end(), b.count - run.count};
        if (at == buffer::tmp || (at == buffer::in && !in_place_)) copy(buffer::out, at, run);
        // In place the memory is the same, but only `out` spans the blocks that may follow.
        if (at == buffer::in && in_place_) where_.set(run, buffer::out);
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
    const auto by_round = [](const move& a, const move& b) { return a.round < b.round; };
    if (!std::is_sorted(plan_.moves.begin(), plan_.moves.end(), by_round))
        std::stable_sort(plan_.moves.begin(), plan_.moves.end(), by_round);
    plan_.rounds = plan_.moves.empty() ? 0 : plan_.moves.back().round + 1;
    // What settle() copied concerns nobody else, and ranks may differ in it.
    plan_.all_rounds = std::max(round_, rounds_with_peers_);
    return std::move(plan_);
}

}  // namespace ef::algo
