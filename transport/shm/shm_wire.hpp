// What two ranks of one host agree on: the layout of the shared segment of a channel, and the
// datagrams of the unix socket beside it. Both ends are the same machine, so integers are native; a
// version guards against two builds.
//
//   segment     +--------+ 0             direction 0: dialler -> acceptor
//               | slots  | 64 x 128 B    direction 1: acceptor -> dialler, the same again
//               | credit | 64 B
//               | data   | 256 KiB
//               +--------+
//
// A slot is a pair of cache lines, of which a message of up to 40 bytes touches one, so a small
// message costs one line transfer. The writer fills it and then stores `seq` = number of the
// message, counted from 1; the reader polls the slot where the next number must appear. Slots are
// never overlaid by payload: a stale byte can not look like a sequence number.
//
//   slot  offset size
//            0     8   seq      message number, stored last
//            8     8   tag
//           16     4   bytes    of payload
//           20     4   how      where the payload is: slot, data ring, segment, private memory
//           24     8   where    offset in the data ring or the segment, or an address
//           32     8   segment  id of the sender's ef_mem_alloc segment
//           24   104   inlined  the payload, if how == in_slot
//
// `credit` is the reader's: the number of messages that it has released. The writer knows what each
// used, so one word frees slots, data ring and borrowed memory alike.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace ef::shm {

constexpr uint32_t version = 1;
constexpr uint32_t slots = 64;
constexpr uint32_t data_bytes = 256 * 1024;
constexpr uint32_t max_message = data_bytes / 2;
constexpr uint32_t inline_bytes = 104;

enum class placed : uint32_t { in_slot = 1, in_ring = 2, in_segment = 3, in_private = 4 };

struct alignas(128) slot {
    std::atomic<uint64_t> seq;
    uint64_t tag;
    uint32_t bytes;
    placed how;
    union {
        struct {
            uint64_t where;
            uint64_t segment;
        };
        std::byte inlined[inline_bytes];
    };
};
static_assert(sizeof(slot) == 128 && offsetof(slot, inlined) == 24);

struct alignas(64) credit_line {
    std::atomic<uint64_t> released;
    std::atomic<uint32_t> single_copy;  // the reader found process_vm_readv usable and worth it
};
static_assert(sizeof(credit_line) == 64);

struct direction {
    slot slot_ring[slots];
    credit_line credit;
    alignas(64) std::byte data[data_bytes];
};
static_assert(sizeof(direction) == slots * 128 + 128 + data_bytes);

struct segment {
    direction way[2];
};

// ---- datagrams on the unix socket (SOCK_STREAM, fixed length, so that a byte stream will do)

enum class note_kind : uint32_t {
    hello = 1,    // value: address of a cookie to try process_vm_readv on; descriptors: home page,
                  // and the dialler's segment
    segment = 2,  // value: id of an ef_mem_alloc segment, bytes: its length; descriptor: its memfd
    retire = 3,   // value: id of a segment that has been freed
    wake = 4,     // get up
};

struct note {
    uint32_t magic = magic_value;
    uint32_t version_ = version;
    note_kind kind = note_kind::wake;
    uint32_t pid = 0;
    uint64_t value = 0;
    uint64_t bytes = 0;

    static constexpr uint32_t magic_value = 0x4d53'4645;  // "EFSM"
};
static_assert(sizeof(note) == 32);

}  // namespace ef::shm
