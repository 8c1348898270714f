// What travels on the sockets of a tcp channel.
//
// Connection 0 carries, per message and in order, one header; the payload of a message below
// `striped_from` follows its header there. So a small message is one write and one read, however
// many connections there are.
//
// With more than one connection a payload of `striped_from` bytes or more is cut into stripes of
// `stripe_bytes`, and stripe j of message `seq` travels on connection (seq + j) mod n, without any
// framing: both ends know the rule. Messages of one stripe thus go round the connections, longer
// ones use all of them.
//
//   n = 3, seq = 1, 4.5 stripes     connection 0:  header  s2
//                                   connection 1:  s0  s3
//                                   connection 2:  s1  s4 (half)
#pragma once

#include "transport/base/bytes.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace ef::tcp {

//   offset size  field
//      0     2   magic    0x4645 ("EF")
//      2     2   version  1
//      4     4   seq      low half of the message's number, which starts at 0
//      8     8   tag      the caller's
//     16     8   bytes    of the payload, at most 2^30
struct header {
    le<uint16_t> magic;
    le<uint16_t> version;
    le<uint32_t> seq;
    le<uint64_t> tag;
    le<uint64_t> bytes;
};
static_assert(sizeof(header) == 24 && alignof(header) == 1 && offsetof(header, seq) == 4 &&
              offsetof(header, tag) == 8 && offsetof(header, bytes) == 16);

constexpr uint16_t wire_magic = 0x4645;
constexpr uint16_t wire_version = 1;
constexpr size_t max_message = size_t(1) << 30;
constexpr size_t stripe_bytes = 64 * 1024;
constexpr size_t striped_from = stripe_bytes;

/// The part of one message's payload that travels on one connection: which bytes, in which order.
struct part {
    size_t unit = 1;   // bytes of a stripe
    size_t first = 0;  // number of its first stripe
    size_t lanes = 1;  // it has every lanes-th one from there
    size_t bytes = 0;  // in all

    /// Byte `at` of the part is this byte of the payload ...
    size_t offset(size_t at) const noexcept {
        return (at / unit * lanes + first) * unit + at % unit;
    }
    /// ... and so many from there on are neighbours there too.
    size_t run(size_t at) const noexcept { return std::min(unit - at % unit, bytes - at); }
};

inline bool striped(size_t bytes, size_t lanes) noexcept {
    return lanes > 1 && bytes >= striped_from;
}

inline part part_of(uint64_t seq, size_t bytes, size_t lane, size_t lanes) noexcept {
    if (!striped(bytes, lanes)) return {bytes ? bytes : 1, 0, 1, lane == 0 ? bytes : 0};
    const size_t first = (lane + lanes - seq % lanes) % lanes;
    const size_t stripes = (bytes + stripe_bytes - 1) / stripe_bytes;
    if (first >= stripes) return {stripe_bytes, first, lanes, 0};
    const size_t count = (stripes - 1 - first) / lanes + 1;
    const bool has_last = (stripes - 1 - first) % lanes == 0;
    const size_t missing = has_last ? stripes * stripe_bytes - bytes : 0;
    return {stripe_bytes, first, lanes, count * stripe_bytes - missing};
}

}  // namespace ef::tcp
