// regions: the memory that one soft endpoint lets its peer reach, by rkey. A key is the place in
// the table and some bits that change with each use of the place, so that a stale key finds
// nothing. The peer's addresses are offsets: nothing of this process's layout is told.
#pragma once

#include "transport/endpoint.hpp"
#include "transport/soft/wire.hpp"

#include <memory>

namespace ef::rdma::soft {

class regions {
public:
    regions() : slots_(std::make_unique<slot[]>(capacity)) {}

    result<region> enrol(std::byte* base, size_t bytes) {
        if (bytes == 0) return status(EF_INVALID, "endpoint: a region of 0 bytes");
        if (bytes > wire_value_mask)
            return status(EF_INVALID, "endpoint: a region of more than 1 TiB");
        for (uint32_t i = 0; i < capacity; ++i) {
            slot& s = slots_[i];
            if (s.bytes) continue;
            s.base = base;
            s.bytes = bytes;
            s.use = (s.use + 1) % uses;
            const uint32_t key = (s.use << place_bits | i) + 1;  // 0 is no key
            return region{base, bytes, 0, key, key};
        }
        return status(EF_NO_RESOURCE, "endpoint: all " + std::to_string(capacity) +
                                          " regions are in use: deregister one first");
    }

    void withdraw(uint32_t key) noexcept {
        if (slot* s = at(key)) s->bytes = 0;
    }

    /// The peer's [offset, offset + bytes) of region `rkey`; null if that is not all there.
    std::byte* find(uint32_t rkey, uint64_t offset, uint64_t bytes) const noexcept {
        const slot* s = at(rkey);
        if (!s || offset > s->bytes || bytes > s->bytes - offset) return nullptr;
        return s->base + offset;
    }

    bool holds(uint32_t lkey, const std::byte* p, size_t bytes) const noexcept {
        const slot* s = at(lkey);
        const auto from = reinterpret_cast<uintptr_t>(p);
        const auto base = s ? reinterpret_cast<uintptr_t>(s->base) : 0;
        return s && from >= base && from - base <= s->bytes && bytes <= s->bytes - (from - base);
    }

private:
    static constexpr unsigned place_bits = 9;
    static constexpr uint32_t capacity = 1u << place_bits;
    static constexpr uint32_t uses = (1u << (wire_key_bits - place_bits)) - 1;

    struct slot {
        std::byte* base = nullptr;
        size_t bytes = 0;  // 0: free
        uint32_t use = 0;
    };

    slot* at(uint32_t key) const noexcept {
        if (key == 0 || key > wire_key_mask) return nullptr;
        slot& s = slots_[(key - 1) & (capacity - 1)];
        return s.bytes && s.use == (key - 1) >> place_bits ? &s : nullptr;
    }

    std::unique_ptr<slot[]> slots_;
};

}  // namespace ef::rdma::soft
