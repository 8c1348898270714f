#include "transport/bootstrap/control_wire.hpp"

namespace ef {
namespace {

bool known_failure(int32_t code) {
    switch (code) {
    case EF_INVALID:
    case EF_UNSUPPORTED:
    case EF_NO_MEMORY:
    case EF_NO_RESOURCE:
    case EF_PEER_LOST:
    case EF_TIMEOUT:
    case EF_ABORTED:
    case EF_AUTH_FAILED:
    case EF_MISMATCH:
    case EF_SYSTEM:
        return true;
    default:
        return false;
    }
}

bool rank_within(uint32_t r, rank_t nranks) { return r < uint32_t(nranks); }

void put_info(writer& w, const peer_info& p) {
    w.text(p.host).text(p.host_id).put(uint32_t(p.pid)).text(p.cpus);
    w.text(p.address).text(p.unix_name).text(p.interface_).text(p.rails);
}

void get_info(reader& r, peer_info& p) {
    p.host = r.text();
    p.host_id = r.text();
    p.pid = int32_t(r.get<uint32_t>());
    p.cpus = r.text();
    p.address = r.text();
    p.unix_name = r.text();
    p.interface_ = r.text();
    p.rails = r.text();
}

void get_id(reader& r, group_id& id) {
    const auto b = r.raw(id.size());
    if (b.size() == id.size()) memcpy(id.data(), b.data(), id.size());
}

}  // namespace

bytes write_answer(const answer_message& m) {
    writer w;
    w.raw(std::as_bytes(std::span(m.group))).put(uint32_t(m.neighbours.size()));
    for (const auto& n : m.neighbours) w.put(uint32_t(n.rank)).text(n.address);
    return w.take();
}

bytes write_refusal(const status& s) {
    return writer().put(uint32_t(int32_t(s.code()))).text(s.text()).take();
}

bytes write_notice(const notice_message& m) {
    return writer().put(uint32_t(m.rank)).put(uint32_t(int32_t(m.code))).text(m.text).take();
}

bytes write_word(const word_message& m) {
    return writer().put(uint32_t(m.rank)).put(m.serial).block(m.data).take();
}

bytes write_peer_info(const peer_info& p) {
    writer w;
    put_info(w, p);
    return w.take();
}

bytes write_split_offer(const split_offer& o) {
    writer w;
    w.put(uint32_t(int32_t(o.code))).text(o.why).raw(std::as_bytes(std::span(o.random)));
    put_info(w, o.info);
    return w.take();
}

int parse_frame_header(std::span<const std::byte> in, frame_header& h) {
    const le<uint32_t> magic = control_magic;
    const size_t n = std::min(in.size(), sizeof(magic));
    if (n && memcmp(in.data(), &magic, n) != 0) return -1;
    if (in.size() < sizeof(h)) return 0;
    memcpy(&h, in.data(), sizeof(h));
    if (h.payload_bytes > max_frame_bytes) return -1;
    const bool of_group = h.type >= frame_enlist && h.type <= frame_word;
    const bool of_pair = h.type >= frame_pair_first && h.type <= frame_pair_last;
    return of_group || of_pair ? 1 : -1;
}

bool parse_text(std::span<const std::byte> in, std::string& text) {
    reader r(in);
    text = r.text();
    return r.finished();
}

bool parse_answer(std::span<const std::byte> in, rank_t nranks, answer_message& m) {
    reader r(in);
    get_id(r, m.group);
    const uint32_t n = r.get<uint32_t>();
    m.neighbours.clear();
    for (uint32_t i = 0; i < n && r.ok(); ++i) {
        const uint32_t rank = r.get<uint32_t>();
        std::string address = r.text();
        if (!rank_within(rank, nranks)) return false;
        m.neighbours.push_back({rank_t(rank), std::move(address)});
    }
    return r.finished();
}

bool parse_refusal(std::span<const std::byte> in, status& s) {
    reader r(in);
    const auto code = int32_t(r.get<uint32_t>());
    std::string text = r.text();
    if (!r.finished() || !known_failure(code)) return false;
    s = status(ef_status_t(code), std::move(text));
    return true;
}

bool parse_blocks(std::span<const std::byte> in, rank_t nranks, std::vector<block_of>& m) {
    reader r(in);
    const uint32_t n = r.get<uint32_t>();
    m.clear();
    for (uint32_t i = 0; i < n && r.ok(); ++i) {
        const uint32_t rank = r.get<uint32_t>();
        const auto data = r.block();
        if (!rank_within(rank, nranks)) return false;
        m.push_back({rank_t(rank), data});
    }
    return r.finished();
}

bool parse_notice(std::span<const std::byte> in, rank_t nranks, notice_message& m) {
    reader r(in);
    const uint32_t rank = r.get<uint32_t>();
    const auto code = int32_t(r.get<uint32_t>());
    m.text = r.text();
    if (!r.finished() || !rank_within(rank, nranks) || !known_failure(code)) return false;
    m.rank = rank_t(rank);
    m.code = ef_status_t(code);
    return true;
}

bool parse_goodbye(std::span<const std::byte> in, rank_t nranks, rank_t& out) {
    reader r(in);
    const uint32_t rank = r.get<uint32_t>();
    if (!r.finished() || !rank_within(rank, nranks)) return false;
    out = rank_t(rank);
    return true;
}

bool parse_word(std::span<const std::byte> in, rank_t nranks, word_message& m) {
    reader r(in);
    const uint32_t rank = r.get<uint32_t>();
    m.serial = r.get<uint32_t>();
    const auto data = r.block();
    if (!r.finished() || !rank_within(rank, nranks) || data.size() > max_word_bytes) return false;
    m.rank = rank_t(rank);
    m.data.assign(data.begin(), data.end());
    return true;
}

bool parse_peer_info(std::span<const std::byte> in, peer_info& p) {
    reader r(in);
    get_info(r, p);
    return r.finished();
}

bool parse_split_offer(std::span<const std::byte> in, split_offer& o) {
    reader r(in);
    const auto code = int32_t(r.get<uint32_t>());
    o.why = r.text();
    get_id(r, o.random);
    get_info(r, o.info);
    if (!r.finished() || (code != EF_OK && !known_failure(code))) return false;
    o.code = ef_status_t(code);
    return true;
}

}  // namespace ef
