#include "transport/tcp/outbox.hpp"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace ef::tcp {

outbox::outbox(const std::vector<int>& sockets)
    : ring_(new pending[ring_size]), copies_(new std::byte[copies_bytes]) {
    for (int s : sockets) lanes_.push_back({s, false, 0, 0});
}

// ---------------------------------------------------------------- taking messages

bool outbox::send(uint64_t tag, const std::byte* data, size_t bytes, ownership how) noexcept {
    const bool copy = how == ownership::copy;
    if (failed() || bytes > (copy ? max_copy : max_message)) return false;
    if (!idle() && (sent_ - drained_ == ring_size || (copy && !room_for_copy(bytes)))) return false;

    pending& p = entry(sent_);
    p.head.magic = wire_magic;
    p.head.version = wire_version;
    p.head.seq = uint32_t(sent_);
    p.head.tag = tag;
    p.head.bytes = bytes;
    p.data = data;
    p.bytes = bytes;
    p.held = 0;
    p.copied = false;
    ++sent_;
    // A connection that has refused something is asked again by flush(), when there is reason to.
    for (lane& l : lanes_)
        if (!l.blocked) pump(l);
    retire();
    if (idle()) completed_ = sent_;
    else if (copy && drained_ < sent_) keep_copy(p);
    return true;  // it is ours even if this attempt broke the channel: error() tells
}

uint64_t outbox::completed() noexcept {
    while (completed_ < sent_ && (completed_ < drained_ || entry(completed_).copied)) ++completed_;
    return completed_;
}

bool outbox::room_for_copy(size_t bytes) const noexcept {
    const uint64_t at = copies_head_ % copies_bytes;
    const uint64_t skip = at + bytes > copies_bytes ? copies_bytes - at : 0;
    return copies_head_ + skip + bytes - copies_tail_ <= copies_bytes;
}

// The whole payload, though part of it may have gone: this is the path of a full socket.
void outbox::keep_copy(pending& p) noexcept {
    const uint64_t at = copies_head_ % copies_bytes;
    const uint64_t skip = at + p.bytes > copies_bytes ? copies_bytes - at : 0;
    std::byte* own = copies_.get() + (copies_head_ + skip) % copies_bytes;
    if (p.bytes) memcpy(own, p.data, p.bytes);
    p.data = own;
    p.held = skip + p.bytes;
    p.copied = true;
    copies_head_ += p.held;
}

// ---------------------------------------------------------------- moving them

bool outbox::flush() noexcept {
    bool moved = false;
    for (lane& l : lanes_) {
        if (failed()) break;
        if (l.ticket == sent_) continue;
        l.blocked = false;
        moved |= pump(l);
    }
    retire();
    return moved;
}

part outbox::share(uint64_t ticket, const lane& l) noexcept {
    return part_of(ticket, entry(ticket).bytes, size_t(&l - lanes_.data()), lanes_.size());
}

bool outbox::pump(lane& l) noexcept {
    bool moved = false;
    while (l.ticket < sent_) {
        iovec pieces[most_pieces];
        int count = 0;
        const size_t offered = gather(l, pieces, count);
        if (offered == 0) {
            l.ticket = sent_;  // nothing of these is for this connection
            break;
        }
        const ssize_t n = write(l, pieces, count);
        if (n <= 0) break;
        moved = true;
        advance(l, size_t(n));
        if (size_t(n) < offered) {
            l.blocked = true;
            refused_ = true;
            break;
        }
    }
    return moved;
}

// What the connection has to send next, from all pending messages, as far as the pieces reach.
size_t outbox::gather(const lane& l, iovec* pieces, int& count) noexcept {
    size_t offered = 0;
    size_t at = l.at;
    for (uint64_t t = l.ticket; t < sent_ && count < most_pieces; ++t, at = 0) {
        pending& p = entry(t);
        const size_t head = head_bytes(l);
        if (at < head) {
            pieces[count++] = {reinterpret_cast<std::byte*>(&p.head) + at, head - at};
            offered += head - at;
            at = head;
        }
        const part mine = share(t, l);
        for (size_t b = at - head; b < mine.bytes && count < most_pieces;) {
            const size_t n = mine.run(b);
            pieces[count++] = {const_cast<std::byte*>(p.data) + mine.offset(b), n};
            offered += n;
            b += n;
        }
    }
    return offered;
}

void outbox::advance(lane& l, size_t taken) noexcept {
    while (l.ticket < sent_) {
        const size_t left = head_bytes(l) + share(l.ticket, l).bytes - l.at;
        if (taken < left) {
            l.at += taken;
            return;
        }
        taken -= left;
        ++l.ticket;
        l.at = 0;
    }
}

ssize_t outbox::write(lane& l, iovec* pieces, int count) noexcept {
    msghdr m{};
    m.msg_iov = pieces;
    m.msg_iovlen = size_t(count);
    const ssize_t n = ::sendmsg(l.socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) return n;
    l.blocked = true;
    refused_ = true;
    // Out of kernel memory passes; the others do not.
    if (errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == ENOMEM) return 0;
    errno_ = errno;
    failed_lane_ = int(&l - lanes_.data());
    return -1;
}

void outbox::retire() noexcept {
    uint64_t least = sent_;
    for (const lane& l : lanes_) least = std::min(least, l.ticket);
    for (; drained_ < least; ++drained_) copies_tail_ += entry(drained_).held;
}

}  // namespace ef::tcp
