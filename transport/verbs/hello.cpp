#include "transport/verbs/hello.hpp"

#include "transport/verbs/wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace ef::verbs {

std::array<char, 40> rail_text(std::string_view name) noexcept {
    std::array<char, 40> t{};
    std::copy_n(name.begin(), std::min(name.size(), t.size() - 1), t.begin());
    return t;
}

std::string rail_name(const hello& h) {
    return std::string(h.rail.data(), strnlen(h.rail.data(), h.rail.size()));
}

status parse_hello(std::span<const std::byte> payload, hello& h) {
    if (payload.size() != sizeof(h))
        return status(EF_MISMATCH,
                      fmt::format("a hello of {} bytes, not {}: another version of eflops",
                                  payload.size(), sizeof(h)));
    memcpy(&h, payload.data(), sizeof(h));
    if (h.version != hello_version)
        return status(EF_MISMATCH, fmt::format("speaks version {} of the verbs wire, this is {}",
                                               uint16_t(h.version), hello_version));
    const uint32_t mtu = h.mtu;
    if (h.lanes == 0 || h.lanes > max_lanes || mtu < 256 || mtu > 4096 || (mtu & (mtu - 1)) ||
        h.ring_bytes < 4096 || h.ring_bytes % ring_unit)
        return status(EF_MISMATCH, "a hello that makes no sense (lanes, MTU or ring)");
    return {};
}

}  // namespace ef::verbs
