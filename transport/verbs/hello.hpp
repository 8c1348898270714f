// hello: what the two ends of a verbs channel tell each other, per lane, over the control connection.
#pragma once

#include "transport/base/bytes.hpp"
#include "transport/base/status.hpp"
#include "transport/verbs/device.hpp"

#include <array>
#include <span>
#include <string>
#include <string_view>

namespace ef::verbs {

enum frame_type : uint16_t {
    frame_hello = 1,  // hello
    frame_ready = 2,  // my QP of this lane can receive
    frame_down = 3,   // my QP of this lane has stopped; payload: why, as text
};

//   offset size  field
//      0     2   version       1
//      2     2   lanes         how many this end has
//      4     4   qp_number
//      8     4   psn
//     12     4   mtu           bytes, of the port
//     16     8   ring          address of the ring into which the peer writes
//     24     8   ring_bytes
//     32     4   rkey
//     36     2   lid
//     38     1   ethernet      link layer: 1 Ethernet, 0 InfiniBand
//     39     1   reserved
//     40    16   gid
//     56    40   rail          "mlx5_0/1", zero padded
struct hello {
    le<uint16_t> version;
    le<uint16_t> lanes;
    le<uint32_t> qp_number;
    le<uint32_t> psn;
    le<uint32_t> mtu;
    le<uint64_t> ring;
    le<uint64_t> ring_bytes;
    le<uint32_t> rkey;
    le<uint16_t> lid;
    uint8_t ethernet;
    uint8_t reserved;
    gid_bytes gid;
    std::array<char, 40> rail;
};
static_assert(sizeof(hello) == 96 && alignof(hello) == 1);
constexpr uint16_t hello_version = 1;

std::array<char, 40> rail_text(std::string_view name) noexcept;
std::string rail_name(const hello& h);

/// Read and check what came. The error says what is wrong with it.
status parse_hello(std::span<const std::byte> payload, hello& h);

}  // namespace ef::verbs
