// Messages on control connections and in the rendezvous, after the handshake. Frames of
//
//   offset size  field
//      0     4   magic   "EFC1"
//      4     4   bytes   of the payload that follows
//      8     2   type
//     10     2   round   of an exchange
//     12     4   serial  which exchange of the group, from 1
//
// A payload is a row of fields: integers little-endian, a string or block as a 4-byte length and
// its bytes. Every payload has one parse function; all of them refuse trailing bytes.
//
//   enlist   address                              rank -> root: here my listener is
//   waiting  text                                 root -> rank: who is still missing
//   answer   group[16] n (rank address)*n         root -> rank: your neighbours
//   refusal  code text                            root -> rank: it has failed
//   blocks   n (rank bytes)*n                     one round of an exchange
//   notice   rank code text                       the group has failed; flooded
//   goodbye  rank                                 left in good order; flooded
//   word     rank serial data                     from one rank to all, in its order; flooded
#pragma once

#include "transport/base/bytes.hpp"
#include "transport/base/status.hpp"
#include "transport/bootstrap/group.hpp"

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ef {

using bytes = std::vector<std::byte>;
using group_id = std::array<unsigned char, 16>;

constexpr uint32_t control_magic = 0x31434645;    // "EFC1"
constexpr uint32_t max_frame_bytes = 256u << 20;  // only key holders get here; a sanity bound
constexpr uint32_t max_text_bytes = 4096;
constexpr uint32_t max_word_bytes = 64u << 10;

struct frame_header {
    le<uint32_t> magic, payload_bytes;
    le<uint16_t> type, round;
    le<uint32_t> serial;
};
static_assert(sizeof(frame_header) == 16 && offsetof(frame_header, serial) == 12);

enum frame_type : uint16_t {
    frame_enlist = 1,
    frame_waiting = 2,
    frame_answer = 3,
    frame_refusal = 4,
    frame_blocks = 5,
    frame_notice = 6,
    frame_goodbye = 7,
    frame_word = 8,
    frame_pair_first = 64,  // to frame_pair_last: transport/pair/wire.hpp
    frame_pair_last = 68,
};

/// Appends fields to a payload.
class writer {
public:
    template <class T>
    writer& put(T v) {
        const le<T> w = v;
        const auto* p = reinterpret_cast<const std::byte*>(&w);
        out_.insert(out_.end(), p, p + sizeof(w));
        return *this;
    }
    writer& raw(std::span<const std::byte> b) {
        out_.insert(out_.end(), b.begin(), b.end());
        return *this;
    }
    writer& block(std::span<const std::byte> b) { return put(uint32_t(b.size())).raw(b); }
    writer& text(std::string_view s) {
        return block(std::as_bytes(std::span(s.substr(0, max_text_bytes))));
    }
    bytes take() { return std::move(out_); }

private:
    bytes out_;
};

/// Takes fields off a payload; once one is missing, ok() is false for good and all are empty.
class reader {
public:
    explicit reader(std::span<const std::byte> in) : in_(in) {}
    template <class T>
    T get() {
        le<T> v;
        const auto b = raw(sizeof(v));
        if (b.size() == sizeof(v)) memcpy(&v, b.data(), sizeof(v));
        return v;
    }
    std::span<const std::byte> raw(size_t n) {
        if (!ok_ || n > in_.size()) {
            ok_ = false;
            return {};
        }
        const auto b = in_.first(n);
        in_ = in_.subspan(n);
        return b;
    }
    std::span<const std::byte> block() { return raw(get<uint32_t>()); }
    std::string text() {
        const auto b = block();
        if (b.size() > max_text_bytes) ok_ = false;
        return ok_ ? std::string(reinterpret_cast<const char*>(b.data()), b.size()) : "";
    }
    size_t left() const noexcept { return in_.size(); }
    bool ok() const noexcept { return ok_; }
    bool finished() const noexcept { return ok_ && in_.empty(); }

private:
    std::span<const std::byte> in_;
    bool ok_ = true;
};

struct neighbour_address {
    rank_t rank = -1;
    std::string address;
};
struct answer_message {
    group_id group{};
    std::vector<neighbour_address> neighbours;
};
struct notice_message {
    rank_t rank = -1;
    ef_status_t code = EF_OK;
    std::string text;
};
struct word_message {
    rank_t rank = -1;
    uint32_t serial = 0;  // of that rank's words, from 1
    bytes data;
};
struct block_of {
    rank_t rank = -1;
    std::span<const std::byte> data;  // into the payload
};
struct split_offer {  // what a rank says before a split's new connections are made
    ef_status_t code = EF_OK;
    std::string why;
    group_id random{};
    peer_info info;
};

bytes write_answer(const answer_message& m);
bytes write_refusal(const status& s);
bytes write_notice(const notice_message& m);
bytes write_word(const word_message& m);
bytes write_peer_info(const peer_info& p);
bytes write_split_offer(const split_offer& o);

/// 1: a header; 0: more bytes are needed; -1: garbage.
int parse_frame_header(std::span<const std::byte> in, frame_header& h);
bool parse_text(std::span<const std::byte> in, std::string& text);  // enlist, waiting
bool parse_answer(std::span<const std::byte> in, rank_t nranks, answer_message& m);
bool parse_refusal(std::span<const std::byte> in, status& s);
bool parse_blocks(std::span<const std::byte> in, rank_t nranks, std::vector<block_of>& m);
bool parse_notice(std::span<const std::byte> in, rank_t nranks, notice_message& m);
bool parse_goodbye(std::span<const std::byte> in, rank_t nranks, rank_t& r);
bool parse_word(std::span<const std::byte> in, rank_t nranks, word_message& m);
bool parse_peer_info(std::span<const std::byte> in, peer_info& p);
bool parse_split_offer(std::span<const std::byte> in, split_offer& o);

}  // namespace ef
