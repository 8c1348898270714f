// Every byte that the bootstrap takes from outside goes through one of these parse functions. The
// first byte of the input chooses which.
#include "transport/bootstrap/control_wire.hpp"
#include "transport/bootstrap/endpoint.hpp"
#include "transport/bootstrap/handshake_wire.hpp"
#include "transport/bootstrap/slurm.hpp"

#include <cstdlib>

namespace {

// What parses must survive being written and parsed again.
void require(bool holds) {
    if (!holds) abort();
}

void parse_handshake(std::span<const std::byte> in) {
    using namespace ef;
    uint32_t version = 0;
    challenge_message c;
    (void)parse_challenge(in, c, version);
    hello_message h;
    if (parse_hello(in, h, version) == parsed::good) require(h.from < h.nranks && h.to < h.nranks);
    verdict_message v;
    (void)parse_verdict(in, v);
}

void parse_control(unsigned which, std::span<const std::byte> in) {
    using namespace ef;
    frame_header f;
    std::string text;
    answer_message a;
    status s;
    std::vector<block_of> b;
    notice_message n;
    rank_t r = 0;
    split_offer o;
    peer_info p;
    word_message w;
    switch (which % 10) {
    case 0:
        if (parse_frame_header(in, f) == 1) require(f.payload_bytes <= max_frame_bytes);
        return;
    case 1:
        parse_text(in, text);
        return;
    case 2:
        if (parse_answer(in, 16, a)) require(write_answer(a) == bytes(in.begin(), in.end()));
        return;
    case 3:
        if (parse_refusal(in, s)) require(write_refusal(s) == bytes(in.begin(), in.end()));
        return;
    case 4:
        if (parse_blocks(in, 16, b))
            for (const block_of& x : b) require(x.rank >= 0 && x.rank < 16);
        return;
    case 5:
        if (parse_notice(in, 16, n)) require(write_notice(n) == bytes(in.begin(), in.end()));
        return;
    case 6:
        if (parse_goodbye(in, 16, r)) require(r >= 0 && r < 16);
        return;
    case 7:
        if (parse_word(in, 16, w)) require(w.rank >= 0 && w.rank < 16);
        return;
    case 8:
        if (parse_split_offer(in, o)) require(write_split_offer(o) == bytes(in.begin(), in.end()));
        return;
    default:
        if (parse_peer_info(in, p)) require(write_peer_info(p) == bytes(in.begin(), in.end()));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const auto in = std::as_bytes(std::span(data + 1, size - 1));
    const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
    switch (data[0] % 13) {
    case 0:
        parse_handshake(in);
        break;
    case 1:
        (void)ef::parse_host_port(text).ok();
        break;
    case 2:
        (void)ef::first_slurm_host(text).ok();
        break;
    default:
        parse_control(data[0] % 13 - 3u, in);
    }
    return 0;
}
