// inbox: the receiving half of a tcp channel.
//
// Connection 0 is read into a buffer; a message that lies in it whole is shown as a view. Of a
// longer one only what came along with the header passes through the buffer: the rest is read from
// the sockets straight to its place, and the same call reads on behind its end into the buffer,
// where the next header is. How much is read ahead follows the traffic: all of the buffer while
// messages are short, a little while they are long, since what is read ahead of a long one is
// copied twice.
//
//   buffer of connection 0    [ free | head_ payload | header payload | header pay.. | free ]
//                               begin_ ^                                             ^ end_
#pragma once

#include "transport/base/status.hpp"
#include "transport/tcp/tcp_wire.hpp"
#include "transport/transport.hpp"

#include <sys/uio.h>

#include <memory>
#include <string>
#include <vector>

namespace ef::tcp {

/// "connection 1 of 3: Connection reset by peer (errno 104)"; errno 0: it was closed.
std::string why_it_broke(size_t lane, size_t lanes, int err);

class inbox {
public:
    explicit inbox(const std::vector<int>& sockets);

    bool peek(message& m) noexcept;
    size_t fetch(std::byte* dst) noexcept;
    void release() noexcept;

    /// Bytes have come since the last call.
    bool take_moved() noexcept { return std::exchange(moved_, false); }

    /// What ended the stream. Messages that had arrived whole can still be peeked.
    bool failed() const noexcept { return failure_ != EF_OK; }
    ef_status_t failure() const noexcept { return failure_; }
    const std::string& why() const noexcept { return why_; }

private:
    // Up to here it is cheaper to wait for a message and show it than to fetch it.
    static constexpr size_t most_awaited = 16 * 1024;
    static constexpr size_t buffer_bytes = 64 * 1024;
    static constexpr size_t read_ahead_of_long = 4 * 1024;
    static constexpr int most_pieces = 32;

    enum class shown : uint8_t { nothing, view, fetched };

    struct lane {
        int socket = -1;
        bool ended = false;
        part share;      // of the message at the head
        size_t got = 0;  // bytes of the share that are in their place
    };

    bool recognise() noexcept;
    bool check(const header& h) noexcept;
    void show(size_t payload) noexcept;
    void begin_fetch() noexcept;
    bool fill() noexcept;
    void make_room() noexcept;
    void take_from_buffer(std::byte* dst) noexcept;
    void read_share(lane& l, std::byte* dst) noexcept;
    size_t read_pieces(lane& l, std::byte* dst, size_t& offered) noexcept;
    size_t contiguous() const noexcept;
    bool lost(lane& l, ssize_t n, int err) noexcept;
    void fail(ef_status_t code, std::string text) noexcept;

    std::vector<lane> lanes_;
    std::unique_ptr<std::byte[]> buffer_;
    size_t begin_ = 0;
    size_t end_ = 0;
    size_t appetite_ = buffer_bytes;
    size_t awaited_ = sizeof(header);  // bytes that the message at the head needs in the buffer
    bool short_read_ = false;          // the last read found the socket empty
    bool moved_ = false;

    shown shown_ = shown::nothing;
    message head_;
    uint64_t seq_ = 0;  // number of the message at the head
    size_t there_ = 0;  // bytes of it that fetch() has brought

    ef_status_t failure_ = EF_OK;
    std::string why_;
};

}  // namespace ef::tcp
