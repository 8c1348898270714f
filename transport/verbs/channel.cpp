#include "transport/verbs/channel.hpp"

#include "transport/base/log.hpp"
#include "transport/verbs/hello.hpp"
#include "transport/verbs/lane.hpp"
#include "transport/verbs/line.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace ef::verbs {
namespace {

// Registering costs a look-up per message and a completion to wait for; below, a copy is cheaper.
constexpr size_t borrow_from = 4096;
constexpr size_t copy_limit = 64 * 1024;
constexpr uint32_t flush_status = 5;  // IBV_WC_WR_FLUSH_ERR

struct outgoing {
    uint64_t number = 0;
    size_t payload = 0, offset = 0, space = 0;
    const std::byte* data = nullptr;  // null: in the mirror
    bool wrapped = false;
    uint32_t parts = 1;
    uint32_t pending = 0;  // bit p: part p is posted and not known to be done
    uint32_t waiting = 0;  // bit p: part p is to be posted again
    std::array<uint8_t, max_lanes> lane{};
};

struct incoming {
    uint32_t arrived = 0;  // bit p
    uint32_t parts = 0;    // 0: none has come
    bool wrapped = false;
};

class verbs_channel final : public channel {
public:
    verbs_channel(channel_setup s, waiter& w)
        : setup_(std::move(s)),
          line_(std::move(setup_.socket)),
          waiter_(w),
          lanes_(setup_.lanes),
          put_(setup_.ring_bytes),
          take_(setup_.ring_bytes) {
        for (size_t i = 0; i < lanes_.size(); ++i)
            lanes_[i].on = setup_.rails[i % setup_.rails.size()];
        medium_ = "verbs:" + lanes_[0].on->name();
    }
    ~verbs_channel() override;

    status begin();

    bool send(uint64_t tag, const std::byte* data, size_t bytes, ownership how) noexcept override;
    uint64_t sent() const noexcept override { return sent_; }
    uint64_t completed() noexcept override;
    bool peek(message& m) noexcept override;
    size_t fetch(std::byte* dst) noexcept override;
    void release() noexcept override;
    bool progress() noexcept override;
    void attend() noexcept override;
    bool delivered() noexcept override;
    const status& error() const noexcept override { return error_; }
    size_t max_message() const noexcept override { return setup_.ring_bytes / 4 - sizeof(header); }
    size_t max_copy() const noexcept override { return std::min(copy_limit, max_message()); }
    const std::string& medium() const noexcept override { return medium_; }

private:
    // --- setting up and taking down (the control connection)
    status greet(size_t i);
    void read_line() noexcept;
    void heard(const line_frame& f);
    void heard_hello(size_t i, const line_frame& f);
    void take_down(size_t i, const status& why) noexcept;
    void finish_taking_down(size_t i) noexcept;
    void count_lanes() noexcept;

    // --- sending
    bool copied(const outgoing& m) const noexcept { return m.data == nullptr; }
    bool choose_lanes(outgoing& m) noexcept;
    uint32_t key_for(const std::byte* p, size_t n, const outgoing& m) noexcept;
    bool post_part(outgoing& m, uint32_t part) noexcept;
    bool send_again() noexcept;
    void credit_upto(uint32_t low) noexcept;
    void offer_credit() noexcept;

    // --- completions
    bool poll() noexcept;
    bool poll_lane(size_t i) noexcept;
    void completed_part(const posting& p) noexcept;
    void arrived(const immediate& i) noexcept;
    void broken(size_t i, const completion& c) noexcept;
    void fail(ef_status_t code, std::string_view why) noexcept;

    outgoing& out(uint64_t number) noexcept { return out_[number % window]; }
    incoming& in(uint64_t number) noexcept { return in_[number % window]; }
    const std::byte* ring() const noexcept { return rings_.data(); }
    std::byte* mirror() const noexcept { return rings_.data() + setup_.ring_bytes; }

    channel_setup setup_;
    line line_;
    waiter& waiter_;
    std::string medium_;
    mapped_pages rings_;  // the ring, then the mirror
    std::vector<lane> lanes_;
    uint32_t common_ = 0;  // lanes that both ends have; 0: not known yet
    uint32_t live_ = 0;    // bit i: lane i is up
    bool connected_ = false;
    status error_;

    ring_cursor put_;
    std::array<outgoing, window> out_;
    uint64_t sent_ = 0, completed_ = 0, credited_ = 0;
    size_t used_ = 0;         // bytes of the peer's ring that no credit has covered
    uint32_t resending_ = 0;  // parts to be posted again

    ring_cursor take_;
    std::array<incoming, window> in_;
    uint64_t consumed_ = 0, told_ = 0;  // told: the last credit
    size_t untold_bytes_ = 0;
    bool credit_lost_ = false;
};

// ---------------------------------------------------------------- life

status verbs_channel::begin() {
    void* p = mmap(nullptr, 2 * setup_.ring_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return system_error(fmt::format("{}: mmap of {} bytes for {}", medium_,
                                        2 * setup_.ring_bytes, setup_.peer.text()),
                            errno);
    rings_ = mapped_pages(p, 2 * setup_.ring_bytes);
    // The device writes into them: a forked child must not take the pages over.
    madvise(p, 2 * setup_.ring_bytes, MADV_DONTFORK);
    for (size_t i = 0; i < lanes_.size(); ++i) {
        lane& l = lanes_[i];
        l.ring.begin = rings_.data();
        l.mirror.begin = mirror();
        l.ring.bytes = l.mirror.bytes = setup_.ring_bytes;
        for (region* r : {&l.ring, &l.mirror})
            if (const failure f = l.on->device().add(*r, true))
                return verbs_error(l.on->name(), fmt::format("registering {} bytes", r->bytes), f);
        if (status s = greet(i); !s.ok()) return s;
    }
    return waiter_.watch(line_.socket(), false, false);
}

verbs_channel::~verbs_channel() {
    waiter_.forget(line_.socket(), false);
    for (lane& l : lanes_) {
        if (l.qp()) waiter_.forget(l.qp()->event_fd(), true);
        l.close();
        for (region* r : {&l.ring, &l.mirror})
            if (r->handle) l.on->device().remove(*r);
    }
}

status verbs_channel::greet(size_t i) {
    lane& l = lanes_[i];
    uint32_t psn = 0;
    if (getrandom(&psn, sizeof(psn), 0) != sizeof(psn)) psn = uint32_t(i);
    if (status s = l.open(psn & 0xffffff); !s.ok()) return s;
    if (status s = waiter_.watch(l.qp()->event_fd(), false, true); !s.ok()) return s;
    const port_state port = l.on->device().state();
    hello h{};
    h.version = hello_version;
    h.lanes = uint16_t(lanes_.size());
    h.qp_number = l.own.number;
    h.psn = l.own.psn;
    h.mtu = port.active_mtu;
    h.ring = uint64_t(reinterpret_cast<uintptr_t>(l.ring.begin));
    h.ring_bytes = l.ring.bytes;
    h.rkey = l.ring.rkey;
    h.lid = l.own.lid;
    h.ethernet = port.ethernet;
    h.gid = l.own.gid;
    h.rail = rail_text(l.on->name());
    line_.send(frame_hello, uint16_t(i), h);
    return {};
}

void verbs_channel::read_line() noexcept {
    line_.step();
    line_frame f;
    while (error_.ok() && line_.next(f)) heard(f);
    if (line_.broken() && error_.ok()) {
        poll();  // what the device has brought before
        fail(EF_PEER_LOST, line_.why());
    }
}

void verbs_channel::heard(const line_frame& f) {
    if (f.lane >= lanes_.size()) {
        // A lane that only the peer has: both use the fewer.
        if (f.type == frame_hello) return heard_hello(f.lane, f);
        return;
    }
    lane& l = lanes_[f.lane];
    switch (f.type) {
    case frame_hello:
        return heard_hello(f.lane, f);
    case frame_ready:
        l.peer_is_ready = true;
        if (l.state == lane_state::connected) l.state = lane_state::up;
        return count_lanes();
    case frame_down:
        l.peer_is_down = true;
        take_down(
            f.lane,
            status(EF_PEER_LOST,
                   fmt::format("the peer took it down: {}",
                               std::string_view(reinterpret_cast<const char*>(f.payload.data()),
                                                f.payload.size()))));
        return finish_taking_down(f.lane);
    default:
        return fail(EF_MISMATCH,
                    fmt::format("control message of type {}: another version of eflops", f.type));
    }
}

void verbs_channel::heard_hello(size_t i, const line_frame& f) {
    hello h;
    if (status s = parse_hello(f.payload, h); !s.ok()) return fail(s.code(), s.text());
    common_ = std::min<uint32_t>(h.lanes, uint32_t(lanes_.size()));
    if (h.ring_bytes != setup_.ring_bytes)
        return fail(EF_MISMATCH,
                    fmt::format("its ring has {} bytes, ours {}: give all ranks the same "
                                "EFLOPS_VERBS_RING",
                                uint64_t(h.ring_bytes), setup_.ring_bytes));
    if (i >= common_) return;
    lane& l = lanes_[i];
    if (l.state != lane_state::greeted) return;
    const port_state port = l.on->device().state();
    if (bool(h.ethernet) != port.ethernet)
        return fail(
            EF_UNSUPPORTED,
            fmt::format("lane {}: {} is {}, the peer's {} is {}: choose ports of one network "
                        "(EFLOPS_DEVICE)",
                        i, l.on->name(), port.ethernet ? "Ethernet" : "InfiniBand", rail_name(h),
                        h.ethernet ? "Ethernet" : "InfiniBand"));
    qp_settings s = setup_.settings;
    s.mtu = std::min(port.active_mtu, uint32_t(h.mtu));
    s.global = port.ethernet || memcmp(l.own.gid.data(), h.gid.data(), 8) != 0;
    l.remote_ring = h.ring;
    l.remote_key = h.rkey;
    if (status r = l.connect({h.qp_number, h.psn, h.lid, h.gid}, s); !r.ok())
        return take_down(i, r);
    log(EF_LOG_INFO, "{}: {}: lane {}: QP {} to {} QP {}, MTU {}", medium_, setup_.peer.text(), i,
        l.own.number, rail_name(h), uint32_t(h.qp_number), s.mtu);
    line_.send(frame_ready, uint16_t(i));
    if (l.peer_is_ready) l.state = lane_state::up;
    count_lanes();
}

void verbs_channel::count_lanes() noexcept {
    live_ = 0;
    bool settled = common_ > 0;
    for (uint32_t i = 0; i < common_; ++i) {
        if (lanes_[i].up()) live_ |= 1u << i;
        else
            settled &=
                lanes_[i].state == lane_state::stopping || lanes_[i].state == lane_state::closed;
    }
    connected_ |= settled && live_ != 0;
}

// Both ends stop their QP before either sends the unfinished parts over another lane: nothing can
// arrive late from this one then, into space that belongs to another message.
void verbs_channel::take_down(size_t i, const status& why) noexcept {
    lane& l = lanes_[i];
    if (l.state == lane_state::stopping || l.state == lane_state::closed) return;
    line_.step();
    if (line_.broken()) return fail(EF_PEER_LOST, line_.why());
    l.why = why;
    l.state = lane_state::stopping;
    poll_lane(i);  // what succeeded before
    l.stop();
    const std::string text(why.text().substr(0, 1024));
    line_.send(frame_down, uint16_t(i), text.data(), text.size());
    count_lanes();
    const bool others =
        common_ == 0 || std::any_of(lanes_.begin(), lanes_.begin() + common_, [](const lane& o) {
            return o.state != lane_state::stopping && o.state != lane_state::closed;
        });
    if (!others) return fail(EF_PEER_LOST, why.text());
    log(EF_LOG_WARN, "{}: {}: lane {} ({}) is taken down, {} go on: {}", medium_,
        setup_.peer.text(), i, l.on->name(), std::popcount(live_), why.text());
    if (l.peer_is_down) finish_taking_down(i);
}

void verbs_channel::finish_taking_down(size_t i) noexcept {
    lane& l = lanes_[i];
    if (l.state != lane_state::stopping) return;
    for (uint64_t n = credited_; n < sent_; ++n) {
        outgoing& m = out(n);
        for (uint32_t p = 0; p < m.parts; ++p) {
            if (m.lane[p] != i || !(m.pending >> p & 1)) continue;
            m.waiting |= 1u << p;
            ++resending_;
        }
    }
    waiter_.forget(l.qp()->event_fd(), true);
    l.close();
    credit_lost_ = true;  // perhaps: said again over another lane
}

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

void verbs_channel::fail(ef_status_t code, std::string_view why) noexcept {
    if (!error_.ok()) return;
    error_ = status(code, fmt::format("{}: {}: {}", medium_, setup_.peer.text(), why));
    for (lane& l : lanes_)
        if (l.qp()) l.qp()->stop();
}

}  // namespace

result<std::unique_ptr<channel>> make_channel(channel_setup s, waiter& w) {
    auto c = std::make_unique<verbs_channel>(std::move(s), w);
    if (status made = c->begin(); !made.ok()) return made;
    return std::unique_ptr<channel>(std::move(c));
}

}  // namespace ef::verbs
