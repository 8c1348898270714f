#include "transport/bootstrap/connection.hpp"

#include "transport/base/socket.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace ef {

connection::connection(poller& p, fd socket, rank_t peer, std::string address)
    : poller_(p), socket_(std::move(socket)), peer_(peer), address_(std::move(address)) {
    if (status s = poller_.set(socket_.get(), false); !s.ok()) end(std::string(s.text()));
}

connection::~connection() {
    if (!socket_) return;
    flush();
    poller_.remove(socket_.get());
    // Closing with unread bytes would send a reset, which can overtake the goodbye before it.
    shutdown(socket_.get(), SHUT_WR);
    char waste[4096];
    for (int i = 0; i < 64 && recv(socket_.get(), waste, sizeof(waste), MSG_DONTWAIT) > 0; ++i) {
    }
}

bool connection::delivered() const noexcept {
    return broken_ || (flushed() && ef::delivered(socket_.get()));
}

void connection::end(std::string why) {
    if (broken_) return;
    broken_ = true;
    why_ = std::move(why);
    poller_.remove(socket_.get());
}

void connection::send(uint16_t type, std::span<const std::byte> payload, uint32_t serial,
                      uint16_t round) {
    if (broken_) return;
    frame_header h;
    h.magic = control_magic;
    h.payload_bytes = uint32_t(payload.size());
    h.type = type;
    h.round = round;
    h.serial = serial;
    const auto* p = reinterpret_cast<const std::byte*>(&h);
    out_.insert(out_.end(), p, p + sizeof(h));
    out_.insert(out_.end(), payload.begin(), payload.end());
    flush();
}

void connection::flush() {
    const bool waited = !flushed();
    while (!broken_ && sent_ < out_.size()) {
        const ssize_t n = ::send(socket_.get(), out_.data() + sent_, out_.size() - sent_,
                                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) sent_ += size_t(n);
        else if (errno == EAGAIN) break;
        // A broken pipe is reported by receive(), after what the peer said before it went.
        else if (errno != EINTR) sent_ = out_.size();
    }
    if (flushed()) {
        out_.clear();
        sent_ = 0;
    }
    if (!broken_ && (waited || !flushed()))
        if (status s = poller_.set(socket_.get(), !flushed()); !s.ok()) end(std::string(s.text()));
}

void connection::receive() {
    std::byte buf[16384];
    while (!broken_) {
        const ssize_t n = recv(socket_.get(), buf, sizeof(buf), MSG_DONTWAIT);
        if (n > 0) in_.insert(in_.end(), buf, buf + n);
        else if (n == 0) end("connection closed");
        else if (errno == EAGAIN) return;
        else if (errno != EINTR) {
            char words[128];
            end(strerror_r(errno, words, sizeof(words)));
        }
    }
}

void connection::step() {
    flush();
    receive();
}

bool connection::next(frame& f) {
    frame_header h;
    const std::span<const std::byte> in = std::span(in_).subspan(taken_);
    const int got = parse_frame_header(in, h);
    if (got < 0) {
        end("sent bytes that are no control message");
        in_.clear();
        taken_ = 0;
        return false;
    }
    if (got == 0 || in.size() < sizeof(h) + h.payload_bytes) return false;
    const auto payload = in.subspan(sizeof(h), h.payload_bytes);
    f.type = h.type;
    f.round = h.round;
    f.serial = h.serial;
    f.payload.assign(payload.begin(), payload.end());
    taken_ += sizeof(h) + h.payload_bytes;
    if (taken_ == in_.size()) {
        in_.clear();
        taken_ = 0;
    }
    return true;
}

}  // namespace ef
