// lane: one connection (QP) of a test: its memory, and the messages that are under way on it.
//
//   memory   [ incoming: slots x stride | outgoing: slots x stride ]
//
// A write or send goes from a slot of `outgoing` to one of the peer's `incoming`, a read the other
// way round; message n uses slot n mod slots on both sides.
#pragma once

#include "perftests/common/histogram.hpp"
#include "perftests/p2p/options.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ef::perf::p2p {

/// Where messages lie; the same on both ends, as it follows from the sizes.
struct layout {
    explicit layout(const std::vector<uint64_t>& sizes) noexcept;
    size_t stride;
    size_t slots;
    size_t area() const noexcept { return stride * slots; }
};

struct remote_memory {
    uint64_t address = 0;
    uint32_t rkey = 0;
};

class lane {
public:
    /// Opens the endpoint, with the peer doing the same. Throws `failure`.
    lane(ef_pair_t pair, const test& what, const p2p_options& o, const layout& l);
    lane(const lane&) = delete;
    lane& operator=(const lane&) = delete;
    ~lane();

    const remote_memory& mine() const noexcept { return mine_; }
    void set_peer(const remote_memory& m) noexcept { peer_ = m; }
    const std::string& medium() const noexcept { return medium_; }
    std::byte* incoming(uint64_t n) const noexcept {
        return memory_ + n % layout_.slots * layout_.stride;
    }
    std::byte* outgoing(uint64_t n) const noexcept { return incoming(n) + layout_.area(); }
    size_t slots() const noexcept { return layout_.slots; }

    /// Messages of this size from now on.
    void begin(uint64_t bytes);
    /// Keep receives posted, where the test has them.
    void keep_receives();

    /// Messages that may be posted now.
    uint64_t room() const noexcept {
        return depth_ - std::min<uint64_t>(depth_, posted_ - completed_);
    }
    /// Post `n` messages; the last one has a completion if `last`. `operand`: of atomics.
    void post(uint64_t n, bool last, uint64_t operand = 1);
    void compare_swap(uint64_t compare, uint64_t swap);
    /// Messages may be under way whose completion was not asked for: ask with one more.
    bool needs_closing() const noexcept { return !last_signalled_ && posted_ > completed_; }

    /// Take what has completed; the time since each message's post goes to `times`. True if
    /// anything came. Throws `failure` with the library's words.
    bool poll(histogram* times);

    uint64_t posted() const noexcept { return posted_; }
    uint64_t completed() const noexcept { return completed_; }
    uint64_t received() const noexcept { return received_; }

private:
    static constexpr size_t stamps = 2048;  // more than can be under way

    void post_some(size_t n);
    [[noreturn]] void fail(const ef_completion& c);

    const test& what_;
    layout layout_;
    ef_endpoint_t endpoint_ = nullptr;
    std::string medium_;
    std::byte* memory_ = nullptr;
    remote_memory mine_, peer_;
    uint32_t lkey_ = 0;
    uint64_t bytes_ = 0;
    uint64_t depth_ = 1, signal_every_ = 1, asked_signal_every_ = 0;
    uint64_t inline_bytes_ = 0;
    uint64_t receive_depth_ = 0;
    bool last_signalled_ = true;
    uint64_t posted_ = 0, completed_ = 0, received_ = 0, receives_ = 0;
    std::vector<ef_work> works_;
    std::unique_ptr<uint64_t[]> stamp_;
};

}  // namespace ef::perf::p2p
