#include "transport/soft/target.hpp"

#include "transport/base/clock.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace ef::rdma::soft {

size_t target::post(std::span<const receive> r) noexcept {
    size_t n = 0;
    if (broken_) return 0;
    for (; n < r.size() && posted_ - reported_ < capacity; ++n)
        receives_[posted_++ % capacity] = {r[n], 0, 0, false, outcome::flushed};
    return n;
}

size_t target::poll(std::span<completion> out) noexcept {
    const uint64_t until = broken_ ? posted_ : filled_;
    size_t n = 0;
    for (; n < out.size() && reported_ < until; ++reported_) {
        const posted& p = receives_[reported_ % capacity];
        out[n++] = {p.r.id, p.got, p.imm, p.with_imm ? op::receive_imm : op::receive, p.how};
    }
    return n;
}

bool target::execute(const message& m, const wire_tag& t) noexcept {
    switch (t.kind) {
    case wire_kind::immediate:
        imm_pending_ = true;
        imm_bytes_ = 0;
        imm_ = uint32_t(t.value);
        return true;
    case wire_kind::write:
        return write(m, t);
    case wire_kind::send:
        return send(m, t);
    case wire_kind::read:
        return read(m, t);
    case wire_kind::fetch_add:
    case wire_kind::compare_swap:
        return atomic(m, t);
    default:
        return refuse(outcome::remote_invalid, "an unknown request", t, m.bytes);
    }
}

bool target::bring(const message& m, std::byte* dst) noexcept {
    if (m.bytes == 0) return true;
    if (!m.view) return channel_.fetch(dst) == m.bytes;
    memcpy(dst, m.view, m.bytes);
    return true;
}

void target::executed(bool ack) noexcept {
    ++executed_;
    done_due_ |= ack;
}

bool target::write(const message& m, const wire_tag& t) noexcept {
    // A zero-byte write names no memory, as on a NIC.
    std::byte* dst = m.bytes ? regions_.find(t.rkey, t.value, m.bytes) : nullptr;
    if (m.bytes && !dst)
        return refuse(outcome::remote_access, "a write outside of its region", t, m.bytes);
    const bool notify = imm_pending_ && !t.more;
    if (notify && !receive_is_posted()) return false;
    if (!bring(m, dst)) return false;
    if (imm_pending_) imm_bytes_ += m.bytes;
    if (notify) {
        posted& p = receives_[filled_++ % capacity];
        p.got = imm_bytes_;
        p.imm = imm_;
        p.with_imm = true;
        p.how = outcome::ok;
        imm_pending_ = false;
    }
    if (!t.more) executed(t.ack);
    return true;
}

bool target::send(const message& m, const wire_tag& t) noexcept {
    if (!receive_is_posted()) return false;
    posted& p = receives_[filled_ % capacity];
    if (m.bytes > p.r.bytes - p.got) {
        p.how = outcome::local_length;
        return refuse(outcome::remote_invalid, "a send longer than the receive posted for it", t,
                      p.got + m.bytes);
    }
    if (m.bytes && !regions_.holds(p.r.lkey, p.r.local, p.r.bytes)) {
        p.how = outcome::local_protection;
        return refuse(outcome::remote_invalid, "a send into memory outside of its region", t,
                      p.r.bytes);
    }
    if (!bring(m, p.r.local + p.got)) return false;
    p.got += m.bytes;
    if (t.more) return true;
    p.how = outcome::ok;
    ++filled_;
    executed(t.ack);
    return true;
}

// The message stays at the head meanwhile.
bool target::receive_is_posted() noexcept {
    if (posted_ > filled_) {
        rnr_until_ns_ = 0;
        return true;
    }
    const uint64_t now = now_ns();
    if (rnr_until_ns_ == 0) rnr_until_ns_ = now + rnr_timeout_ns_;
    if (now >= rnr_until_ns_)
        refuse(outcome::rnr_exceeded, "a message for which no receive was posted in time", {}, 0);
    return false;
}

bool target::read(const message& m, const wire_tag& t) noexcept {
    wire_length l;
    if (m.bytes != sizeof(l) || asked_ - answered_ == max_reads)
        return refuse(outcome::remote_invalid, "a malformed read", t, m.bytes);
    std::byte raw[sizeof(l)];
    if (!bring(m, raw)) return false;
    memcpy(&l, raw, sizeof(l));
    const uint64_t bytes = l.bytes;
    if (bytes && !regions_.find(t.rkey, t.value, bytes))
        return refuse(outcome::remote_access, "a read outside of its region", t, bytes);
    answers_[asked_++ % max_reads] = {executed_, t.rkey, t.value, bytes, 0, 0, false};
    executed(false);
    return true;
}

bool target::atomic(const message& m, const wire_tag& t) noexcept {
    const bool swap = t.kind == wire_kind::compare_swap;
    if (m.bytes != (swap ? 16u : 8u) || asked_ - answered_ == max_reads)
        return refuse(outcome::remote_invalid, "a malformed atomic", t, m.bytes);
    wire_operands o;
    std::byte raw[sizeof(o)];
    if (!bring(m, raw)) return false;
    memcpy(&o, raw, m.bytes);
    std::byte* at = regions_.find(t.rkey, t.value, 8);
    if (!at) return refuse(outcome::remote_access, "an atomic outside of its region", t, 8);
    if (reinterpret_cast<uintptr_t>(at) % 8)
        return refuse(outcome::remote_invalid, "an atomic that is not 8-byte aligned", t, 8);
    // Atomic towards this process's threads too, and towards other endpoints of the same memory.
    std::atomic_ref<uint64_t> cell(*reinterpret_cast<uint64_t*>(at));
    uint64_t old = o.compare;
    if (swap) cell.compare_exchange_strong(old, o.swap);
    else old = cell.fetch_add(o.compare);
    answers_[asked_++ % max_reads] = {executed_, 0, 0, 8, 0, old, true};
    executed(false);
    return true;
}

bool target::refuse(outcome how, const char* what, const wire_tag& t, uint64_t bytes) noexcept {
    if (broken_) return false;
    broken_ = true;
    refusal_due_ = true;
    refused_ = executed_;
    why_ = {how, what, false, 0, op::write, bytes, t.value, t.rkey};
    return false;
}

bool target::answer_peer() noexcept {
    bool moved = false;
    while (answered_ < asked_) {
        answer& a = answers_[answered_ % max_reads];
        if (!send_answer(a)) return moved;
        moved = true;
        if (a.sent == a.bytes) ++answered_;
    }
    if (refusal_due_ &&
        channel_.send(pack({wire_kind::refused, false, false, uint32_t(why_.how), refused_}),
                      nullptr, 0, ownership::copy)) {
        refusal_due_ = false;
        moved = true;
    }
    if (done_due_ && !broken_ &&
        channel_.send(pack({wire_kind::done, false, false, 0, executed_}), nullptr, 0,
                      ownership::copy)) {
        done_due_ = false;
        moved = true;
    }
    return moved;
}

bool target::send_answer(answer& a) noexcept {
    if (a.atomic) {
        const wire_length v{{a.value}};
        if (!channel_.send(pack({wire_kind::response}), reinterpret_cast<const std::byte*>(&v),
                           sizeof(v), ownership::copy))
            return false;
        a.sent = a.bytes;
        return true;
    }
    // Asked for again: the region may have gone since.
    const std::byte* from = a.bytes ? regions_.find(a.rkey, a.offset, a.bytes) : nullptr;
    if (a.bytes && !from) {
        refuse(outcome::remote_access, "a read of a region that has gone",
               {wire_kind::read, false, false, a.rkey, a.offset}, a.bytes);
        refused_ = a.request;
        answered_ = asked_;
        return false;
    }
    const size_t n = std::min<uint64_t>(a.bytes - a.sent, fragment_);
    const bool more = a.sent + n < a.bytes;
    if (!channel_.send(pack({wire_kind::response, false, more}), from ? from + a.sent : nullptr, n,
                       ownership::borrow))
        return false;
    a.sent += n;
    return true;
}

}  // namespace ef::rdma::soft
