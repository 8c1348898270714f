// lane: one reliable connection of a verbs channel: its QP, how far both ends have come with setting it
// up, and what is posted on it.
//
//   closed -> greeted (hello sent) -> connected (peer's hello came: QP is ready, "ready" sent) -> up
//   any of them -> stopping ("down" sent, QP stopped) -> closed when the peer has said "down" too
//
// Only an `up` lane is posted on, since the peer's end is ready to receive then.
#pragma once

#include "transport/base/status.hpp"
#include "transport/verbs/rail.hpp"
#include "transport/verbs/wire.hpp"

#include <memory>
#include <span>

namespace ef::verbs {

enum class lane_state : uint8_t { closed, greeted, connected, up, stopping };

/// What was posted, until its completion: a part of a message, or something that nobody waits for.
struct posting {
    uint64_t number = 0;
    uint8_t part = 0;
    bool is_part = false;
};

class lane {
public:
    static constexpr uint32_t send_depth = 256;
    // A part of each message that waits for credit, and a credit for each that waits for ours.
    static constexpr uint32_t receive_depth = 2 * window + 128;

    rail* on = nullptr;
    lane_state state = lane_state::closed;
    bool peer_is_ready = false, peer_is_down = false;
    qp_address own;
    uint64_t remote_ring = 0;
    uint32_t remote_key = 0;
    region ring, mirror;  // this rail's registrations of the channel's two rings
    status why;           // it was taken down

    status open(uint32_t psn);
    status connect(const qp_address& peer, const qp_settings& s);
    void stop() noexcept;
    void close() noexcept;

    bool up() const noexcept { return state == lane_state::up; }
    queue_pair* qp() noexcept { return qp_.get(); }
    uint32_t inline_bytes() const noexcept { return qp_ ? qp_->inline_bytes() : 0; }
    bool has_room() const noexcept { return posted_ - retired_ < send_depth; }
    bool idle() const noexcept { return posted_ == retired_; }
    /// Nothing will complete by itself of what is posted: flush() makes it.
    bool unsignalled() const noexcept { return since_signal_ > 0; }

    /// Post `r` (id and signalling are set here). Room was checked.
    failure post(send_request& r, const posting& p, bool signalled) noexcept;
    /// A write of nothing, whose completion says that all before it are done.
    failure flush() noexcept;
    /// Everything up to the request `id` is done: what it was, oldest first, through `each`.
    template <class F>
    void retire(uint64_t id, F&& each) {
        for (; retired_ <= id && retired_ < posted_; ++retired_)
            each(queue_[retired_ % send_depth]);
    }
    /// A receive request has been used; posted again when there are some.
    failure used_receive() noexcept;

private:
    failure post_receives(uint32_t n) noexcept;

    // Often enough that a full queue always holds one that will complete.
    static constexpr uint32_t signal_every = 16;

    std::unique_ptr<queue_pair> qp_;
    std::array<posting, send_depth> queue_;
    uint64_t posted_ = 0, retired_ = 0;
    uint32_t since_signal_ = 0, used_receives_ = 0;
};

}  // namespace ef::verbs
