// flight: what a rank was doing when an operation failed. A communicator notes each operation when
// it begins and ends; when one fails, the last of them and what this rank waited for are written to
// a file, and the files of all ranks together tell who is to blame (ef_blame(1)).
//
//   ring of the last 64 operations, number n in slot n % 64:
//     ... | allreduce #16 EF_OK | send #3 EF_OK | allreduce #17 pending |
//
// begin() and end() are on the path of every operation: no allocation, lock or system call, and the
// coarse clock (4 ms), which is enough to tell a late rank from the others. The caller's lock
// protects the ring.
#pragma once

#include "allreduce/request.hpp"
#include "transport/base/status.hpp"
#include "transport/transport.hpp"

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace ef {

/// A message that has not come or has not been taken.
struct flight_waiting {
    rank_t peer = -1;
    bool sending = false;
    uint32_t round = 0;
    uint64_t bytes_done = 0, bytes = 0;
    std::string medium;
};

/// What the ring does not know.
struct flight_context {
    rank_t rank = 0;
    std::string communicator;          // tells the communicators of a process apart
    std::span<const peer_name> peers;  // by rank, this one included
    const status* error = nullptr;     // why the record is written
};

class flight_recorder {
public:
    static constexpr int kept = 64;

    /// Note that an operation has begun. The ticket is for end(); never negative.
    int begin(const call_site& site) noexcept;
    /// It came to `code`. A ticket whose slot has been taken over since, or a negative one, is
    /// ignored.
    void end(int ticket, ef_status_t code) noexcept;

    /// Write directory/eflops-flight-COMMUNICATOR-RANK.json, whole or not at all.
    status write(const std::string& directory, const flight_context& context,
                 std::span<const flight_waiting> waiting) const;

    /// What write() puts into the file.
    std::string text(const flight_context& context, std::span<const flight_waiting> waiting) const;

private:
    struct operation {
        const char* what = nullptr;  // static storage
        uint64_t number = 0, count = 0;
        uint64_t begin_ns = 0, end_ns = 0;  // coarse clock; end 0: pending
        ef_type_t type = EF_FLOAT32;
        ef_op_t op = EF_SUM;
        rank_t root_or_peer = -1;
        ef_status_t code = EF_OK;
        int ticket = -1;
        // A copy: the plan that owns the name may be gone when the record is written.
        std::array<char, 36> algorithm{};
    };

    static std::string text(const operation& o, uint64_t now);

    std::array<operation, kept> ring_;
    int next_ = 0;
};

}  // namespace ef
