// Orders of ranks as a fabric might want them, and some that none would: shuffled, with any power of
// two for a core, extras dealt out in turn or as they fall.
#pragma once

#include "allreduce/plan.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <span>

namespace ef::test {

inline rank_order any_order(rank_t n, bool folds, std::mt19937& random) {
    rank_order o;
    o.order.resize(size_t(n));
    std::iota(o.order.begin(), o.order.end(), 0);
    std::shuffle(o.order.begin(), o.order.end(), random);
    if (random() % 2) o.index();
    if (!folds) return o;
    o.core = 1;
    while (o.core * 2 <= n) o.core *= 2;
    if (o.core > 1 && random() % 4 == 0) o.core /= 2;
    if (random() % 2) return o;
    for (rank_t i = o.core; i < n; ++i) o.fold.push_back(rank_t(random() % unsigned(o.core)));
    std::sort(o.fold.begin(), o.fold.end());
    return o;
}

/// Of ranks and servers, the same for the same arguments.
inline rank_maps any_maps(rank_t nranks, std::span<const int> host_of = {}) {
    std::mt19937 random(unsigned(nranks) * 100 + unsigned(host_of.size()));
    rank_maps maps;
    maps.halving = any_order(nranks, true, random);
    maps.ring = any_order(nranks, false, random);
    const int hosts = host_of.empty() ? 1 : *std::max_element(host_of.begin(), host_of.end()) + 1;
    maps.server_halving = any_order(hosts, true, random);
    maps.server_ring = any_order(hosts, false, random);
    return maps;
}

}  // namespace ef::test
