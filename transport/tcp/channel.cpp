#include "transport/tcp/channel.hpp"

#include "transport/base/socket.hpp"
#include "transport/tcp/inbox.hpp"
#include "transport/tcp/outbox.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

namespace ef {
namespace {

// attend() comes every millisecond, but looks at the sockets less often: with many idle peers the
// system calls would add up, and a death needs to be known within seconds.
constexpr unsigned attended_every = 16;

/// The descriptors of a channel, and which of them carry data which way.
struct sockets_of {
    std::vector<fd> all;
    std::vector<int> out, in;
};

sockets_of both_ways(std::vector<fd> sockets) {
    sockets_of s;
    for (const fd& f : sockets) s.out.push_back(f.get());
    s.in = s.out;
    s.all = std::move(sockets);
    return s;
}

sockets_of one_way(std::vector<fd> out, std::vector<fd> in) {
    sockets_of s;
    for (const fd& f : out) s.out.push_back(f.get());
    for (const fd& f : in) s.in.push_back(f.get());
    s.all = std::move(out);
    for (fd& f : in) s.all.push_back(std::move(f));
    return s;
}

class tcp_channel final : public channel {
public:
    tcp_channel(peer_name peer, sockets_of sockets, std::string medium, waiter& w)
        : out_(sockets.out),
          in_(sockets.in),
          out_count_(sockets.out.size()),
          sockets_(std::move(sockets.all)),
          polls_(sockets_.size()),
          waiter_(w),
          peer_(std::move(peer)),
          medium_(std::move(medium)) {
        for (size_t i = 0; i < sockets_.size(); ++i) {
            polls_[i] = {sockets_[i].get(), POLLRDHUP, 0};
            watch(false);
        }
    }

    ~tcp_channel() override {
        for (const fd& s : sockets_) waiter_.forget(s.get(), true);
    }

    bool send(uint64_t tag, const std::byte* data, size_t bytes, ownership how) noexcept override {
        if (!error_.ok() || !out_.send(tag, data, bytes, how)) return false;
        if (!out_.idle()) look_at_outbox();
        return true;
    }

    uint64_t sent() const noexcept override { return out_.sent(); }
    uint64_t completed() noexcept override { return out_.completed(); }

    bool peek(message& m) noexcept override {
        const bool found = in_.peek(m);
        if (!found || !out_.idle()) after_reading();
        return found;
    }

    size_t fetch(std::byte* dst) noexcept override {
        const size_t there = in_.fetch(dst);
        after_reading();
        return there;
    }

    void release() noexcept override {
        in_.release();
        if (in_.failed()) after_reading();
    }

    bool progress() noexcept override {
        if (out_.idle() || !error_.ok()) return false;
        const bool moved = out_.flush();
        look_at_outbox();
        return moved;
    }

    void attend() noexcept override;
    bool delivered() noexcept override;
    const status& error() const noexcept override { return error_; }
    size_t max_message() const noexcept override { return tcp::max_message; }
    size_t max_copy() const noexcept override { return tcp::max_copy; }
    const std::string& medium() const noexcept override { return medium_; }

private:
    void after_reading() noexcept;
    void look_at_outbox() noexcept;
    void watch(bool out) noexcept;
    void fail(ef_status_t code, std::string_view why) noexcept;

    tcp::outbox out_;
    tcp::inbox in_;
    status error_;
    bool watching_out_ = false;
    unsigned attended_ = 0;
    size_t out_count_;
    std::vector<fd> sockets_;
    std::vector<pollfd> polls_;
    waiter& waiter_;
    peer_name peer_;
    std::string medium_;
};

bool tcp_channel::delivered() noexcept {
    if (!error_.ok()) return true;
    return out_.idle() && std::all_of(sockets_.begin(), sockets_.end(),
                                      [](const fd& s) { return ef::delivered(s.get()); });
}

// Whoever receives all the time would never call progress(): what comes in lets as much go out.
void tcp_channel::after_reading() noexcept {
    if (in_.failed()) fail(in_.failure(), in_.why());
    if (!out_.idle() && in_.take_moved()) progress();
}

void tcp_channel::look_at_outbox() noexcept {
    if (out_.failed())
        fail(EF_PEER_LOST,
             tcp::why_it_broke(size_t(out_.failed_lane()), out_count_, out_.failed_errno()));
    // From the first time that a socket was full on; the waiter is edge triggered, so a socket that
    // stays writable keeps nobody awake.
    else if (out_.take_refused() && !watching_out_) watch(true);
}

void tcp_channel::watch(bool out) noexcept {
    watching_out_ = out;
    for (const fd& s : sockets_)
        if (status w = waiter_.watch(s.get(), out, true); !w.ok()) fail(w.code(), w.text());
}

// Who only sends little, or waits for somebody else, learns here that the peer has gone.
void tcp_channel::attend() noexcept {
    if (!error_.ok() || ++attended_ % attended_every) return;
    if (::poll(polls_.data(), polls_.size(), 0) <= 0) return;
    for (size_t i = 0; i < polls_.size(); ++i) {
        if (!polls_[i].revents) continue;
        int err = 0;
        socklen_t length = sizeof err;
        if (getsockopt(polls_[i].fd, SOL_SOCKET, SO_ERROR, &err, &length) != 0) err = errno;
        fail(EF_PEER_LOST, tcp::why_it_broke(i, polls_.size(), err));
    }
}

void tcp_channel::fail(ef_status_t code, std::string_view why) noexcept {
    if (!error_.ok()) return;
    error_ = status(code, fmt::format("{}: {}: {}", medium_, peer_.text(), why));
}

}  // namespace

std::unique_ptr<channel> make_tcp_channel(peer_name peer, std::vector<fd> sockets,
                                          std::string medium, waiter& w) {
    return std::make_unique<tcp_channel>(std::move(peer), both_ways(std::move(sockets)),
                                         std::move(medium), w);
}

std::unique_ptr<channel> make_tcp_channel(peer_name peer, std::vector<fd> out, std::vector<fd> in,
                                          std::string medium, waiter& w) {
    return std::make_unique<tcp_channel>(std::move(peer), one_way(std::move(out), std::move(in)),
                                         std::move(medium), w);
}

}  // namespace ef
