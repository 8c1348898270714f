#include "allreduce/plan.hpp"

#include <algorithm>

namespace ef {

namespace {

/// Where block b begins when `count` elements are cut into n blocks.
size_t cut(size_t count, size_t element_bytes, uint32_t n, uint32_t b) noexcept {
    const size_t unit = count / n * element_bytes >= 64 ? 64 / element_bytes : 1;
    const size_t units = (count + unit - 1) / unit;  // the last may be short
    const size_t begin = units / n * b + units % n * b / n;
    return std::min(count, begin * unit);
}

}  // namespace

rank_t rank_order::position_of(rank_t r) const noexcept {
    if (!position.empty()) return position[size_t(r)];
    return rank_t(std::find(order.begin(), order.end(), r) - order.begin());
}

void rank_order::index() {
    position.assign(order.size(), 0);
    for (size_t p = 0; p < order.size(); ++p) position[size_t(order[p])] = rank_t(p);
}

size_t block_begin(const plan& p, size_t count, size_t element_bytes, uint32_t b) noexcept {
    if (p.coll != EF_REDUCE_SCATTER && p.coll != EF_ALLGATHER)
        return cut(count, element_bytes, p.nblocks, b);
    const uint32_t each = p.nblocks / uint32_t(p.nranks);
    const size_t share = count / size_t(p.nranks);
    return b / each * share + cut(share, element_bytes, each, b % each);
}

}  // namespace ef
