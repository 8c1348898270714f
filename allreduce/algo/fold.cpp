#include "allreduce/algo/fold.hpp"

#include <algorithm>

namespace ef::algo {

folding::folding(const rank_order& o, rank_t nranks) noexcept
    : order_(o), core_(o.core ? o.core : nranks), extras_(nranks - core_) {}

rank_t folding::first(rank_t v) const noexcept {
    const auto& f = order_.fold;
    return rank_t(std::lower_bound(f.begin(), f.end(), v) - f.begin());
}

rank_t folding::levels() const noexcept {
    const auto& f = order_.fold;
    if (f.empty()) return (extras_ + core_ - 1) / core_;
    rank_t most = 0;
    for (rank_t i = 0; i < extras_; ++i)  // they ascend: as the one `most` before, so one more
        if (f[size_t(i)] == f[size_t(i - most)]) ++most;
    return most;
}

rank_t folding::count(rank_t v) const noexcept {
    if (!order_.fold.empty()) return first(v + 1) - first(v);
    return v < extras_ ? (extras_ - v - 1) / core_ + 1 : 0;
}

rank_t folding::extra(rank_t v, rank_t l) const noexcept {
    return core_ + (order_.fold.empty() ? v + l * core_ : first(v) + l);
}

std::pair<rank_t, rank_t> folding::home(rank_t position) const noexcept {
    const rank_t i = position - core_;
    if (order_.fold.empty()) return {i % core_, i / core_};
    const rank_t v = order_.fold[size_t(i)];
    return {v, i - first(v)};
}

bool serves_halving(const rank_order& o, rank_t nranks) noexcept {
    if (o.empty() || o.order.size() != size_t(nranks)) return false;
    const rank_t core = o.core ? o.core : nranks;
    return core <= nranks && power_of_two_core(core) == core &&
           (o.fold.empty() || o.fold.size() == size_t(nranks - core));
}

void folded_halving_allreduce(plan_builder& out, const team& t, const rank_order& o,
                              bit_order bits) {
    const folding f(o, t.size);
    const rank_t core = f.core();
    uint32_t lg = 0;
    while ((rank_t(1) << lg) < core) ++lg;
    const uint32_t begin = out.round(), levels = uint32_t(f.levels());
    const uint32_t halve = begin + levels, back = halve + 2 * lg;

    if (t.me >= core) {
        const auto [v, level] = f.home(t.me);
        out.set_round(begin + uint32_t(level));
        out.send(t.global(v), t.blocks);
        out.set_round(back + uint32_t(level));
        out.recv(t.global(v), t.blocks);
    } else {
        const rank_t n = f.count(t.me);
        for (rank_t l = 0; l < n; ++l) {
            out.set_round(begin + uint32_t(l));
            out.recv_reduce(t.global(f.extra(t.me, l)), t.blocks,
                            t.completes && core == 1 && l == n - 1);
        }
        out.set_round(halve);
        const auto members = t.members.empty() ? t.members : t.members.first(size_t(core));
        halving_core_allreduce(out, {t.me, core, members, t.blocks, t.completes}, bits);
        for (rank_t l = 0; l < n; ++l) {
            out.set_round(back + uint32_t(l));
            out.send(t.global(f.extra(t.me, l)), t.blocks);
        }
    }
    out.turn_at(halve + lg);
    out.set_round(back + levels);
}

}  // namespace ef::algo
