#include "perftests/common/buffers.hpp"

#include "perftests/common/exit_code.hpp"

#include <eflops/transport.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace ef::perf {

buffer_pair::buffer_pair(size_t bytes, bool shared, bool two) : shared_(shared) {
    first_ = allocate(bytes);
    try {
        if (two) second_ = allocate(bytes);
    } catch (...) {
        release(first_);
        throw;
    }
}

buffer_pair::~buffer_pair() {
    release(second_);
    release(first_);
}

void* buffer_pair::allocate(size_t bytes) const {
    bytes = std::max<size_t>(bytes, 64);
    void* p = nullptr;
    if (shared_) {
        const ef_status_t s = ef_mem_alloc(bytes, &p);
        if (s == EF_NO_MEMORY || s == EF_NO_RESOURCE)
            throw failure(exit_cannot_run, fmt::format("ef_mem_alloc: {}", ef_last_error()));
        must(s, "ef_mem_alloc");
    } else if (p = std::malloc(bytes); !p) {
        throw failure(exit_cannot_run, fmt::format("malloc of {} bytes: out of memory", bytes));
    }
    std::memset(p, 0, bytes);
    return p;
}

void buffer_pair::release(void* p) const noexcept {
    if (!shared_) std::free(p);
    else if (p) ef_mem_free(p);
}

buffer_pair::place buffer_pair::of(kind what, const shape& s, size_t element, int rank,
                                   bool in_place) const noexcept {
    if (!in_place) return {first_, second_};
    std::byte* block = static_cast<std::byte*>(first_) + size_t(rank) * s.count * element;
    if (what == kind::reduce_scatter) return {first_, block};
    if (what == kind::allgather) return {block, first_};
    return {first_, first_};
}

}  // namespace ef::perf
