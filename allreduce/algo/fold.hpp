// fold: halving-doubling on a rank_order whose core is a power of two. The extras hand their vectors
// to the core first, one per core position and round, and get the result from it at the end:
//
//   core 4, 3 extras that all give to position 1:
//
//     round 0   4 -> 1        rounds 3 .. 6   halving-doubling of 0 1 2 3     round 7   1 -> 4
//     round 1   5 -> 1                                                        round 8   1 -> 5
//     round 2   6 -> 1                                                        round 9   1 -> 6
//
//   c core positions, at most e extras on one of them: rounds 2 (lg c + e), bytes 2 n (e + (c-1)/c)
#pragma once

#include "allreduce/algo/phases.hpp"

#include <utility>

namespace ef::algo {

/// Who gives to whom, by position. `o` outlives it.
class folding {
public:
    folding(const rank_order& o, rank_t nranks) noexcept;

    rank_t core() const noexcept { return core_; }
    /// The most extras that one core position has.
    rank_t levels() const noexcept;
    /// Extras of core position v, and the position of its l-th.
    rank_t count(rank_t v) const noexcept;
    rank_t extra(rank_t v, rank_t l) const noexcept;
    /// Of an extra's position: the core position that it gives to, and which of its extras it is.
    std::pair<rank_t, rank_t> home(rank_t position) const noexcept;

private:
    rank_t first(rank_t v) const noexcept;  // extra: the first that gives to v or above

    const rank_order& order_;
    rank_t core_, extras_;
};

/// Does the order arrange `nranks` ranks or servers, with a core that is a power of two?
bool serves_halving(const rank_order& o, rank_t nranks) noexcept;

/// core parts. `t` is by position of `o`: me is a position, members are ranks by position.
void folded_halving_allreduce(plan_builder& out, const team& t, const rank_order& o,
                              bit_order bits);

}  // namespace ef::algo
