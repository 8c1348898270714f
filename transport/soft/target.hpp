// target: the half of a soft endpoint that executes what the peer asks for.
#pragma once

#include "transport/soft/failure.hpp"
#include "transport/soft/regions.hpp"
#include "transport/transport.hpp"

namespace ef::rdma::soft {

class target {
public:
    static constexpr size_t capacity = 1024;  // receives
    static constexpr size_t max_reads = 128;  // of the peer

    target(channel& c, const regions& r, uint64_t rnr_timeout_ms)
        : channel_(c),
          regions_(r),
          fragment_(c.max_message()),
          rnr_timeout_ns_(rnr_timeout_ms * 1'000'000),
          receives_(std::make_unique<posted[]>(capacity)),
          answers_(std::make_unique<answer[]>(max_reads)) {}

    size_t post(std::span<const receive> r) noexcept;
    size_t poll(std::span<completion> out) noexcept;

    /// Execute the request at the head of the channel; true: it may be released.
    bool execute(const message& m, const wire_tag& t) noexcept;
    /// Answers that are due, as far as the channel takes them.
    bool answer_peer() noexcept;

    void break_off() noexcept { broken_ = true; }
    bool failed() const noexcept { return broken_; }
    /// The message at the head waits for a receive.
    bool waiting() const noexcept { return rnr_until_ns_ != 0; }
    const failure& why() const noexcept { return why_; }

private:
    struct posted {
        receive r;
        uint64_t got = 0;
        uint32_t imm = 0;
        bool with_imm = false;
        outcome how = outcome::flushed;
    };
    struct answer {
        uint64_t request = 0;  // its number
        uint32_t rkey = 0;
        uint64_t offset = 0;
        uint64_t bytes = 0;
        uint64_t sent = 0;
        uint64_t value = 0;
        bool atomic = false;
    };

    bool write(const message& m, const wire_tag& t) noexcept;
    bool send(const message& m, const wire_tag& t) noexcept;
    bool read(const message& m, const wire_tag& t) noexcept;
    bool atomic(const message& m, const wire_tag& t) noexcept;
    bool bring(const message& m, std::byte* dst) noexcept;
    bool receive_is_posted() noexcept;
    void executed(bool ack) noexcept;
    bool send_answer(answer& a) noexcept;
    bool refuse(outcome how, const char* what, const wire_tag& t, uint64_t bytes) noexcept;

    channel& channel_;
    const regions& regions_;
    size_t fragment_;
    uint64_t rnr_timeout_ns_;
    uint64_t rnr_until_ns_ = 0;

    std::unique_ptr<posted[]> receives_;
    uint64_t posted_ = 0, filled_ = 0, reported_ = 0;

    std::unique_ptr<answer[]> answers_;
    uint64_t asked_ = 0, answered_ = 0;

    uint64_t executed_ = 0;
    bool done_due_ = false;
    bool imm_pending_ = false;
    uint32_t imm_ = 0;
    uint64_t imm_bytes_ = 0;  // of the write that it belongs to, so far

    bool broken_ = false;
    bool refusal_due_ = false;
    uint64_t refused_ = 0;
    failure why_;
};

}  // namespace ef::rdma::soft
