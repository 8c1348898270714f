// Frames of a pair's control connection, besides those of a group (bootstrap/control_wire.hpp).
//
//   hello    16 bytes session id (the server's counts), then the peer_info
//   blob     as it is
//   open     text transport, le32 number of data sockets
//   opened   empty; or a refusal instead of it
#pragma once

#include "transport/bootstrap/control_wire.hpp"

namespace ef {

enum pair_frame : uint16_t {
    pair_hello = frame_pair_first,
    pair_blob = 65,
    pair_open = 66,
    pair_opened = 67,
    pair_refusal = frame_pair_last,
};

static_assert(pair_opened + 1 == pair_refusal);

/// hello_message::sequence of pairs: a rank of a job that dials here is not taken for a client.
constexpr uint32_t pair_sequence = 0x52494150;  // "PAIR"

}  // namespace ef
