// The send and receive buffer of a row: ordinary memory or ef_mem_alloc's, large enough for the
// largest row, touched by the rank that uses it.
#pragma once

#include "perftests/common/collective.hpp"

#include <cstddef>

namespace ef::perf {

class buffer_pair {
public:
    /// `two`: room for out of place. Throws `failure` (77 where memory is short).
    buffer_pair(size_t bytes, bool shared, bool two);
    buffer_pair(const buffer_pair&) = delete;
    buffer_pair& operator=(const buffer_pair&) = delete;
    ~buffer_pair();

    struct place {
        void* send;
        void* recv;
    };
    /// Where a call of shape `s` has its buffers; in place, one lies inside the other as the
    /// collective wants it.
    place of(kind what, const shape& s, size_t element, int rank, bool in_place) const noexcept;

private:
    void* allocate(size_t bytes) const;
    void release(void* p) const noexcept;

    bool shared_;
    void* first_ = nullptr;
    void* second_ = nullptr;
};

}  // namespace ef::perf
