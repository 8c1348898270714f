// exec: runs one program on real buffers over channels. It owns no memory that the hot path
// allocates, takes no lock and calls the system only where a channel does. One thread at a time.
//
// advance() looks at the heads of all queues once: a receive takes the messages that have arrived
// and reduces them from where they are; a send posts the chunks whose bytes are ready; a local step
// does one chunk. Whoever calls it decides what to do when nothing moved (spin, yield, sleep).
#pragma once

#include "allreduce/program.hpp"
#include "allreduce/reduce/reduce.hpp"
#include "transport/base/status.hpp"
#include "transport/transport.hpp"

#include <memory>
#include <vector>

namespace ef {

struct exec_call {
    const program* prog = nullptr;
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    size_t element_bytes = 1;
    reduce_fn reduce = nullptr;    // null: no reduction in this collective
    average_fn average = nullptr;  // null unless EF_AVG
    rank_t rank = 0;
    uint32_t nranks = 1;
    uint64_t chunk_bytes = 65536;  // multiple of 64
    uint64_t tag = 0;  // of every message of this operation: number and a hash of the arguments
};

class exec {
public:
    /// `channels`: by rank; a null entry is not connected yet, and is looked at again in every
    /// advance().
    explicit exec(std::vector<channel*>& channels) noexcept : channels_(channels) {}

    /// Prepare to run `c`. Allocates only what no earlier call needed (scratch, queues).
    void start(const exec_call& c);

    /// Move whatever can move. True if anything did.
    bool advance() noexcept;

    /// All steps done and all borrowed buffers back.
    bool done() const noexcept { return remaining_ == 0 && draining_ == 0; }

    /// What a peer sent that does not belong to this call; OK otherwise. Sticky until start().
    const status& error() const noexcept { return error_; }

    struct waiting {
        rank_t peer;
        bool sending;
        const step* at;
        uint64_t done;
    };
    /// The heads that have not finished: what this rank waits for. For reports; allocates.
    std::vector<waiting> waiting_for() const;

private:
    struct step_state {
        uint64_t done;          // bytes of its range: received and consumed, posted, or computed
        uint64_t first_ticket;  // sends: ticket of its first message
    };
    struct lane_state {
        channel* link;
        uint32_t send_at, receive_at;  // heads
        bool draining;                 // all posted, peer has not consumed all
        uint64_t fetched;  // bytes of the message at the head that have been brought here
    };

    std::byte* address(buffer b, uint64_t at) const noexcept;
    uint64_t allowed(const step& s, uint64_t from, uint64_t want) const noexcept;
    uint64_t finished_bytes(const step& s, const step_state& st) const noexcept;
    bool advance_send(lane_state& l, const lane& q) noexcept;
    bool advance_receive(lane_state& l, const lane& q) noexcept;
    uint64_t consume(lane_state& l, const step& s, uint64_t from, const message& m) noexcept;
    uint64_t fetch_and_reduce(lane_state& l, const step& s, uint64_t from) noexcept;
    bool advance_local() noexcept;
    void combine(const step& s, uint64_t from, const std::byte* msg, uint64_t bytes) noexcept;
    void refuse(const lane& q, const step& s, const step_state& st, const message& m) noexcept;
    std::byte* scratch(const lane_state& l) noexcept;

    std::vector<channel*>& channels_;
    exec_call call_;
    std::byte* base_[3] = {};  // by buffer: where offset 0 of the whole vector is (or would be)
    std::vector<step_state> states_;
    std::vector<lane_state> lanes_;
    uint32_t local_at_ = 0;
    uint32_t remaining_ = 0;  // steps not done
    uint32_t draining_ = 0;   // lanes whose borrowed sends are not all consumed
    std::unique_ptr<std::byte[]> tmp_, scratch_;
    uint64_t tmp_bytes_ = 0, scratch_bytes_ = 0;
    std::byte token_sink_[token_bytes] = {};  // what a token carries is that it came
    status error_;
};

}  // namespace ef
