#include "transport/bootstrap/dialer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ef {
namespace {

constexpr uint64_t connect_patience_ns = 3'000'000'000;
constexpr uint64_t max_backoff_ns = 100'000'000;

std::string words(int err) {
    char buf[128];
    return strerror_r(err, buf, sizeof(buf));
}

}  // namespace

void dialer::add(dial_order o) {
    dials_.push_back({std::move(o)});
    start(dials_.back());
    sweep();
}

// A source port can be taken, by a stranger or by a connection that is still being closed: the next
// one is tried at once, and all of them again later.
result<fd> dialer::connect_from(dial& d, const endpoint& to, bool& in_progress, int& err) {
    if (d.order.from.empty()) return start_connect(to, in_progress, err);
    result<fd> s = status(EF_SYSTEM, "");
    for (const endpoint& from : d.order.from) {
        s = start_connect(to, in_progress, err, &from);
        if (s.ok() || (err != EADDRINUSE && err != EADDRNOTAVAIL)) break;
    }
    return s;
}

void dialer::start(dial& d) {
    const endpoint& to = d.order.to[d.turn++ % d.order.to.size()];
    bool in_progress = false;
    int err = 0;
    result<fd> s = connect_from(d, to, in_progress, err);
    d.again_at = 0;
    if (!s.ok()) {
        if (err == EMFILE || err == ENFILE) return finish(d, s.why());
        const bool nobody = err == ECONNREFUSED || err == ENOENT;
        return retry(d, d.order.from.empty() ? words(err) : std::string(s.why().text()), nobody);
    }
    d.socket = std::move(*s);
    d.connected = !in_progress;
    if (d.connected) d.last = "it takes the connection and does not answer (busy?)";
    d.shake_.emplace(d.order.hello);
    d.attempt_until = now_ns() + connect_patience_ns;
    if (status w = poller_.set(d.socket.get(), in_progress); !w.ok()) return finish(d, w);
}

void dialer::retry(dial& d, std::string why, bool nobody_listens) {
    if (d.socket) poller_.remove(d.socket.get());
    d.socket.reset();
    d.last = std::move(why);
    const uint64_t now = now_ns();
    if (!nobody_listens) d.refused_since = 0;
    else if (!d.refused_since) d.refused_since = now;
    if (nobody_listens && d.order.refusals_ms &&
        now - d.refused_since >= d.order.refusals_ms * 1'000'000)
        return finish(d, status(EF_PEER_LOST, fmt::format("{} at {}: {}", d.order.who,
                                                          d.order.to[0].text(), d.last)));
    d.again_at = now + d.backoff_ns;
    d.backoff_ns = std::min(d.backoff_ns * 2, max_backoff_ns);
}

void dialer::finish(dial& d, status why) {
    if (d.socket) poller_.remove(d.socket.get());
    done_.push_back({d.order.hello, std::move(d.socket), d.order.local, std::move(why)});
    d.order.to.clear();  // swept
}

void dialer::sweep() {
    dials_.remove_if([](const dial& d) { return d.order.to.empty(); });
}

void dialer::advance(dial& d) {
    if (!d.connected) {
        int err = 0;
        socklen_t n = sizeof(err);
        getsockopt(d.socket.get(), SOL_SOCKET, SO_ERROR, &err, &n);
        if (err) return retry(d, words(err), err == ECONNREFUSED);
        d.connected = true;
        d.last = "it takes the connection and does not answer (busy?)";
        if (status w = poller_.set(d.socket.get(), false); !w.ok()) return finish(d, w);
    }
    switch (d.shake_->step(d.socket.get(), key_)) {
    case shake::pending:
        return;
    case shake::done:
        return finish(d, {});
    case shake::dropped:
        return retry(d, "it closed the connection", false);
    case shake::refused:
        return finish(d, status(d.shake_->error())
                             .in(fmt::format("{} at {}", d.order.who,
                                             d.order.to[(d.turn - 1) % d.order.to.size()].text())));
    }
}

bool dialer::ready(int socket, uint32_t) {
    const auto d = std::find_if(dials_.begin(), dials_.end(),
                                [&](const dial& x) { return x.socket.get() == socket; });
    if (d == dials_.end()) return false;
    advance(*d);
    sweep();
    return true;
}

void dialer::tick(uint64_t now) {
    if (dials_.empty()) return;
    for (dial& d : dials_) {
        if (d.order.until.at_ns() <= now) {
            finish(d, status(EF_TIMEOUT, fmt::format("{} at {} not reached: {}", d.order.who,
                                                     d.order.to[0].text(), d.last)));
            continue;
        }
        if (d.socket && !d.connected && now >= d.attempt_until)
            retry(d, "no answer to the connection attempt", false);
        if (!d.order.to.empty() && !d.socket && now >= d.again_at) start(d);
    }
    sweep();
}

bool dialer::next(dialled& d) {
    if (done_.empty()) return false;
    d = std::move(done_.front());
    done_.erase(done_.begin());
    return true;
}

void dialer::close() noexcept {
    for (const dial& d : dials_)
        if (d.socket) poller_.remove(d.socket.get());
    dials_.clear();
}

int dialer::due_ms(uint64_t now, int cap_ms) const noexcept {
    uint64_t at = now + uint64_t(cap_ms) * 1'000'000;
    for (const dial& d : dials_) at = std::min(at, d.socket ? d.attempt_until : d.again_at);
    return at <= now ? 0 : int((at - now + 999'999) / 1'000'000);
}

}  // namespace ef
