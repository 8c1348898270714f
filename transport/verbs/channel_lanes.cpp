#include "transport/base/log.hpp"
#include "transport/verbs/channel_impl.hpp"
#include "transport/verbs/hello.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace ef::verbs {

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

void verbs_channel::fail(ef_status_t code, std::string_view why) noexcept {
    if (!error_.ok()) return;
    error_ = status(code, fmt::format("{}: {}: {}", medium_, setup_.peer.text(), why));
    for (lane& l : lanes_)
        if (l.qp()) l.qp()->stop();
}

result<std::unique_ptr<channel>> make_channel(channel_setup s, waiter& w) {
    auto c = std::make_unique<verbs_channel>(std::move(s), w);
    if (status made = c->begin(); !made.ok()) return made;
    return std::unique_ptr<channel>(std::move(c));
}

}  // namespace ef::verbs
