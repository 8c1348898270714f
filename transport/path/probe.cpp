#include "transport/path/probe.hpp"

#include "transport/base/clock.hpp"
#include "transport/path/shot.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <deque>

namespace ef::path {
namespace {

// After so many silent hops in a row the destination itself is asked: routers may be mute on a path
// that is whole.
constexpr uint32_t most_silent = 2;
// Attempts for what is either lost or mute; a destination's answers are not rationed.
constexpr uint32_t few_attempts = 2;
constexpr uint64_t nothing_due = ~uint64_t(0);

// What is behind the last that answered is not part of the path as far as one can know.
void drop_silent_end(std::vector<hop>& hops) {
    while (!hops.empty() && hops.back().address.empty()) hops.pop_back();
}

}  // namespace

std::string trace::text() const {
    if (!why.ok()) return std::string(why.text());
    std::string t;
    for (const hop& h : hops) t += (h.address.empty() ? "(silent)" : h.address) + " ";
    if (hops.empty()) t = "no router answered";
    else t.pop_back();
    if (reached) return t + ", reached";
    return t + (refusal.empty() ? ", then nothing" : ", which says: " + refusal);
}

// One flow is probed hop by hop, since a port can open one TCP connection to a destination at a
// time; many flows are probed side by side.
struct prober::impl {
    struct walk {
        uint32_t ttl = 1, attempt = 0, silent = 0;
        bool far = false;    // this probe asks what is beyond the silence
        bool whole = false;  // something beyond it has answered
        bool there = false;  // and that was the destination
        bool sent = false;   // a probe, ever
        shot current;
        uint64_t until = 0;  // the attempt's patience ends
        bool over = false;
    };

    probe_options options;
    std::vector<tuple> tuples;
    std::vector<trace> traces;
    std::vector<walk> walks;
    std::deque<size_t> ready;    // to be sent next
    std::deque<size_t> parked;   // want a descriptor or a port that others may hold just now
    std::vector<size_t> flying;  // sent, not answered
    fd epoll;
    uint64_t next_send = 0, end = 0;
    uint32_t number = 0;
    size_t left = 0;

    bool send_due(uint64_t now);
    bool hear();
    bool give_up_on_late(uint64_t now);
    void fire(size_t i);
    void take(size_t i, const shot::news& n);
    void heard_from_afar(size_t i, const shot::news& n, uint32_t rtt_us);
    void no_answer(size_t i);
    uint32_t attempts_for(const walk& w) const noexcept;
    void cannot_fire(size_t i, status why);
    void unpark(size_t most);
    void land(size_t i);
    void next_hop(size_t i);
    void finish(size_t i);
    void finish_all();
    uint64_t due() const noexcept;
};

void prober::impl::finish(size_t i) {
    walk& w = walks[i];
    if (w.over) return;
    w.over = true;
    --left;
    if (!traces[i].reached) drop_silent_end(traces[i].hops);
    traces[i].reached |= w.there;
}

void prober::impl::finish_all() {
    while (!flying.empty()) land(flying.back());
    ready.clear();
    parked.clear();
    for (size_t i = 0; i < walks.size(); ++i) {
        const walk& w = walks[i];
        // Not a word about the path then: it must not pass for a dead one.
        if (!w.over && !w.sent && traces[i].why.ok())
            traces[i].why = status(
                EF_TIMEOUT,
                fmt::format("probe of {} to {}: the deadline of {} ms came first",
                            tuples[i].from.text(), tuples[i].to.text(), options.deadline_ms));
        finish(i);
    }
}

void prober::impl::land(size_t i) {
    walks[i].current.reset();  // closing takes it out of the epoll set
    const auto at = std::find(flying.begin(), flying.end(), i);
    if (at == flying.end()) return;
    *at = flying.back();
    flying.pop_back();
    unpark(1);
}

void prober::impl::unpark(size_t most) {
    for (; most && !parked.empty(); --most) {
        ready.push_back(parked.front());
        parked.pop_front();
    }
}

uint32_t prober::impl::attempts_for(const walk& w) const noexcept {
    return w.far || w.whole ? std::min(few_attempts, options.attempts) : options.attempts;
}

// Other flows of this prober may hold the descriptors or the port: they come back. Who is still
// refused when none is under way is refused by somebody else.
void prober::impl::cannot_fire(size_t i, status why) {
    const bool may_pass = why.code() == EF_NO_RESOURCE && !flying.empty();
    traces[i].why = std::move(why);
    if (may_pass) parked.push_back(i);
    else finish(i);
}

void prober::impl::next_hop(size_t i) {
    walk& w = walks[i];
    w.attempt = 0;
    if (++w.ttl > options.most_hops) finish(i);
    else ready.push_back(i);
}

void prober::impl::fire(size_t i) {
    walk& w = walks[i];
    result<shot> s = shot::fire(tuples[i], w.far ? options.most_hops : w.ttl, ++number);
    if (!s.ok()) return cannot_fire(i, s.why());
    traces[i].why = status();
    w.sent = true;
    w.current = std::move(*s);
    w.until = now_ns() + (uint64_t(options.answer_ms) << w.attempt) * 1'000'000;
    epoll_event e{};
    e.events = EPOLLIN | EPOLLOUT | EPOLLERR | EPOLLET;
    if (tuples[i].proto == protocol::udp) e.events = EPOLLIN | EPOLLERR | EPOLLET;
    e.data.u64 = i;
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, w.current.socket(), &e) != 0) {
        traces[i].why = system_error("epoll of a path probe", errno);
        w.current.reset();
        return finish(i);
    }
    flying.push_back(i);
}

void prober::impl::take(size_t i, const shot::news& n) {
    walk& w = walks[i];
    trace& t = traces[i];
    if (n.what == answer::none) return;
    const auto rtt_us = uint32_t((now_ns() - w.current.sent_at_ns()) / 1000);
    land(i);
    if (w.far && n.what != answer::refused) return heard_from_afar(i, n, rtt_us);
    w.silent = 0;
    if (n.what == answer::router) {
        t.hops.push_back({n.address, rtt_us});
        return next_hop(i);
    }
    if (n.what == answer::reached) {
        t.reached = true;
        t.rtt_us = rtt_us;
    } else {
        // How far away it is, is not known then: it is the last that answered.
        if (w.far) drop_silent_end(t.hops);
        if (!n.address.empty() && n.address != tuples[i].from.host())
            t.hops.push_back({n.address, rtt_us});
        t.refusal = n.words;
    }
    finish(i);
}

// The path is whole: the rest of it is walked though routers on it are mute.
void prober::impl::heard_from_afar(size_t i, const shot::news& n, uint32_t rtt_us) {
    walk& w = walks[i];
    w.far = false;
    w.whole = true;
    w.there = n.what == answer::reached;
    if (w.there) traces[i].rtt_us = rtt_us;
    next_hop(i);
}

void prober::impl::no_answer(size_t i) {
    walk& w = walks[i];
    land(i);
    if (++w.attempt < attempts_for(w)) return ready.push_back(i);
    if (w.far) return finish(i);
    traces[i].hops.push_back({});
    w.far = ++w.silent >= most_silent && !w.whole && w.ttl + 1 < options.most_hops;
    if (!w.far) return next_hop(i);
    w.attempt = 0;
    ready.push_back(i);
}

bool prober::impl::send_due(uint64_t now) {
    bool any = false;
    const uint64_t gap = 1'000'000'000 / std::max(1u, options.per_second);
    // What could not be sent for a while may follow in one burst of a millisecond's worth.
    next_send = std::max(next_send, now > 1'000'000 ? now - 1'000'000 : 0);
    if (flying.empty()) unpark(parked.size());
    while (!ready.empty() && flying.size() < options.at_once && next_send <= now) {
        const size_t i = ready.front();
        ready.pop_front();
        next_send += gap;
        fire(i);
        any = true;
    }
    return any;
}

bool prober::impl::hear() {
    epoll_event events[64];
    bool any = false;
    // All that is there: what is left unheard would be given up as late.
    for (size_t asked = 0; asked < options.at_once; asked += std::size(events)) {
        const int n = epoll_wait(epoll.get(), events, int(std::size(events)), 0);
        for (int k = 0; k < n; ++k) {
            const size_t i = size_t(events[k].data.u64);
            if (!walks[i].current) continue;
            const shot::news heard = walks[i].current.look(tuples[i]);
            any |= heard.what != answer::none;
            take(i, heard);
        }
        if (n < int(std::size(events))) break;
    }
    return any;
}

bool prober::impl::give_up_on_late(uint64_t now) {
    bool any = false;
    for (size_t k = flying.size(); k-- > 0;) {
        const size_t i = flying[k];
        if (walks[i].until > now) continue;
        no_answer(i);
        any = true;
    }
    return any;
}

uint64_t prober::impl::due() const noexcept {
    uint64_t at = end;
    for (const size_t i : flying) at = std::min(at, walks[i].until);
    if (!ready.empty() && flying.size() < options.at_once) at = std::min(at, next_send);
    return left ? at : nothing_due;
}

prober::prober(std::vector<tuple> tuples, const probe_options& o) : impl_(new impl) {
    impl& p = *impl_;
    p.options = o;
    p.options.attempts = std::clamp(o.attempts, 1u, 16u);
    p.options.at_once = std::max(o.at_once, 1u);
    p.tuples = std::move(tuples);
    p.traces.resize(p.tuples.size());
    p.walks.resize(p.tuples.size());
    p.left = p.tuples.size();
    p.end = now_ns() + uint64_t(o.deadline_ms) * 1'000'000;
    p.epoll = fd(epoll_create1(EPOLL_CLOEXEC));
    const status trouble = p.epoll ? status() : system_error("epoll_create1", errno);
    for (size_t i = 0; i < p.tuples.size(); ++i) {
        p.ready.push_back(i);
        p.traces[i].why = trouble;
    }
    if (!trouble.ok()) p.finish_all();
}

prober::~prober() = default;

bool prober::step() noexcept {
    impl& p = *impl_;
    if (!p.left) return false;
    // Before hear(): an answer that came while this thread had no core is not late.
    const uint64_t now = now_ns();
    bool any = p.hear();
    if (now >= p.end) {
        p.finish_all();
        return true;
    }
    any |= p.give_up_on_late(now);
    any |= p.send_due(now);
    return any;
}

void prober::wait(int most_ms) noexcept {
    const uint64_t due = impl_->due(), now = now_ns();
    if (due <= now || due == nothing_due) return;
    const uint64_t ns = std::min(due - now, uint64_t(std::max(most_ms, 0)) * 1'000'000);
    const timespec t{time_t(ns / 1'000'000'000), long(ns % 1'000'000'000)};
    pollfd p{impl_->epoll.get(), POLLIN, 0};
    ppoll(&p, 1, &t, nullptr);
}

bool prober::done() const noexcept { return impl_->left == 0; }

const std::vector<trace>& prober::traces() const noexcept { return impl_->traces; }

std::vector<trace> probe_paths(std::vector<tuple> tuples, const probe_options& o) {
    prober p(std::move(tuples), o);
    while (!p.done())
        if (!p.step()) p.wait(20);
    return p.traces();
}

}  // namespace ef::path
