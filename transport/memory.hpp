// memory: what ef_mem_alloc hands out, and how a transport recognises it. Each allocation is one
// segment: a sealed memfd, so that a local peer can map it and read it in place, and nothing is
// left behind when the process dies.
//
// Looking up a pointer takes a lock, so a channel remembers the answer: `span_of` returns the whole
// range of addresses for which the answer is the same, and `generation` changes whenever any answer
// may have.
#pragma once

#include "transport/base/status.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ef::memory {

struct segment {
    uint64_t id = 0;  // 0: ordinary memory. Ids are never used twice in a process.
    const std::byte* begin = nullptr;
    const std::byte* end = nullptr;
    int memfd = -1;  // borrowed: valid while the segment lives

    // In integers: a gap may be longer than pointers can be apart.
    bool contains(const std::byte* p, size_t bytes) const noexcept {
        const auto at = reinterpret_cast<uintptr_t>(p), first = reinterpret_cast<uintptr_t>(begin),
                   last = reinterpret_cast<uintptr_t>(end);
        return at >= first && at <= last && bytes <= last - at;
    }
};

/// The segment that holds `p`; for ordinary memory id 0 and the gap between segments around p.
segment span_of(const std::byte* p) noexcept;

/// Is segment `id` still allocated?
bool alive(uint64_t id) noexcept;

uint64_t generation() noexcept;

}  // namespace ef::memory
