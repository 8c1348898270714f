#include "transport/verbs/lane.hpp"

#include <algorithm>

namespace ef::verbs {
namespace {

constexpr uint32_t wanted_inline = 220;  // header and 188 bytes: a cache line or three of payload
constexpr uint32_t repost_at = 64;

}  // namespace

status lane::open(uint32_t psn) {
    qp_depths d;
    d.send = send_depth;
    d.receive = receive_depth;
    d.inline_bytes = wanted_inline;
    if (const failure f = on->device().make(d, on->address().gid_index, qp_))
        return verbs_error(on->name(), "making a QP", f);
    own = {qp_->number(), psn, on->device().state().lid, on->address().gid};
    posted_ = retired_ = 0;
    since_signal_ = used_receives_ = 0;
    peer_is_ready = peer_is_down = false;
    state = lane_state::greeted;
    return {};
}

status lane::connect(const qp_address& peer, const qp_settings& s) {
    if (const failure f = qp_->connect(peer, own.psn, s))
        return verbs_error(on->name(), "connecting a QP", f);
    if (const failure f = post_receives(receive_depth))
        return verbs_error(on->name(), "posting receives", f);
    state = lane_state::connected;
    return {};
}

void lane::stop() noexcept {
    if (qp_) qp_->stop();
    state = lane_state::stopping;
}

void lane::close() noexcept {
    qp_.reset();
    state = lane_state::closed;
}

failure lane::post(send_request& r, const posting& p, bool signalled) noexcept {
    r.id = posted_;
    r.signalled = signalled || since_signal_ + 1 >= signal_every;
    size_t taken = 0;
    if (const failure f = qp_->post(&r, 1, taken)) return f;
    queue_[posted_ % send_depth] = p;
    ++posted_;
    since_signal_ = r.signalled ? 0 : since_signal_ + 1;
    return {};
}

failure lane::flush() noexcept {
    send_request r;
    r.op = opcode::write;
    r.remote = remote_ring;
    r.rkey = remote_key;
    return post(r, {}, true);
}

failure lane::used_receive() noexcept {
    if (++used_receives_ < repost_at) return {};
    return post_receives(std::exchange(used_receives_, 0));
}

failure lane::post_receives(uint32_t n) noexcept {
    static constexpr receive_request blank[repost_at];
    while (n > 0) {
        size_t taken = 0;
        if (const failure f = qp_->post(blank, std::min(n, repost_at), taken)) return f;
        n -= uint32_t(taken);
    }
    return {};
}

}  // namespace ef::verbs
