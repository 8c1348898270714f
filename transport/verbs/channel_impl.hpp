// The verbs channel from inside: channel.cpp sends, receives and polls; channel_lanes.cpp sets lanes up
// over the control connection and takes down those that fail.
#pragma once

#include "transport/verbs/channel.hpp"
#include "transport/verbs/lane.hpp"
#include "transport/verbs/line.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace ef::verbs {

struct outgoing {
    uint64_t number = 0;
    size_t payload = 0, offset = 0, space = 0;
    const std::byte* data = nullptr;  // null: in the mirror
    bool wrapped = false;
    uint32_t parts = 1;
    uint32_t pending = 0;  // bit p: part p is posted and not known to be done
    uint32_t waiting = 0;  // bit p: part p is to be posted again
    std::array<uint8_t, max_lanes> lane{};
};

struct incoming {
    uint32_t arrived = 0;  // bit p
    uint32_t parts = 0;    // 0: none has come
    bool wrapped = false;
};

class verbs_channel final : public channel {
public:
    verbs_channel(channel_setup s, waiter& w)
        : setup_(std::move(s)),
          line_(std::move(setup_.socket)),
          waiter_(w),
          lanes_(setup_.lanes),
          put_(setup_.ring_bytes),
          take_(setup_.ring_bytes) {
        for (size_t i = 0; i < lanes_.size(); ++i)
            lanes_[i].on = setup_.rails[i % setup_.rails.size()];
        medium_ = "verbs:" + lanes_[0].on->name();
    }
    ~verbs_channel() override;

    status begin();

    bool send(uint64_t tag, const std::byte* data, size_t bytes, ownership how) noexcept override;
    uint64_t sent() const noexcept override { return sent_; }
    uint64_t completed() noexcept override;
    bool peek(message& m) noexcept override;
    size_t fetch(std::byte* dst) noexcept override;
    void release() noexcept override;
    bool progress() noexcept override;
    void attend() noexcept override;
    bool delivered() noexcept override;
    const status& error() const noexcept override { return error_; }
    size_t max_message() const noexcept override { return setup_.ring_bytes / 4 - sizeof(header); }
    size_t max_copy() const noexcept override { return std::min<size_t>(64 * 1024, max_message()); }
    const std::string& medium() const noexcept override { return medium_; }

private:
    // --- setting up and taking down (the control connection)
    status greet(size_t i);
    void read_line() noexcept;
    void heard(const line_frame& f);
    void heard_hello(size_t i, const line_frame& f);
    void take_down(size_t i, const status& why) noexcept;
    void finish_taking_down(size_t i) noexcept;
    void count_lanes() noexcept;

    // --- sending
    bool copied(const outgoing& m) const noexcept { return m.data == nullptr; }
    bool choose_lanes(outgoing& m) noexcept;
    uint32_t key_for(const std::byte* p, size_t n, const outgoing& m) noexcept;
    bool post_part(outgoing& m, uint32_t part) noexcept;
    bool send_again() noexcept;
    void credit_upto(uint32_t low) noexcept;
    void offer_credit() noexcept;

    // --- completions
    bool poll() noexcept;
    bool poll_lane(size_t i) noexcept;
    void completed_part(const posting& p) noexcept;
    void arrived(const immediate& i) noexcept;
    void broken(size_t i, const completion& c) noexcept;
    void fail(ef_status_t code, std::string_view why) noexcept;

    outgoing& out(uint64_t number) noexcept { return out_[number % window]; }
    incoming& in(uint64_t number) noexcept { return in_[number % window]; }
    const std::byte* ring() const noexcept { return rings_.data(); }
    std::byte* mirror() const noexcept { return rings_.data() + setup_.ring_bytes; }

    channel_setup setup_;
    line line_;
    waiter& waiter_;
    std::string medium_;
    mapped_pages rings_;  // the ring, then the mirror
    std::vector<lane> lanes_;
    uint32_t common_ = 0;  // lanes that both ends have; 0: not known yet
    uint32_t live_ = 0;    // bit i: lane i is up
    bool connected_ = false;
    status error_;

    ring_cursor put_;
    std::array<outgoing, window> out_;
    uint64_t sent_ = 0, completed_ = 0, credited_ = 0;
    size_t used_ = 0;         // bytes of the peer's ring that no credit has covered
    uint32_t resending_ = 0;  // parts to be posted again

    ring_cursor take_;
    std::array<incoming, window> in_;
    uint64_t consumed_ = 0, told_ = 0;  // told: the last credit
    size_t untold_bytes_ = 0;
    bool credit_lost_ = false;
};

}  // namespace ef::verbs
