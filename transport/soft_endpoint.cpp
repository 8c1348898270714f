#include "transport/soft_endpoint.hpp"

#include "transport/base/clock.hpp"
#include "transport/soft/requester.hpp"
#include "transport/soft/target.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ef::rdma {
namespace {

using namespace soft;

constexpr unsigned burst = 32;        // messages taken by one progress()
constexpr unsigned idle_turns = 256;  // between two looks at the clock
constexpr uint64_t attend_ns = 1'000'000;

class soft_endpoint final : public endpoint {
public:
    soft_endpoint(std::unique_ptr<channel> c, soft_options o)
        : channel_(std::move(c)),
          requester_(*channel_, regions_),
          target_(*channel_, regions_, o.rnr_timeout_ms) {
        bounds_ = {requester::capacity, target::capacity, requester::max_reads,
                   std::min(requester::max_inline, channel_->max_copy()), requester::max_message};
    }

    result<region> enrol(std::byte* base, size_t bytes) override {
        return regions_.enrol(base, bytes);
    }
    void withdraw(const region& r) noexcept override { regions_.withdraw(r.rkey); }

    size_t post(std::span<const work> w) noexcept override {
        const size_t n = requester_.post(w);
        if (requester_.failed()) look_for_failure();
        return n;
    }
    size_t post_receive(std::span<const receive> r) noexcept override { return target_.post(r); }

    size_t poll(std::span<completion> out) noexcept override {
        const size_t n = requester_.poll(out);
        return n + target_.poll(out.subspan(n));
    }

    bool progress() noexcept override;
    const status& error() const noexcept override { return error_; }
    const limits& bounds() const noexcept override { return bounds_; }
    const std::string& medium() const noexcept override { return channel_->medium(); }

private:
    bool take_one() noexcept;
    void attend_sometimes() noexcept;
    void look_for_failure() noexcept;
    void lose(const status& why) noexcept;

    std::unique_ptr<channel> channel_;
    regions regions_;
    requester requester_;
    target target_;
    limits bounds_;
    status error_;
    unsigned idle_ = 0;
    uint64_t attended_ns_ = 0;
};

bool soft_endpoint::progress() noexcept {
    bool moved = channel_->progress();
    if (error_.ok()) {
        for (unsigned i = 0; i < burst && take_one(); ++i) moved = true;
        moved |= target_.answer_peer();
        moved |= requester_.send();
        look_for_failure();
        if (!moved && !channel_->error().ok() && !target_.waiting()) lose(channel_->error());
    } else {
        moved |= target_.answer_peer();  // a refusal may be due
    }
    if (!moved) attend_sometimes();
    return moved;
}

// At the head: a request of the peer, or an answer to one of ours. False: nothing was consumed.
bool soft_endpoint::take_one() noexcept {
    message m;
    if (target_.failed() || requester_.failed() || !channel_->peek(m)) return false;
    const wire_tag t = unpack(m.tag);
    bool whole = true;
    switch (t.kind) {
    case wire_kind::response:
        whole = requester_.take_response(m, t.more);
        break;
    case wire_kind::done:
        requester_.take_done(t.value);
        break;
    case wire_kind::refused:
        requester_.take_refused(outcome(std::min(t.rkey, uint32_t(outcome::flushed))), t.value);
        break;
    default:
        whole = target_.execute(m, t);
    }
    if (whole) channel_->release();
    return whole;
}

void soft_endpoint::attend_sometimes() noexcept {
    if (++idle_ % idle_turns) return;
    const uint64_t now = now_ns();
    if (now - attended_ns_ < attend_ns) return;
    attended_ns_ = now;
    channel_->attend();
}

void soft_endpoint::look_for_failure() noexcept {
    if (!error_.ok()) return;
    const std::string& by = channel_->medium();
    if (requester_.failed()) {
        const failure& f = requester_.why();
        error_ =
            status(EF_PEER_LOST,
                   f.of_work ? fmt::format("{}: {} of {} bytes to address {:#x}, rkey {:#x} (work "
                                           "{}): {}: {}",
                                           by, op_name(f.which), f.bytes, f.address, f.rkey, f.id,
                                           outcome_name(f.how), f.what)
                             : fmt::format("{}: the peer sent {}", by, f.what));
    } else if (target_.failed()) {
        const failure& f = target_.why();
        error_ = status(EF_PEER_LOST,
                        fmt::format("{}: refused the peer {}: {} bytes, address {:#x}, rkey {:#x}",
                                    by, f.what, f.bytes, f.address, f.rkey));
    }
    if (!error_.ok()) lose(error_);
}

// What had arrived before the channel broke has been taken by now.
void soft_endpoint::lose(const status& why) noexcept {
    if (error_.ok()) error_ = why;
    requester_.break_off(outcome::peer_lost);
    target_.break_off();
}

}  // namespace

std::unique_ptr<endpoint> make_soft_endpoint(std::unique_ptr<channel> c, soft_options o) {
    return std::make_unique<soft_endpoint>(std::move(c), o);
}

}  // namespace ef::rdma
