// outbox: the sending half of a tcp channel.
//
// A message goes to the kernel within send(). What the sockets do not take stays in a fixed ring of
// pending messages; each connection has a cursor into that ring, so they fill independently. The
// payload stays where the caller has it (borrow) or is moved to a buffer of our own (copy).
//
//   ring      [ m7 | m8 | m9 | m10 ]          sent_ = 11, drained_ = 7
//   cursors     ^lane 1     ^lane 0           a message has left when all cursors are past it
#pragma once

#include "transport/base/status.hpp"
#include "transport/tcp/tcp_wire.hpp"
#include "transport/transport.hpp"

#include <sys/uio.h>

#include <memory>
#include <vector>

namespace ef::tcp {

constexpr size_t max_copy = 64 * 1024;

class outbox {
public:
    explicit outbox(const std::vector<int>& sockets);

    bool send(uint64_t tag, const std::byte* data, size_t bytes, ownership how) noexcept;
    uint64_t sent() const noexcept { return sent_; }
    uint64_t completed() noexcept;

    bool idle() const noexcept { return drained_ == sent_; }
    /// Offer what is pending to the sockets. True if they took any.
    bool flush() noexcept;
    /// The sockets have refused something since the last call.
    bool take_refused() noexcept { return std::exchange(refused_, false); }

    bool failed() const noexcept { return failed_lane_ >= 0; }
    int failed_lane() const noexcept { return failed_lane_; }
    int failed_errno() const noexcept { return errno_; }

private:
    static constexpr size_t ring_size = 64;
    static constexpr size_t copies_bytes = 2 * max_copy;

    struct pending {
        header head;
        const std::byte* data = nullptr;
        size_t bytes = 0;
        size_t held = 0;  // bytes of copies_ that are free once it has left
        bool copied = false;
    };
    struct lane {
        int socket = -1;
        bool blocked = false;  // refused something; only flush() asks again
        uint64_t ticket = 0;   // message it is at
        size_t at = 0;         // bytes of that message's share already taken
    };
    static constexpr int most_pieces = 32;

    pending& entry(uint64_t ticket) noexcept { return ring_[ticket % ring_size]; }
    size_t head_bytes(const lane& l) const noexcept {
        return &l == lanes_.data() ? sizeof(header) : 0;
    }
    part share(uint64_t ticket, const lane& l) noexcept;
    bool pump(lane& l) noexcept;
    size_t gather(const lane& l, iovec* pieces, int& count) noexcept;
    void advance(lane& l, size_t taken) noexcept;
    ssize_t write(lane& l, iovec* pieces, int count) noexcept;
    void retire() noexcept;
    bool room_for_copy(size_t bytes) const noexcept;
    void keep_copy(pending& p) noexcept;

    std::vector<lane> lanes_;
    uint64_t sent_ = 0;
    uint64_t drained_ = 0;    // messages wholly in the kernel
    uint64_t completed_ = 0;  // messages whose data is free
    std::unique_ptr<pending[]> ring_;
    std::unique_ptr<std::byte[]> copies_;  // a ring; a payload never wraps
    uint64_t copies_head_ = 0;
    uint64_t copies_tail_ = 0;
    bool refused_ = false;
    int failed_lane_ = -1;
    int errno_ = 0;
};

}  // namespace ef::tcp
