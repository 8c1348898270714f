// What the point-to-point programs measure: one row per program, with the meaning of perftest.
//
//   ef_write_bw  ef_read_bw  ef_send_bw      many messages under way; bytes/s and completion times
//   ef_write_lat ef_send_lat                 ping-pong; half of the round trip
//   ef_read_lat  ef_atomic_lat               one at a time; the whole round trip
#pragma once

#include <eflops/transport.h>

#include <cstdint>

namespace ef::perf::p2p {

enum class kind { write_bw, write_lat, read_bw, read_lat, send_bw, send_lat, atomic_lat };

struct test {
    kind what;
    const char* name;     // "write_bw"
    const char* program;  // "ef_write_bw"
    ef_work_op_t op;
    bool latency;
    bool ping_pong;  // the server answers each message; times are halved
    bool two_sided;  // the target posts receives
    const char* default_sizes;
};

const test& find_test(kind what) noexcept;

}  // namespace ef::perf::p2p
