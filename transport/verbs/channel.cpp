#include "transport/verbs/channel.hpp"

#include "transport/verbs/channel_impl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace ef::verbs {
namespace {

// Registering costs a look-up per message and a completion to wait for; below, a copy is cheaper.
constexpr size_t borrow_from = 4096;
constexpr uint32_t flush_status = 5;  // IBV_WC_WR_FLUSH_ERR

}  // namespace

// ---------------------------------------------------------------- sending

bool verbs_channel::choose_lanes(outgoing& m) noexcept {
    const uint32_t count = uint32_t(std::popcount(live_));
    m.parts = m.payload < stripe_from ? 1 : count;
    uint32_t left = live_;
    for (uint64_t turn = m.parts == 1 ? m.number % count : 0; turn > 0; --turn) left &= left - 1;
    for (uint32_t p = 0; p < m.parts; ++p, left &= left - 1) {
        m.lane[p] = uint8_t(std::countr_zero(left));
        if (!lanes_[m.lane[p]].has_room()) return false;
    }
    return true;
}

// All lanes of the message must be able to read the data where it is.
uint32_t verbs_channel::key_for(const std::byte* p, size_t n, const outgoing& m) noexcept {
    uint32_t key = 0;
    for (uint32_t i = 0; i < m.parts; ++i)
        if ((key = lanes_[m.lane[i]].on->key_of(p, n)) == 0) return 0;
    return key;
}

bool verbs_channel::send(uint64_t tag, const std::byte* data, size_t bytes,
                         ownership how) noexcept {
    if (!error_.ok() || bytes > max_message()) return false;
    if (!connected_ || resending_) {
        progress();
        if (!connected_ || resending_ || !error_.ok()) return false;
    }
    outgoing m;
    m.number = sent_;
    m.payload = bytes;
    ring_cursor next = put_;
    m.wrapped = next.wraps(bytes);
    m.offset = next.offset(m.wrapped);
    m.space = next.advance(bytes, m.wrapped);
    const auto room = [&] {
        return live_ && sent_ - credited_ < window && used_ + m.space <= setup_.ring_bytes &&
               choose_lanes(m);
    };
    if (!room() && (!poll() || !error_.ok() || !room())) return false;

    header h;
    h.tag = tag;
    h.bytes = bytes;
    h.number = m.number;
    h.magic = header_magic;
    memcpy(mirror() + m.offset, &h, sizeof(h));
    if (how == ownership::borrow && bytes >= borrow_from && key_for(data, bytes, m)) m.data = data;
    else if (bytes) memcpy(mirror() + m.offset + sizeof(h), data, bytes);

    m.pending = (1u << m.parts) - 1;
    put_ = next;
    used_ += m.space;
    ++sent_;
    outgoing& kept = out(m.number) = m;
    for (uint32_t p = 0; p < m.parts && error_.ok(); ++p)
        if (!post_part(kept, p)) break;
    return true;  // it is ours even if this attempt broke the channel: error() tells
}

bool verbs_channel::post_part(outgoing& m, uint32_t part) noexcept {
    lane& l = lanes_[m.lane[part]];
    const share s = share_of(m.payload, m.parts, part);
    send_request r;
    r.op = opcode::write_imm;
    r.imm = pack({false, m.parts, part, m.wrapped, uint32_t(m.number)});
    r.remote = l.remote_ring + m.offset + s.begin;
    r.rkey = l.remote_key;
    const size_t from_mirror = copied(m) ? s.end : std::min(s.end, sizeof(header));
    if (s.begin < from_mirror)
        r.at[r.pieces++] = {mirror() + m.offset + s.begin, uint32_t(from_mirror - s.begin),
                            l.mirror.lkey};
    if (s.end > std::max(s.begin, from_mirror)) {
        const size_t begin = std::max(s.begin, from_mirror);
        r.at[r.pieces++] = {m.data + (begin - sizeof(header)), uint32_t(s.end - begin),
                            l.on->key_of(m.data, m.payload)};
    }
    r.inline_data = r.pieces == 1 && s.end - s.begin <= l.inline_bytes();
    if (const failure f = l.post(r, {m.number, uint8_t(part), true}, !copied(m))) {
        take_down(m.lane[part], verbs_error(l.on->name(), "posting a write", f));
        return false;
    }
    return true;
}

// Parts that were on a lane which failed go over one that lives.
bool verbs_channel::send_again() noexcept {
    bool any = false;
    for (uint64_t n = credited_; resending_ && live_ && n < sent_; ++n) {
        outgoing& m = out(n);
        for (uint32_t p = 0; m.waiting && p < m.parts; ++p) {
            if (!(m.waiting >> p & 1)) continue;
            const uint32_t i = uint32_t(std::countr_zero(live_));
            if (!lanes_[i].has_room()) return any;
            m.lane[p] = uint8_t(i);
            m.waiting &= ~(1u << p);
            --resending_;
            if (!post_part(m, p)) return any;
            any = true;
        }
    }
    return any;
}

uint64_t verbs_channel::completed() noexcept {
    if (completed_ < sent_) poll();
    for (; completed_ < sent_; ++completed_) {
        const outgoing& m = out(completed_);
        if (m.number == completed_ && !copied(m) && m.pending) break;
    }
    return completed_;
}

void verbs_channel::credit_upto(uint32_t low) noexcept {
    const uint64_t upto = widen(credited_, low);
    if (upto > sent_) return fail(EF_MISMATCH, "credit for messages that were not sent");
    for (; credited_ < upto; ++credited_) {
        outgoing& m = out(credited_);
        used_ -= m.space;
        if (m.waiting) resending_ -= uint32_t(std::popcount(m.waiting));  // it had come after all
        m.pending = m.waiting = 0;
    }
}

void verbs_channel::offer_credit() noexcept {
    if ((told_ == consumed_ && !credit_lost_) || !live_ || !error_.ok()) return;
    for (uint32_t left = live_; left; left &= left - 1) {
        const size_t i = size_t(std::countr_zero(left));
        lane& l = lanes_[i];
        if (!l.has_room()) continue;
        send_request r;
        r.op = opcode::write_imm;
        r.imm = pack({true, 1, 0, false, uint32_t(consumed_)});
        r.remote = l.remote_ring;
        r.rkey = l.remote_key;
        if (const failure f = l.post(r, {}, false))
            return take_down(i, verbs_error(l.on->name(), "posting a credit", f));
        told_ = consumed_;
        untold_bytes_ = 0;
        credit_lost_ = false;
        return;
    }
}

// ---------------------------------------------------------------- receiving

bool verbs_channel::peek(message& m) noexcept {
    const auto complete = [&] {
        const incoming& i = in(consumed_);
        return i.parts && i.arrived == (1u << i.parts) - 1;
    };
    if (!complete() && (!error_.ok() || !poll() || !complete())) return false;
    header h;
    const std::byte* at = ring() + take_.offset(in(consumed_).wrapped);
    memcpy(&h, at, sizeof(h));
    if (h.magic != header_magic || h.number != consumed_ || h.bytes > max_message()) {
        fail(EF_MISMATCH,
             fmt::format("message {} in the ring has a header that makes no sense", consumed_));
        return false;
    }
    m.tag = h.tag;
    m.bytes = h.bytes;
    m.view = at + sizeof(h);
    return true;
}

size_t verbs_channel::fetch(std::byte* dst) noexcept {
    message m;
    if (!peek(m)) return 0;
    memcpy(dst, m.view, m.bytes);
    return m.bytes;
}

void verbs_channel::release() noexcept {
    message m;
    if (!peek(m)) return;
    incoming& i = in(consumed_);
    untold_bytes_ += take_.advance(m.bytes, i.wrapped);
    i = {};
    ++consumed_;
    if (untold_bytes_ >= setup_.ring_bytes / 4 || consumed_ - told_ >= window / 4) offer_credit();
}

void verbs_channel::arrived(const immediate& i) noexcept {
    if (i.credit) return credit_upto(i.number);
    const uint64_t number = widen(consumed_, i.number);
    if (number < consumed_) return;  // sent again over another lane, and known
    if (number >= consumed_ + window)
        return fail(EF_MISMATCH,
                    fmt::format("message {} came while {} is expected", number, consumed_));
    incoming& slot = in(number);
    slot.parts = i.parts;
    slot.wrapped = i.wrapped;
    slot.arrived |= 1u << i.part;
}

// ---------------------------------------------------------------- completions

bool verbs_channel::poll() noexcept {
    bool any = false;
    for (size_t i = 0; i < lanes_.size(); ++i)
        if (lanes_[i].qp() && lanes_[i].state != lane_state::stopping) any |= poll_lane(i);
    // About to sleep: ask for an event, then look once more, for what came before the asking.
    if (!any && waiter_.prepared()) {
        for (size_t i = 0; i < lanes_.size(); ++i) {
            if (!lanes_[i].qp() || lanes_[i].state == lane_state::stopping) continue;
            lanes_[i].qp()->disarm();
            if (const failure f = lanes_[i].qp()->arm())
                take_down(i, verbs_error(lanes_[i].on->name(), "asking for an event", f));
            else any |= poll_lane(i);
        }
    }
    return any;
}

bool verbs_channel::poll_lane(size_t i) noexcept {
    constexpr size_t batch = 16;
    lane& l = lanes_[i];
    completion c[batch];
    bool any = false;
    for (size_t n = batch; n == batch && l.qp();) {
        n = l.qp()->poll(c, batch);
        any |= n > 0;
        for (size_t k = 0; k < n; ++k) {
            if (c[k].status) {
                if (l.state == lane_state::stopping) continue;
                broken(i, c[k]);
                if (!l.qp()) return true;
            } else if (c[k].op == opcode::receive || c[k].op == opcode::receive_imm) {
                arrived(unpack(c[k].imm));
                if (const failure f = l.used_receive(); f && l.up())
                    take_down(i, verbs_error(l.on->name(), "posting receives", f));
            } else {
                l.retire(c[k].id, [&](const posting& p) { completed_part(p); });
            }
        }
    }
    return any;
}

void verbs_channel::completed_part(const posting& p) noexcept {
    if (!p.is_part || p.number < credited_) return;
    outgoing& m = out(p.number);
    if (m.number == p.number) m.pending &= ~(1u << p.part);
}

void verbs_channel::broken(size_t i, const completion& c) noexcept {
    lane& l = lanes_[i];
    take_down(i, status(EF_PEER_LOST,
                        fmt::format("{} QP {}: {} (vendor {:#x})", l.on->name(), l.own.number,
                                    c.status == flush_status ? "the QP went into error" : "failed",
                                    c.vendor)));
}

// ---------------------------------------------------------------- progress

bool verbs_channel::progress() noexcept {
    if (!error_.ok()) return false;
    if (!connected_ || resending_) read_line();
    bool moved = poll();
    if (resending_) moved |= send_again();
    return moved;
}

void verbs_channel::attend() noexcept {
    if (!error_.ok()) return;
    for (rail* r : setup_.rails) r->attend();
    read_line();
    poll();
    for (size_t i = 0; i < lanes_.size() && error_.ok(); ++i)
        if (!lanes_[i].on->failed().ok() && lanes_[i].qp()) take_down(i, lanes_[i].on->failed());
    if (resending_) send_again();
    offer_credit();
}

bool verbs_channel::delivered() noexcept {
    if (!error_.ok()) return true;
    poll();
    bool all = resending_ == 0 && line_.delivered();
    for (size_t i = 0; i < lanes_.size(); ++i) {
        lane& l = lanes_[i];
        if (!l.up() || l.idle()) continue;
        all = false;
        if (!l.unsignalled() || !l.has_room()) continue;
        if (const failure f = l.flush())
            take_down(i, verbs_error(l.on->name(), "posting a write", f));
    }
    return all;
}

}  // namespace ef::verbs
