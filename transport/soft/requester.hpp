// requester: the half of a soft endpoint that posts works, sends them and completes them.
//
//   ring      [ w4 | w5 | w6 | w7 | w8 ]     reported_ = 4, executed_ = 6, sent_ = 7, posted_ = 9
//               polled next    ^     ^ being sent
//                              the peer has said that all before are executed
#pragma once

#include "transport/soft/failure.hpp"
#include "transport/soft/regions.hpp"
#include "transport/transport.hpp"

namespace ef::rdma::soft {

class requester {
public:
    static constexpr size_t capacity = 1024;
    static constexpr size_t max_reads = 128;
    static constexpr size_t max_inline = 256;
    static constexpr size_t max_message = size_t(1) << 30;

    requester(channel& c, const regions& r)
        : channel_(c),
          regions_(r),
          fragment_(c.max_message()),
          works_(std::make_unique<work[]>(capacity)),
          inlined_(std::make_unique<std::byte[]>(capacity * max_inline)) {}

    size_t post(std::span<const work> w) noexcept;
    /// Give the channel what it takes. True if it took any.
    bool send() noexcept;
    size_t poll(std::span<completion> out) noexcept;

    /// The peer's answers; false: not whole yet.
    bool take_response(const message& m, bool more) noexcept;
    void take_done(uint64_t count) noexcept;
    void take_refused(outcome how, uint64_t count) noexcept;

    /// Everything not executed yet fails: the first work with `first`, the others are flushed.
    void break_off(outcome first) noexcept;
    bool failed() const noexcept { return broken_; }
    const failure& why() const noexcept { return why_; }

private:
    work& at(uint64_t n) noexcept { return works_[n % capacity]; }
    static bool answered(op o) noexcept {
        return o == op::read || o == op::fetch_add || o == op::compare_swap;
    }
    void take(const work& w) noexcept;
    bool acceptable(const work& w) noexcept;
    bool send_next() noexcept;
    bool send_data(const work& w) noexcept;
    bool send_question(const work& w) noexcept;
    void next_work() noexcept;
    void fail(outcome how, const char* what) noexcept;
    void fail_work(outcome how, const char* what, uint64_t n) noexcept;

    channel& channel_;
    const regions& regions_;
    size_t fragment_;
    std::unique_ptr<work[]> works_;
    std::unique_ptr<std::byte[]> inlined_;  // max_inline bytes for each work
    uint64_t posted_ = 0, sent_ = 0, executed_ = 0, reported_ = 0;

    // Of the work being sent.
    size_t offset_ = 0;
    bool imm_sent_ = false;
    uint64_t asked_ = 0;  // the last work that asked for `done`, plus one

    // Of the first read or atomic that is not answered.
    uint64_t reads_out_ = 0;
    size_t got_ = 0;

    bool broken_ = false;
    outcome first_ = outcome::ok;
    uint64_t broken_at_ = 0;
    failure why_;
};

}  // namespace ef::rdma::soft
