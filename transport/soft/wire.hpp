// What a soft endpoint says over its channel: everything but the data is in a message's 64-bit tag.
//
//   63   60  59    58        57    40  39                    0
//   [ kind | ack | more |     rkey    |        value         ]
//
//   kind          rkey   value     payload
//   write         yes    offset    the data that goes there
//   send          -      -         the data
//   immediate     -      imm       none; belongs to the write that follows
//   read          yes    offset    le64: how many bytes
//   fetch_add     yes    offset    le64: to add
//   compare_swap  yes    offset    le64: compare, le64: swap in
//   response      -      -         what was read, or le64: the old value
//   done          -      count     none: that many requests are executed (low 40 bits)
//   refused       how    count     none: that many were executed, the next one was refused
//
// `more`: this request or response goes on in the next message of its kind. `ack`: the requester
// waits for `done`. A request counts when its last message is executed; `immediate` does not count.
// A response says `done` for everything up to its request.
#pragma once

#include "transport/base/bytes.hpp"

#include <cstdint>

namespace ef::rdma {

enum class wire_kind : uint8_t {
    write = 1,
    send = 2,
    immediate = 3,
    read = 4,
    fetch_add = 5,
    compare_swap = 6,
    response = 7,
    done = 8,
    refused = 9,
};

constexpr unsigned wire_value_bits = 40;
constexpr unsigned wire_key_bits = 18;
constexpr uint64_t wire_value_mask = (uint64_t(1) << wire_value_bits) - 1;
constexpr uint32_t wire_key_mask = (uint32_t(1) << wire_key_bits) - 1;

struct wire_tag {
    wire_kind kind = wire_kind::write;
    bool ack = false;
    bool more = false;
    uint32_t rkey = 0;
    uint64_t value = 0;
};

constexpr uint64_t pack(const wire_tag& t) noexcept {
    return uint64_t(t.kind) << 60 | uint64_t(t.ack) << 59 | uint64_t(t.more) << 58 |
           uint64_t(t.rkey & wire_key_mask) << wire_value_bits | (t.value & wire_value_mask);
}

constexpr wire_tag unpack(uint64_t tag) noexcept {
    return {wire_kind(tag >> 60), (tag >> 59 & 1) != 0, (tag >> 58 & 1) != 0,
            uint32_t(tag >> wire_value_bits) & wire_key_mask, tag & wire_value_mask};
}
static_assert(pack({wire_kind::read, true, false, 3, 5}) == 0x4800030000000005);

struct wire_length {
    le<uint64_t> bytes;
};
struct wire_operands {
    le<uint64_t> compare;  // fetch_add: to add
    le<uint64_t> swap;     // compare_swap only
};
static_assert(sizeof(wire_length) == 8 && sizeof(wire_operands) == 16);

}  // namespace ef::rdma
