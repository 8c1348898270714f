// Sockets of a group: control connections to its neighbours and, on demand, those of channels.
#include "transport/base/log.hpp"
#include "transport/bootstrap/group_impl.hpp"

#include <fmt/core.h>

namespace ef {

hello_message group_impl::hello_to(rank_t peer, purpose what) const {
    hello_message h;
    h.purpose = what;
    h.count = 1;
    h.from = uint32_t(rank_);
    h.to = uint32_t(peer);
    h.nranks = uint32_t(nranks_);
    h.sequence = sequence_;
    memcpy(h.group, id_.data(), id_.size());
    if (what == for_rendezvous) memset(h.group, 0, sizeof(h.group));  // not known yet
    return h;
}

verdict_code group_impl::judge(const hello_message& h) const {
    const bool ours = h.purpose != for_rendezvous && h.nranks == uint32_t(nranks_) &&
                      h.to == uint32_t(rank_) && h.from != uint32_t(rank_) &&
                      memcmp(h.group, id_.data(), id_.size()) == 0 && id_ != group_id{};
    return ours ? verdict_accepted : verdict_other;
}

void group_impl::look(int timeout_ms) {
    const uint64_t now = now_ns();
    const int ms = timeout_ms == 0 ? 0 : dialer_.due_ms(now, timeout_ms);
    for (const epoll_event& e : poller_.wait(ms)) {
        const int s = e.data.fd;
        if (listener_ && listener_->ready(s)) continue;
        if (root_listener_ && root_listener_->ready(s)) continue;
        if (dialer_.ready(s, e.events)) continue;
        for (auto& [r, n] : neighbours_)
            if (n.line && n.line->socket() == s) n.line->step();
        for (auto& [r, x] : enlisted_)
            if (x.line->socket() == s) x.line->step();
    }
    const uint64_t then = now_ns();
    if (listener_) listener_->tick(then);
    dialer_.tick(then);
    accept_arrivals();
    accept_dialled();
    read_neighbours();
    confirm_suspicions(then);
}

void group_impl::accept_arrivals() {
    arrival a;
    while (listener_ && listener_->next(a)) {
        const auto r = rank_t(uint32_t(a.hello.from));
        if (a.hello.purpose == for_data) {
            links_.push_back({r, a.hello.lane, a.hello.index, a.hello.count, a.local, false,
                              std::move(a.socket)});
            continue;
        }
        const auto n = neighbours_.find(r);
        if (n == neighbours_.end() || n->second.line) continue;  // closed by a's destructor
        n->second.line = std::make_unique<connection>(poller_, std::move(a.socket), r, a.address);
    }
}

void group_impl::accept_dialled() {
    dialled d;
    while (dialer_.next(d)) {
        const auto r = rank_t(uint32_t(d.hello.to));
        const bool up = d.why.ok();
        if (d.hello.purpose == for_data) {
            if (up)
                links_.push_back({r, d.hello.lane, d.hello.index, d.hello.count, d.local, true,
                                  std::move(d.socket)});
            else if (d.why.code() == EF_PEER_LOST) suspect(r, d.why);
            else if (failure_.ok()) abort(d.why);
            continue;
        }
        if (!up) {
            if (dial_failure_.ok()) dial_failure_ = d.why;
            continue;
        }
        endpoint far;
        far.bytes = sizeof(far.address);
        getpeername(d.socket.get(), far.get(), &far.bytes);
        poller_.remove(d.socket.get());
        auto line = std::make_unique<connection>(poller_, std::move(d.socket), r, far.text());
        if (d.hello.purpose == for_rendezvous) enlisted_[r].line = std::move(line);
        else if (!neighbours_[r].line) neighbours_[r].line = std::move(line);
    }
}

status group_impl::connect_neighbours(deadline d) {
    for (auto& [r, n] : neighbours_) {
        if (rank_ > r) continue;  // the lower rank dials
        result<std::vector<endpoint>> to = resolve(n.address);
        if (!to.ok()) return to.why().in(fmt::format("address of rank {}", r));
        dialer_.add({hello_to(r, for_control), *to, fmt::format("rank {}", r), d});
    }
    for (;;) {
        std::vector<rank_t> waiting;
        for (auto& [r, n] : neighbours_)
            if (!n.line) waiting.push_back(r);
        if (!failure_.ok()) return failure_;
        if (!dial_failure_.ok()) return dial_failure_;
        if (listener_ && listener_->trouble().code() == EF_NO_RESOURCE) return listener_->trouble();
        if (waiting.empty()) return {};
        if (d.passed())
            return status(EF_TIMEOUT, fmt::format("{} not connected within {} ms",
                                                  rank_list(waiting), config_.timeout_ms));
        look(d.left_ms(20));
    }
}

dial_order group_impl::order_to(rank_t peer, uint16_t lane, uint16_t index, uint16_t count) const {
    // A dead peer is noticed otherwise, so the deadline never passes.
    dial_order o{
        hello_to(peer, for_data), {}, name(peer).text(), deadline::in_ms(86'400'000ull * 365), 200};
    o.hello.lane = lane;
    o.hello.index = index;
    o.hello.count = count;
    return o;
}

void group_impl::want(rank_t peer, uint16_t lane, uint16_t connections) {
    if (peer == rank_ || rank_ > peer || gone(peer)) return;
    const peer_info& p = info(peer);
    const bool near = local(peer);
    std::vector<endpoint> to;
    if (near) {
        to.push_back(abstract_unix(p.unix_name));
    } else {
        result<std::vector<endpoint>> r = resolve(p.address);
        if (!r.ok()) return abort(r.why().in("address of " + name(peer).text()));
        to = *r;
    }
    for (uint16_t i = 0; i < connections; ++i) {
        dial_order o = order_to(peer, lane, i, connections);
        o.to = to;
        o.local = near;
        dialer_.add(std::move(o));
    }
}

void group_impl::dial(rank_t peer, uint16_t lane, uint16_t connections,
                      std::span<const uint16_t> ports) {
    if (peer == rank_ || gone(peer)) return;
    result<std::vector<endpoint>> to = resolve(info(peer).address);
    if (!to.ok()) return abort(to.why().in("address of " + name(peer).text()));
    result<std::vector<endpoint>> self = resolve(info(rank_).address);
    if (!self.ok()) return abort(self.why().in("address of " + name(rank_).text()));
    for (uint16_t i = 0; i < connections; ++i) {
        dial_order o = order_to(peer, lane, i, connections);
        o.to = *to;
        for (size_t k = 0; k < ports.size(); ++k) {
            o.from.push_back(self->front());
            o.from.back().set_port(ports[(i + k) % ports.size()]);
        }
        dialer_.add(std::move(o));
    }
}

bool group_impl::next(link& l) {
    if (links_.empty()) return false;
    l = std::move(links_.front());
    links_.pop_front();
    poller_.remove(l.socket.get());
    return true;
}

}  // namespace ef
