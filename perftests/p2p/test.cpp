#include "perftests/p2p/test.hpp"

#include <cstddef>

namespace ef::perf::p2p {

const test& find_test(kind what) noexcept {
    // In the order of `kind`.
    static constexpr test table[] = {
        {kind::write_bw, "write_bw", "ef_write_bw", EF_WORK_WRITE, false, false, false, "64K"},
        {kind::write_lat, "write_lat", "ef_write_lat", EF_WORK_WRITE, true, true, false, "2"},
        {kind::read_bw, "read_bw", "ef_read_bw", EF_WORK_READ, false, false, false, "64K"},
        {kind::read_lat, "read_lat", "ef_read_lat", EF_WORK_READ, true, false, false, "2"},
        {kind::send_bw, "send_bw", "ef_send_bw", EF_WORK_SEND, false, false, true, "64K"},
        {kind::send_lat, "send_lat", "ef_send_lat", EF_WORK_SEND, true, true, true, "2"},
        {kind::atomic_lat, "atomic_lat", "ef_atomic_lat", EF_WORK_FETCH_ADD, true, false, false,
         "8"},
    };
    return table[size_t(what)];
}

}  // namespace ef::perf::p2p
