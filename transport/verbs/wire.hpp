// What travels between the two ends of a verbs channel.
//
// Each end has a ring of registered memory into which the other end writes: the sender alone decides
// where in it a message goes, by a rule that both know, and the receiver reads it there. One message is
// one RDMA WRITE WITH IMMEDIATE per lane it uses:
//
//   ring   | header payload........ |pad| header payload |           positions are multiples of 64
//            32 B   lane 0's share, lane 1's share, ...
//
//   imm    bit 31    0: a part of a message     1: credit
//          30..27    parts of the message - 1
//          26..23    which part
//          22        the message stands at the beginning of the ring: there was no room behind the last
//          14..0     low bits of the message's number, or of the number of messages consumed
//
// Part 0 begins with the header. A message is there when all its parts are: lanes keep no order among
// each other. A part that comes twice (a lane failed, and its last parts were sent again over another)
// writes the same bytes to the same place and is otherwise ignored.
//
// A credit says how many messages have been consumed so far; the space of a message is the sender's
// again when a credit covers it. So the ring cannot overflow, and as at most `window` messages are
// without credit, neither can the queue of receive requests.
#pragma once

#include "transport/base/bytes.hpp"
#include "transport/verbs/device.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ef::verbs {

struct header {
    le<uint64_t> tag;
    le<uint64_t> bytes;  // of the payload
    le<uint64_t> number;
    le<uint64_t> magic;
};
static_assert(sizeof(header) == 32 && alignof(header) == 1);

constexpr uint64_t header_magic = 0x31626576'73706665;  // "efpsveb1"
constexpr size_t ring_unit = 64;
constexpr uint32_t window = 256;
constexpr uint32_t max_lanes = 16;
constexpr size_t stripe_unit = 128;        // LL128 and its kind want whole blocks in one write
constexpr size_t stripe_from = 32 * 1024;  // shorter messages go over one lane

struct immediate {
    bool credit = false;
    uint32_t parts = 1, part = 0;
    bool wrapped = false;
    uint32_t number = 0;  // 15 bits
};
constexpr uint32_t number_mask = 0x7fff;

constexpr uint32_t pack(const immediate& i) noexcept {
    return uint32_t(i.credit) << 31 | (i.parts - 1) << 27 | i.part << 23 |
           uint32_t(i.wrapped) << 22 | (i.number & number_mask);
}
constexpr immediate unpack(uint32_t v) noexcept {
    return {bool(v >> 31), (v >> 27 & 15) + 1, v >> 23 & 15, bool(v >> 22 & 1), v & number_mask};
}

/// The number near `base` whose low bits are `low`: both ends are never further apart than a window.
constexpr uint64_t widen(uint64_t base, uint32_t low) noexcept {
    const int32_t ahead = int32_t((low - uint32_t(base)) << 17) >> 17;  // -16384 .. 16383
    return base + uint64_t(int64_t(ahead));
}

constexpr size_t footprint(size_t payload) noexcept {
    return (sizeof(header) + payload + ring_unit - 1) / ring_unit * ring_unit;
}

/// Where the next message goes. The sender asks whether it wraps and says so in the immediate; the
/// receiver, who does not know the length before it has found the header, does as it was told.
class ring_cursor {
public:
    explicit ring_cursor(size_t bytes = ring_unit) noexcept : size_(bytes) {}
    bool wraps(size_t payload) const noexcept { return at_ + footprint(payload) > size_; }
    size_t offset(bool wrapped) const noexcept { return wrapped ? 0 : at_; }
    /// Go past it. Returns the bytes it takes, what is left over at the end of the ring included.
    size_t advance(size_t payload, bool wrapped) noexcept {
        const size_t need = footprint(payload), lost = wrapped ? size_ - at_ : 0;
        at_ = offset(wrapped) + need;
        return lost + need;
    }

private:
    size_t size_;
    size_t at_ = 0;
};

/// The bytes of part `part` of `parts`, counted from the header's first byte.
struct share {
    size_t begin = 0, end = 0;
};
constexpr share share_of(size_t payload, uint32_t parts, uint32_t part) noexcept {
    const size_t all = sizeof(header) + payload;
    const size_t each = (all / parts + stripe_unit - 1) / stripe_unit * stripe_unit;
    return {std::min(all, each * part), part + 1 == parts ? all : std::min(all, each * (part + 1))};
}

}  // namespace ef::verbs
