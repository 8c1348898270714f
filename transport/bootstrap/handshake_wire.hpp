// Handshake on every connection, bootstrap and data. Both ends prove that they hold the job's key
// and agree on what the connection is for; nothing but a challenge is said to a stranger.
//
//   acceptor                                   dialer
//      challenge  magic version nonce  --->
//                                      <---    hello  who, whom, what for, nonce, mac
//      verdict    code mac             --->
//
//   hello.mac    = BLAKE2b(key, "eflops hello"   | challenge | hello without mac)
//   verdict.mac  = BLAKE2b(key, "eflops verdict" | challenge | hello | code)   (zero if code is
//   refused)
//
//   challenge         hello                        verdict
//   offset size       offset size                  offset size
//      0    4 magic      0    4 magic                 0    4 magic
//      4    4 version    4    4 version               4    4 code
//      8   32 nonce      8    2 purpose               8   32 mac
//                       10    2 lane
//                       12    2 index
//                       14    2 count
//                       16    4 from rank
//                       20    4 to rank
//                       24    4 nranks
//                       28    4 sequence (which communicator of its launcher)
//                       32   16 group id
//                       48   32 nonce
//                       80   32 mac
#pragma once

#include "transport/base/bytes.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace ef {

constexpr uint32_t handshake_magic = 0x53484645;  // "EFHS"
constexpr uint32_t handshake_version = 1;

enum purpose : uint16_t { for_rendezvous = 1, for_control = 2, for_data = 3 };
enum verdict_code : uint32_t {
    verdict_accepted = 1,
    verdict_refused = 2,  // no proof of the key
    verdict_other = 3,    // right key, but another group or communicator: try again
};

struct challenge_message {
    le<uint32_t> magic, version;
    unsigned char nonce[32] = {};
};
static_assert(sizeof(challenge_message) == 40 && offsetof(challenge_message, nonce) == 8);

struct hello_message {
    le<uint32_t> magic, version;
    le<uint16_t> purpose, lane, index, count;
    le<uint32_t> from, to, nranks, sequence;
    unsigned char group[16] = {};
    unsigned char nonce[32] = {};
    unsigned char mac[32] = {};
};
static_assert(sizeof(hello_message) == 112 && offsetof(hello_message, group) == 32 &&
              offsetof(hello_message, mac) == 80);

struct verdict_message {
    le<uint32_t> magic, code;
    unsigned char mac[32] = {};
};
static_assert(sizeof(verdict_message) == 40 && offsetof(verdict_message, mac) == 8);

enum class parsed : uint8_t { need_more, good, garbage, other_version };

/// What the first bytes of a message amount to; garbage is known after its first wrong byte.
/// `version` is filled for other_version.
parsed parse_challenge(std::span<const std::byte> in, challenge_message& m, uint32_t& version);
parsed parse_hello(std::span<const std::byte> in, hello_message& m, uint32_t& version);
parsed parse_verdict(std::span<const std::byte> in, verdict_message& m);

}  // namespace ef
