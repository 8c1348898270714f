#include "transport/bootstrap/listener.hpp"

#include "transport/base/clock.hpp"
#include "transport/base/log.hpp"

#include <algorithm>
#include <cerrno>

namespace ef {

status listener::add(fd socket, bool local) {
    if (status s = poller_.set(socket.get(), false); !s.ok()) return s;
    open_.push_back({std::move(socket), local});
    return {};
}

void listener::close() noexcept {
    for (const open_socket& o : open_) poller_.remove(o.socket.get());
    for (const half_open& h : half_open_) poller_.remove(h.in.socket());
    open_.clear();
    half_open_.clear();
}

bool listener::ready(int socket) {
    for (const open_socket& o : open_)
        if (o.socket.get() == socket) {
            accept_all(o);
            return true;
        }
    const auto h = std::find_if(half_open_.begin(), half_open_.end(),
                                [&](const half_open& x) { return x.in.socket() == socket; });
    if (h == half_open_.end()) return false;
    if (step(*h)) half_open_.erase(h);
    return true;
}

bool listener::paused_by(int err) {
    if (err != EMFILE && err != ENFILE && err != ENOBUFS && err != ENOMEM) return false;
    if (trouble_.ok()) {
        trouble_ = system_error("accept", err);
        log(EF_LOG_WARN, "bootstrap: {}", trouble_.text());
    }
    for (const open_socket& o : open_) poller_.remove(o.socket.get());
    paused_until_ = now_ns() + 100'000'000;
    return true;
}

void listener::accept_all(const open_socket& from) {
    // Bounded, so that a flood of strangers cannot keep the caller here.
    for (size_t i = 0; i < max_half_open; ++i) {
        endpoint peer;
        peer.bytes = sizeof(peer.address);
        fd s(accept4(from.socket.get(), peer.get(), &peer.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!s) {
            // Other errors are of that one connection (ECONNABORTED and the network's).
            if (errno != EAGAIN && errno != EINTR) paused_by(errno);
            return;
        }
        trouble_ = {};
        no_delay(s.get());
        if (half_open_.size() >= max_half_open) {
            log(EF_LOG_DEBUG, "bootstrap: {} dropped, too many half-open connections",
                half_open_.front().address);
            poller_.remove(half_open_.front().in.socket());
            half_open_.pop_front();
        }
        if (!poller_.set(s.get(), false).ok()) return;
        half_open_.push_back({inbound(std::move(s)), from.local ? "unix socket" : peer.text(),
                              from.local, now_ns() + patience_ns});
        if (step(half_open_.back())) half_open_.pop_back();
    }
}

bool listener::step(half_open& h) {
    const shake s = h.in.step(key_, judge_);
    if (s == shake::pending) return false;
    poller_.remove(h.in.socket());
    if (s == shake::done) {
        arrived_.push_back({h.in.hello(), h.in.take(), h.address, h.local});
        return true;
    }
    if (s == shake::refused) ++refused_;
    log(s == shake::refused ? EF_LOG_WARN : EF_LOG_DEBUG,
        "bootstrap: connection from {} dropped: {}", h.address, h.in.why());
    return true;
}

void listener::tick(uint64_t now) {
    while (!half_open_.empty() && half_open_.front().until <= now) {
        log(EF_LOG_DEBUG, "bootstrap: connection from {} dropped: silent for 5 s",
            half_open_.front().address);
        poller_.remove(half_open_.front().in.socket());
        half_open_.pop_front();
    }
    if (paused_until_ && now >= paused_until_) {
        paused_until_ = 0;
        for (const open_socket& o : open_) (void)!poller_.set(o.socket.get(), false).ok();
    }
}

bool listener::next(arrival& a) {
    if (arrived_.empty()) return false;
    a = std::move(arrived_.front());
    arrived_.pop_front();
    return true;
}

}  // namespace ef
