#include "transport/soft/requester.hpp"

#include <algorithm>
#include <cstring>

namespace ef::rdma::soft {

size_t requester::post(std::span<const work> w) noexcept {
    if (broken_) return 0;
    size_t n = 0;
    // Unsignalled works at the front leave with nobody asking for them.
    while (reported_ < executed_ && !at(reported_).signalled) ++reported_;
    for (; n < w.size() && posted_ - reported_ < capacity; ++n) take(w[n]);
    if (n) send();
    return n;
}

// The channel may have no room now, so inlined data moves here first.
void requester::take(const work& w) noexcept {
    work& mine = at(posted_) = w;
    if (w.inlined && w.bytes <= max_inline && w.bytes) {
        mine.local = inlined_.get() + posted_ % capacity * max_inline;
        memcpy(mine.local, w.local, w.bytes);
    }
    ++posted_;
}

bool requester::acceptable(const work& w) noexcept {
    const bool atomic = w.what == op::fetch_add || w.what == op::compare_swap;
    if (w.bytes > max_message || (atomic && w.bytes != 8) || (w.inlined && w.bytes > max_inline) ||
        w.what >= op::receive)
        fail_work(outcome::local_length, "its length is not acceptable", sent_);
    else if (w.bytes && !w.inlined && !regions_.holds(w.lkey, w.local, w.bytes))
        fail_work(outcome::local_protection, "its memory is not in the region of its lkey", sent_);
    else if (w.remote_address + w.bytes > wire_value_mask && w.what != op::send)
        fail_work(outcome::remote_access, "the address lies beyond every region", sent_);
    return !broken_;
}

bool requester::send() noexcept {
    bool moved = false;
    while (!broken_ && sent_ < posted_ && send_next()) moved = true;
    return moved;
}

bool requester::send_next() noexcept {
    const work& w = at(sent_);
    if (offset_ == 0 && !imm_sent_ && !acceptable(w)) return false;
    return answered(w.what) ? send_question(w) : send_data(w);
}

bool requester::send_data(const work& w) noexcept {
    if (w.what == op::write_imm && !imm_sent_) {
        if (!channel_.send(pack({wire_kind::immediate, false, false, 0, w.imm}), nullptr, 0,
                           ownership::copy))
            return false;
        imm_sent_ = true;
    }
    // What nobody waits for is acknowledged now and then, so that the ring never fills.
    const bool ack = w.signalled || sent_ - asked_ >= capacity / 4;
    const wire_kind kind = w.what == op::send ? wire_kind::send : wire_kind::write;
    const size_t n = std::min(w.bytes - offset_, fragment_);
    const bool more = offset_ + n < w.bytes;
    const uint64_t value = w.what == op::send ? 0 : w.remote_address + offset_;
    if (!channel_.send(pack({kind, ack && !more, more, w.rkey, value}), w.local + offset_, n,
                       ownership::borrow))
        return false;
    offset_ += n;
    if (more) return true;
    if (ack) asked_ = sent_ + 1;
    next_work();
    return true;
}

bool requester::send_question(const work& w) noexcept {
    if (reads_out_ == max_reads) return false;
    std::byte payload[sizeof(wire_operands)];
    size_t n = sizeof(wire_length);
    wire_kind kind = wire_kind::read;
    if (w.what == op::read) {
        const wire_length l{{uint64_t(w.bytes)}};
        memcpy(payload, &l, sizeof(l));
    } else {
        const bool swap = w.what == op::compare_swap;
        const wire_operands o{{swap ? w.compare : w.operand}, {w.operand}};
        memcpy(payload, &o, sizeof(o));
        kind = swap ? wire_kind::compare_swap : wire_kind::fetch_add;
        if (swap) n = sizeof(o);
    }
    if (!channel_.send(pack({kind, false, false, w.rkey, w.remote_address}), payload, n,
                       ownership::copy))
        return false;
    ++reads_out_;
    asked_ = sent_ + 1;
    next_work();
    return true;
}

void requester::next_work() noexcept {
    offset_ = 0;
    imm_sent_ = false;
    ++sent_;
}

// ---------------------------------------------------------------- answers

bool requester::take_response(const message& m, bool more) noexcept {
    uint64_t n = executed_;
    while (n < sent_ && !answered(at(n).what)) ++n;
    if (n == sent_) return fail(outcome::peer_lost, "a response to nothing"), false;
    const work& w = at(n);
    if (m.bytes > w.bytes - got_ || (!more && m.bytes != w.bytes - got_))
        return fail(outcome::peer_lost, "a response of another length than asked for"), false;
    if (m.view && m.bytes) memcpy(w.local + got_, m.view, m.bytes);
    if (!m.view && m.bytes && channel_.fetch(w.local + got_) < m.bytes) return false;
    got_ += m.bytes;
    if (more) return true;
    got_ = 0;
    --reads_out_;
    executed_ = n + 1;
    return true;
}

void requester::take_done(uint64_t count) noexcept {
    // The count has its low bits only; works under way are few.
    const uint64_t n = executed_ + ((count - executed_) & wire_value_mask);
    for (uint64_t i = executed_; i < n && i < sent_; ++i)
        if (answered(at(i).what)) return fail(outcome::peer_lost, "done before its response");
    if (n > sent_) return fail(outcome::peer_lost, "done before it was asked");
    executed_ = n;
}

void requester::take_refused(outcome how, uint64_t count) noexcept {
    const uint64_t n = executed_ + ((count - executed_) & wire_value_mask);
    if (n > sent_ || n >= posted_) return fail(outcome::peer_lost, "refused what was not asked");
    executed_ = n;
    fail_work(how, "the peer refused it", n);
}

// ---------------------------------------------------------------- completions

size_t requester::poll(std::span<completion> out) noexcept {
    const uint64_t until = broken_ ? posted_ : executed_;
    size_t n = 0;
    for (; reported_ < until; ++reported_) {
        const work& w = at(reported_);
        outcome how = outcome::ok;
        if (reported_ >= executed_) how = reported_ == broken_at_ ? first_ : outcome::flushed;
        if (!w.signalled && how == outcome::ok) continue;
        if (n == out.size()) break;
        out[n++] = {w.id, w.bytes, 0, w.what, how};
    }
    return n;
}

void requester::break_off(outcome first) noexcept {
    if (broken_) return;
    broken_ = true;
    first_ = first;
    broken_at_ = executed_;
}

void requester::fail(outcome how, const char* what) noexcept {
    break_off(how);
    why_ = {how, what, false, 0, op::write, 0, 0, 0};
}

void requester::fail_work(outcome how, const char* what, uint64_t n) noexcept {
    if (broken_) return;
    break_off(how);
    broken_at_ = n;
    const work& w = at(n);
    why_ = {how, what, true, w.id, w.what, w.bytes, w.remote_address, w.rkey};
}

}  // namespace ef::rdma::soft
