// The one interface of all transports: a channel, which is one end of a reliable, ordered
// connection to one peer.
//
//        rank a                                             rank b
//   send(tag, data, bytes) ---- messages, in order ---->  peek() -> tag, bytes, view?
//   completed() >= ticket  <--- the data is free again -- fetch() or read the view, then release()
//
// Why messages and not RDMA's write/read verbs: a schedule fixes, per pair of ranks, the order of
// all transfers, so an arriving message needs no matching and no address: the head of the stream
// belongs to the head of the plan. What differs between transports is only who moves the bytes and
// when, and that hides behind three words:
//   view      the payload is already readable by a pointer: an shm ring slot, the sender's own
//   memory (ef_mem_alloc), a
//             receive buffer. A reduction reads it in place, so nothing is copied that is not also
//             summed.
//   fetch     the payload is still elsewhere: in a socket, in another process (process_vm_readv),
//   behind a NIC (RDMA
//             read). It is brought straight to where the schedule wants it, without an intermediate
//             buffer.
//   release   the message is consumed: the slot is free, the sender's buffer is its own again.
//
// Rules for callers and implementations (tests/conformance states them as tests):
//   - Nothing blocks, allocates, locks or throws after the channel is connected; system calls only
//   where the transport
//     is made of them. One thread at a time uses a channel (the communicator sees to that).
//   - A failure is sticky: error() says what, with rank, host and pid; from then on send() takes
//   nothing and peek() finds
//     nothing. Messages that had arrived whole before the peer died may still be peeked.
#pragma once

#include "transport/base/status.hpp"

#include <cstddef>
#include <cstdint>

namespace ef {

using rank_t = int32_t;

/// Who the other end is, for error texts: "rank 3 (host7, pid 4711)".
struct peer_name {
    rank_t rank = -1;
    std::string host;
    int32_t pid = 0;
    std::string text() const;
};

struct message {
    uint64_t tag = 0;
    size_t bytes = 0;
    const std::byte* view = nullptr;  // valid until release(); nullptr: fetch() it
};

enum class ownership : uint8_t {
    borrow,  // the data stays unchanged until completed() covers this message: zero-copy allowed
    copy,    // the channel must have its own copy when send() returns true; bytes <= max_copy()
};

class channel {
public:
    virtual ~channel() = default;

    // --- sending

    /// Take one message for sending. False: no room now (or not yet connected, or failed);
    /// progress() and try again. `bytes` <= max_message() (max_copy() with ownership::copy). Zero
    /// bytes are a message like any other.
    virtual bool send(uint64_t tag, const std::byte* data, size_t bytes,
                      ownership how) noexcept = 0;

    /// How many messages send() has taken: the ticket of the last one.
    virtual uint64_t sent() const noexcept = 0;

    /// How many of them, from the first, no longer need their data. Never decreases.
    virtual uint64_t completed() noexcept = 0;

    // --- receiving

    /// The message at the head of the stream, if its tag and length have arrived. Asking again
    /// before release() gives the same message. False: nothing yet.
    virtual bool peek(message& m) noexcept = 0;

    /// Bring the payload of the peeked message (one without a view) into dst[0, bytes). Returns how
    /// many bytes from the front are there by now; call again with the same dst until it is all of
    /// them.
    virtual size_t fetch(std::byte* dst) noexcept = 0;

    /// The peeked message has been consumed, whole.
    virtual void release() noexcept = 0;

    // --- life

    /// Do what is pending (connect, flush, read notices). Cheap when nothing is. True if anything
    /// moved.
    virtual bool progress() noexcept = 0;

    /// Called about once a millisecond by whoever waits: look at what may cost a system call (the
    /// peer's death, notices).
    virtual void attend() noexcept {}

    /// Would closing now lose nothing of what send() has taken? True also once it is broken.
    virtual bool delivered() noexcept { return true; }

    /// What broke it, or OK.
    virtual const status& error() const noexcept = 0;

    virtual size_t max_message() const noexcept = 0;
    virtual size_t max_copy() const noexcept = 0;

    /// "shm", "tcp:eth0".
    virtual const std::string& medium() const noexcept = 0;
};

}  // namespace ef
