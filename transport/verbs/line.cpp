#include "transport/verbs/line.hpp"

#include "transport/base/socket.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>

namespace ef::verbs {
namespace {

constexpr uint32_t line_magic = 0x4c564645;  // "EFVL"
constexpr size_t longest_payload = 4096;

}  // namespace

void line::end(std::string why) {
    if (broken_) return;
    broken_ = true;
    why_ = std::move(why);
}

void line::send(uint16_t type, uint16_t lane, const void* payload, size_t bytes) {
    if (broken_) return;
    line_header h;
    h.magic = line_magic;
    h.bytes = uint32_t(bytes);
    h.type = type;
    h.lane = lane;
    const auto* head = reinterpret_cast<const std::byte*>(&h);
    const auto* body = static_cast<const std::byte*>(payload);
    out_.insert(out_.end(), head, head + sizeof(h));
    if (bytes) out_.insert(out_.end(), body, body + bytes);
    flush();
}

void line::flush() {
    while (!out_.empty()) {
        const ssize_t n =
            ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) out_.erase(out_.begin(), out_.begin() + n);
        else if (n < 0 && errno == EINTR) continue;
        else if (n < 0 && errno == EAGAIN) return;
        // That the peer has gone is said by reading, after what it said before.
        else return out_.clear();
    }
}

void line::step() {
    if (broken_) return;
    flush();
    std::byte buffer[4096];
    for (;;) {
        const ssize_t n = recv(socket_.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
        if (n > 0) {
            in_.insert(in_.end(), buffer, buffer + n);
            if (size_t(n) < sizeof(buffer)) return;
        } else if (n == 0) {
            return end("the peer closed the connection");
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            return end(strerror(errno));
        }
    }
}

bool line::next(line_frame& f) {
    line_header h;
    if (in_.size() < sizeof(h)) return false;
    memcpy(&h, in_.data(), sizeof(h));
    if (h.magic != line_magic || h.bytes > longest_payload) {
        end("what came over the control connection is not ours");
        in_.clear();
        return false;
    }
    const size_t whole = sizeof(h) + h.bytes;
    if (in_.size() < whole) return false;
    f.type = h.type;
    f.lane = h.lane;
    f.payload.assign(in_.begin() + sizeof(h), in_.begin() + ptrdiff_t(whole));
    in_.erase(in_.begin(), in_.begin() + ptrdiff_t(whole));
    return true;
}

bool line::delivered() const noexcept {
    return broken_ || (out_.empty() && ef::delivered(socket_.get()));
}

}  // namespace ef::verbs
