// The one-sided interface beside channel: one end of a reliable, ordered connection as RDMA has it
// (an RC queue pair with its completion queue). The perftests measure it; a NIC implements it
// natively, shm and tcp through soft_endpoint.
//
//   requester                                          target
//   post(write | write_imm)  -- data, address, rkey ->  its region changes; write_imm also takes a
//   post(send)               -- data ---------------->  posted receive, and poll() there says so
//   post(read | fetch_add | compare_swap)  ---------->  its region is read (and changed)
//   poll() -> completion     <- data or "done" -------  by progress(), or by the NIC alone
//
// Rules (tests/transport/endpoint_suite.hpp states them as tests):
//   - Works are executed at the target in the order they were posted, and complete in that order.
//     Only what a read returns is not ordered with a later write: wait for its completion first.
//   - The target checks rkey and bounds. A refused work completes with the reason, all later ones
//     with `flushed`, and both ends are broken: error() says why on either.
//   - A work's local memory stays registered and unchanged until its completion or that of a later
//     one; with `inlined` only until post() returns. An unsignalled work has no completion, unless
//     it failed, and keeps its place until a later one is polled.
//   - Posting, polling and progress neither block, allocate, lock nor throw. One thread at a time.
#pragma once

#include "transport/base/status.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ef::rdma {

enum class op : uint8_t {
    write,
    write_imm,
    read,
    send,
    fetch_add,     // 64 bit, 8-byte aligned at the target; the old value comes to `local`
    compare_swap,  // the same; swapped in where the old value equals `compare`
    receive,       // completions only: a send has arrived
    receive_imm,   // completions only: a write_imm has arrived
};

enum class outcome : uint8_t {
    ok,
    local_length,      // more than max_message, or a message longer than the receive posted for it
    local_protection,  // `local` is not in the region of `lkey`
    remote_access,     // no such rkey at the target, or out of its bounds
    remote_invalid,    // the target's receive was too small, or an atomic was not aligned
    rnr_exceeded,      // the target had no receive posted for too long
    peer_lost,         // the connection broke
    flushed,           // an earlier failure broke the endpoint
};

/// "remote access error": what an error text calls it.
const char* outcome_name(outcome o) noexcept;
const char* op_name(op o) noexcept;

/// Memory that this endpoint may be asked to use.
struct region {
    std::byte* base = nullptr;
    size_t bytes = 0;
    uint64_t address = 0;  // what the peer calls its first byte
    uint32_t lkey = 0;
    uint32_t rkey = 0;
};

struct work {
    uint64_t id = 0;
    op what = op::write;
    bool signalled = true;
    bool inlined = false;  // write, write_imm, send of at most max_inline bytes
    uint32_t imm = 0;
    std::byte* local = nullptr;  // source of write and send, else where the result goes
    size_t bytes = 0;            // atomics: 8
    uint64_t remote_address = 0;
    uint32_t lkey = 0;
    uint32_t rkey = 0;
    uint64_t operand = 0;  // to add, or to swap in
    uint64_t compare = 0;
};

struct receive {
    uint64_t id = 0;
    std::byte* local = nullptr;
    size_t bytes = 0;
    uint32_t lkey = 0;
};

struct completion {
    uint64_t id = 0;
    uint64_t bytes = 0;
    uint32_t imm = 0;
    op what = op::write;
    outcome how = outcome::ok;
};

struct limits {
    size_t max_outstanding = 0;  // works posted and not yet polled
    size_t max_receives = 0;
    size_t max_reads = 0;  // reads and atomics under way; more wait in the queue
    size_t max_inline = 0;
    size_t max_message = 0;
};

class endpoint {
public:
    virtual ~endpoint() = default;

    /// Make [base, base + bytes) usable as local memory and by the peer. May block.
    virtual result<region> enrol(std::byte* base, size_t bytes) = 0;
    /// No work may be using it.
    virtual void withdraw(const region& r) noexcept = 0;

    /// Post from the front and return how many were taken; fewer means that the queue is full:
    /// poll(), then post the rest. A broken endpoint takes none.
    virtual size_t post(std::span<const work> w) noexcept = 0;
    virtual size_t post_receive(std::span<const receive> r) noexcept = 0;

    /// At most out.size() completions, without blocking.
    virtual size_t poll(std::span<completion> out) noexcept = 0;

    /// Do what is pending, also on the peer's behalf where no NIC does. True if anything moved.
    virtual bool progress() noexcept = 0;

    /// What broke it, or OK.
    virtual const status& error() const noexcept = 0;
    virtual const limits& bounds() const noexcept = 0;

    /// "shm", "tcp:eth0", "verbs:mlx5_0/1".
    virtual const std::string& medium() const noexcept = 0;
};

}  // namespace ef::rdma
