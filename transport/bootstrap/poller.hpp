// poller: the sockets of one group in one epoll. That epoll descriptor is itself what the
// communicator's waiter watches, so a sleeping rank wakes for any of them with one registration.
#pragma once

#include "transport/base/fd.hpp"
#include "transport/base/status.hpp"
#include "transport/bootstrap/endpoint.hpp"

#include <sys/epoll.h>

#include <cerrno>
#include <span>

namespace ef {

class poller {
public:
    status open() {
        ep_ = fd(epoll_create1(EPOLL_CLOEXEC));
        return ep_ ? status() : system_error("group: epoll_create1", errno);
    }
    int get() const noexcept { return ep_.get(); }

    /// Level triggered. Again to change `out`.
    status set(int socket, bool out) noexcept {
        epoll_event e{};
        e.events = EPOLLIN | EPOLLRDHUP | (out ? unsigned(EPOLLOUT) : 0u);
        e.data.fd = socket;
        if (epoll_ctl(ep_.get(), EPOLL_CTL_ADD, socket, &e) == 0) return {};
        if (errno == EEXIST && epoll_ctl(ep_.get(), EPOLL_CTL_MOD, socket, &e) == 0) return {};
        return system_error("group: epoll_ctl", errno);
    }
    void remove(int socket) noexcept { epoll_ctl(ep_.get(), EPOLL_CTL_DEL, socket, nullptr); }

    /// Ready descriptors, after at most `timeout_ms`.
    std::span<const epoll_event> wait(int timeout_ms) noexcept {
        const int n = epoll_wait(ep_.get(), events_, max_events, timeout_ms);
        return {events_, size_t(n > 0 ? n : 0)};
    }

private:
    static constexpr int max_events = 64;
    fd ep_;
    epoll_event events_[max_events] = {};
};

}  // namespace ef
