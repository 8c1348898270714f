#include "transport/tcp/inbox.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace ef::tcp {

std::string why_it_broke(size_t lane, size_t lanes, int err) {
    const std::string which = lanes > 1 ? fmt::format("connection {} of {}: ", lane, lanes) : "";
    if (err == 0) return which + "the peer closed the connection";
    return fmt::format("{}{} (errno {})", which, strerrordesc_np(err), err);
}

inbox::inbox(const std::vector<int>& sockets) : buffer_(new std::byte[buffer_bytes]) {
    for (int s : sockets) lanes_.push_back({s, false, {}, 0});
}

// ---------------------------------------------------------------- the head of the stream

bool inbox::peek(message& m) noexcept {
    while (shown_ == shown::nothing) {
        if (recognise()) break;
        if (failure_ == EF_MISMATCH || lanes_[0].ended) return false;
        // After a short read there is nothing to be had at once: leave it to the next call.
        if (short_read_) {
            short_read_ = false;
            return false;
        }
        if (!fill()) return false;
    }
    short_read_ = false;
    // What a dead peer left unfinished will never be whole.
    if (shown_ == shown::fetched && there_ < head_.bytes)
        for (const lane& l : lanes_)
            if (l.ended && l.got < l.share.bytes) return false;
    m = head_;
    return true;
}

bool inbox::recognise() noexcept {
    const size_t have = end_ - begin_;
    if (have < awaited_) return false;
    header h;
    memcpy(&h, buffer_.get() + begin_, sizeof h);
    if (!check(h)) return false;
    head_ = {h.tag, size_t(h.bytes), nullptr};
    const size_t whole = sizeof h + head_.bytes;
    if (!striped(head_.bytes, lanes_.size())) {
        if (have >= whole) {
            show(begin_ + sizeof h);
            return true;
        }
        if (head_.bytes <= most_awaited) {
            awaited_ = whole;
            return false;
        }
    }
    begin_fetch();
    return true;
}

bool inbox::check(const header& h) noexcept {
    if (h.magic != wire_magic)
        fail(EF_MISMATCH, fmt::format("message {}: magic {:#06x} instead of {:#06x}", seq_,
                                      uint16_t(h.magic), wire_magic));
    else if (h.version != wire_version)
        fail(EF_MISMATCH, fmt::format("message {}: the peer speaks version {}, we speak {}", seq_,
                                      uint16_t(h.version), wire_version));
    else if (h.seq != uint32_t(seq_))
        fail(EF_MISMATCH,
             fmt::format("message {} came as number {}", uint32_t(seq_), uint32_t(h.seq)));
    else if (h.bytes > max_message)
        fail(EF_MISMATCH, fmt::format("message {}: length {} is above {}", seq_, uint64_t(h.bytes),
                                      max_message));
    else return true;
    return false;
}

// A view is aligned like any element. A message of odd length may have left the next one off by a
// few bytes: it is moved down, over its own header.
void inbox::show(size_t payload) noexcept {
    std::byte* const p = buffer_.get() + payload;
    std::byte* const aligned = p - reinterpret_cast<uintptr_t>(p) % 8;
    if (aligned != p && head_.bytes) memmove(aligned, p, head_.bytes);
    head_.view = aligned;
    shown_ = shown::view;
}

void inbox::begin_fetch() noexcept {
    begin_ += sizeof(header);
    for (size_t k = 0; k < lanes_.size(); ++k) {
        lanes_[k].share = part_of(seq_, head_.bytes, k, lanes_.size());
        lanes_[k].got = 0;
    }
    there_ = 0;
    appetite_ = read_ahead_of_long;
    shown_ = shown::fetched;
}

void inbox::release() noexcept {
    if (shown_ == shown::nothing) return;
    if (shown_ == shown::view) begin_ += sizeof(header) + head_.bytes;
    else if (there_ < head_.bytes)
        return fail(EF_INVALID, "a message was released before it was fetched whole");
    shown_ = shown::nothing;
    awaited_ = sizeof(header);
    ++seq_;
}

// ---------------------------------------------------------------- connection 0's buffer

bool inbox::fill() noexcept {
    make_room();
    lane& l = lanes_[0];
    const size_t want = std::min(appetite_, buffer_bytes - end_);
    const ssize_t n = ::recv(l.socket, buffer_.get() + end_, want, MSG_DONTWAIT);
    if (n <= 0) return lost(l, n, errno);
    end_ += size_t(n);
    moved_ = true;
    short_read_ = size_t(n) < want;
    if (!short_read_) appetite_ = buffer_bytes;
    return true;
}

void inbox::make_room() noexcept {
    if (begin_ == end_) {
        begin_ = end_ = 0;
    } else if (buffer_bytes - begin_ < std::max(awaited_, sizeof(header)) || end_ == buffer_bytes) {
        memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
        end_ -= begin_;
        begin_ = 0;
    }
}

// ---------------------------------------------------------------- long messages

size_t inbox::fetch(std::byte* dst) noexcept {
    if (shown_ != shown::fetched) return 0;
    if (there_ == head_.bytes) return there_;
    take_from_buffer(dst);
    for (lane& l : lanes_)
        if (l.got < l.share.bytes && !l.ended) read_share(l, dst);
    there_ = contiguous();
    return there_;
}

void inbox::take_from_buffer(std::byte* dst) noexcept {
    lane& l = lanes_[0];
    while (begin_ < end_ && l.got < l.share.bytes) {
        const size_t n = std::min(end_ - begin_, l.share.run(l.got));
        memcpy(dst + l.share.offset(l.got), buffer_.get() + begin_, n);
        l.got += n;
        begin_ += n;
    }
}

void inbox::read_share(lane& l, std::byte* dst) noexcept {
    while (l.got < l.share.bytes) {
        size_t offered = 0;
        if (read_pieces(l, dst, offered) < offered) return;
    }
}

// One read into the places of the share that come next and, where it ends, into the buffer.
size_t inbox::read_pieces(lane& l, std::byte* dst, size_t& offered) noexcept {
    iovec pieces[most_pieces + 1];
    int count = 0;
    size_t b = l.got;
    while (b < l.share.bytes && count < most_pieces) {
        const size_t n = l.share.run(b);
        pieces[count++] = {dst + l.share.offset(b), n};
        b += n;
    }
    offered = b - l.got;
    if (&l == lanes_.data() && b == l.share.bytes) {
        begin_ = end_ = 0;  // it is empty, or nothing would be left to read
        pieces[count++] = {buffer_.get(), read_ahead_of_long};
    }
    msghdr m{};
    m.msg_iov = pieces;
    m.msg_iovlen = size_t(count);
    const ssize_t n = ::recvmsg(l.socket, &m, MSG_DONTWAIT);
    if (n <= 0) {
        lost(l, n, errno);
        return 0;
    }
    moved_ = true;
    const size_t mine = std::min(size_t(n), offered);
    l.got += mine;
    end_ += size_t(n) - mine;
    return mine;
}

// Bytes from the front without a gap: up to the first one that one of the connections still owes.
size_t inbox::contiguous() const noexcept {
    size_t least = head_.bytes;
    for (const lane& l : lanes_)
        if (l.got < l.share.bytes) least = std::min(least, l.share.offset(l.got));
    return least;
}

// ---------------------------------------------------------------- the end

bool inbox::lost(lane& l, ssize_t n, int err) noexcept {
    if (n < 0 && (err == EAGAIN || err == EINTR || err == ENOBUFS || err == ENOMEM)) return false;
    l.ended = true;
    fail(EF_PEER_LOST, why_it_broke(size_t(&l - lanes_.data()), lanes_.size(), n == 0 ? 0 : err));
    return false;
}

void inbox::fail(ef_status_t code, std::string text) noexcept {
    if (failure_ != EF_OK) return;
    failure_ = code;
    why_ = std::move(text);
}

}  // namespace ef::tcp
