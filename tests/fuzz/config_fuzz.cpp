// Everything that a user can write into the environment or the calibration file: it is taken or
// refused with words, and what is taken is within the limits that the table promises.
#include "allreduce/calibrate.hpp"
#include "transport/base/config.hpp"

#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    ef::config c;
    for (const ef::config_variable& v : ef::config_table()) {
        const ef::status s = ef::set_config(c, v.name, text);
        if (!s.ok() && s.text().find(v.accepted) == std::string_view::npos) abort();
    }
    if (c.timeout_ms < 0 || c.tcp_connections > 16 || (c.chunk_bytes != 0 && c.chunk_bytes < 1024))
        abort();

    ef::cost::machine_model m;
    if (ef::calibration::parse(text, {"host", "shm", "tcp:lo"}, m)) {
        if (!(m.intra.alpha_ns > 0) || !(m.inter.recv_ns_per_byte > 0) ||
            !(m.gamma_ns_per_byte > 0))
            abort();
        // What was read and written again is read again.
        ef::cost::machine_model again;
        if (!ef::calibration::parse(ef::calibration::format(m, "shm", "tcp:lo", ""), {"host"},
                                    again) &&
            m.gamma_ns_per_byte > 1e-4 && m.copy_ns_per_byte > 1e-4)
            abort();
    }
    return 0;
}
