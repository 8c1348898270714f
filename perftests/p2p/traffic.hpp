// The traffic of one row, on either end: streams of messages, ping-pong, and messages whose data is
// compared.
#pragma once

#include "perftests/p2p/session.hpp"

#include <functional>

namespace ef::perf::p2p {

struct sample {
    uint64_t iterations = 0;
    uint64_t windows = 0;
    double seconds = 0;
    double messages_per_s = 0;
    double gbps = 0;             // 10^9 bit/s
    double min_window_gbps = 0;  // the slowest window
    double avg_us = 0;           // latency tests: of one message; else between two messages
    double min_us = 0, p50_us = 0, p99_us = 0, p999_us = 0, max_us = 0;
    double half_width_percent = 0;
    bool settled = false;
};

using tick = std::function<void(double seconds)>;

/// Both ends, before a row: messages of this size, receives posted. Returns what each lane has
/// posted so far, which the other end is told.
std::vector<uint64_t> begin_row(session& s, uint64_t bytes);
std::vector<uint64_t> posted_so_far(session& s);

/// The measuring end of a bandwidth test.
sample run_stream(session& s, uint64_t bytes, const tick& show);
/// The measuring end of a latency test. `peer_posted`: what the peer's begin_row() returned.
sample run_latency(session& s, uint64_t bytes, const tick& show,
                   const std::vector<uint64_t>& peer_posted);

/// The server's part of either, until the client says stop: then `stop` has its words. The sample
/// is of its own stream (bidirectional) and otherwise empty.
sample serve_traffic(session& s, uint64_t bytes, const std::vector<uint64_t>& peer_posted,
                     json& stop);

/// After the stop: all that the peer has ever posted, lane by lane, has been received.
void await_received(session& s, const json& posted);

/// Messages with known data. fill() first on both ends, then move() where `sends`; count_wrong()
/// when all has arrived.
class proof {
public:
    proof(session& s, uint64_t bytes, uint64_t salt) : s_(s), bytes_(bytes), salt_(salt) {}
    void fill(bool client);
    void move();
    /// Wrong bytes on this end.
    uint64_t count_wrong(bool client);

private:
    void move_atomics();
    uint64_t word(size_t lane_at, size_t slot, size_t i) const noexcept;
    void fill_slot(std::byte* p, size_t lane_at, size_t slot) const noexcept;
    uint64_t wrong_in_slot(const std::byte* p, size_t lane_at, size_t slot) const noexcept;
    uint64_t atomic_start() const noexcept;

    session& s_;
    uint64_t bytes_, salt_;
    uint64_t wrong_ = 0;
};

}  // namespace ef::perf::p2p
