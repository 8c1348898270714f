#include "transport/bootstrap/handshake.hpp"

#include <fmt/core.h>
#include <sodium.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace ef {
namespace {

void keyed(unsigned char (&out)[32], const secret& key, const char* what,
           std::initializer_list<std::span<const std::byte>> parts) {
    crypto_generichash_state s;
    crypto_generichash_init(&s, key.data(), key.size(), sizeof(out));
    crypto_generichash_update(&s, reinterpret_cast<const unsigned char*>(what), strlen(what) + 1);
    for (const auto& p : parts)
        crypto_generichash_update(&s, reinterpret_cast<const unsigned char*>(p.data()), p.size());
    crypto_generichash_final(&s, out, sizeof(out));
}

template <class T>
std::span<const std::byte> bytes_of(const T& t, size_t n = sizeof(T)) {
    return {reinterpret_cast<const std::byte*>(&t), n};
}

void mac_of(unsigned char (&out)[32], const secret& key, const challenge_message& c,
            const hello_message& h) {
    keyed(out, key, "eflops hello", {bytes_of(c), bytes_of(h, sizeof(h) - sizeof(h.mac))});
}

void mac_of(unsigned char (&out)[32], const secret& key, const challenge_message& c,
            const hello_message& h, const verdict_message& v) {
    keyed(out, key, "eflops verdict", {bytes_of(c), bytes_of(h), bytes_of(v.code)});
}

/// Is `in` a beginning of (or all of) the little-endian `want`?
bool begins(std::span<const std::byte> in, size_t at, uint32_t want) {
    for (size_t i = 0; i < 4 && at + i < in.size(); ++i)
        if (in[at + i] != std::byte(want >> (8 * i))) return false;
    return true;
}

template <class T>
parsed parse_versioned(std::span<const std::byte> in, T& m, uint32_t& version) {
    if (!begins(in, 0, handshake_magic)) return parsed::garbage;
    if (in.size() < 8) return parsed::need_more;
    le<uint32_t> v;
    memcpy(&v, in.data() + 4, sizeof(v));
    version = v;
    if (version != handshake_version) return parsed::other_version;
    if (in.size() < sizeof(T)) return parsed::need_more;
    memcpy(&m, in.data(), sizeof(T));
    return parsed::good;
}

/// Fill buf up to `want`: 1 full, 0 not yet, -1 broken (errno, 0 for an orderly end).
int fill(int socket, std::byte* buf, size_t& got, size_t want) {
    while (got < want) {
        const ssize_t n = recv(socket, buf + got, want - got, MSG_DONTWAIT);
        if (n > 0) got += size_t(n);
        else if (n == 0) return errno = 0, -1;
        else if (errno == EAGAIN) return 0;
        else if (errno != EINTR) return -1;
    }
    return 1;
}

/// A handshake message always fits an empty socket buffer, so a short send is a broken peer.
bool put(int socket, const void* p, size_t n) {
    return send(socket, p, n, MSG_NOSIGNAL | MSG_DONTWAIT) == ssize_t(n);
}

}  // namespace

parsed parse_challenge(std::span<const std::byte> in, challenge_message& m, uint32_t& version) {
    return parse_versioned(in, m, version);
}

parsed parse_hello(std::span<const std::byte> in, hello_message& m, uint32_t& version) {
    const parsed p = parse_versioned(in, m, version);
    if (p != parsed::good) return p;
    if (m.purpose < for_rendezvous || m.purpose > for_data) return parsed::garbage;
    if (m.from >= m.nranks || m.to >= m.nranks || m.nranks > (1u << 24) || m.index >= m.count)
        return parsed::garbage;
    return p;
}

parsed parse_verdict(std::span<const std::byte> in, verdict_message& m) {
    if (!begins(in, 0, handshake_magic)) return parsed::garbage;
    if (in.size() < sizeof(m)) return parsed::need_more;
    memcpy(&m, in.data(), sizeof(m));
    return m.code >= verdict_accepted && m.code <= verdict_other ? parsed::good : parsed::garbage;
}

void sign_hello(const secret& key, const challenge_message& c, hello_message& h) {
    mac_of(h.mac, key, c, h);
}

bool proves_key(const secret& key, const challenge_message& c, const hello_message& h) {
    unsigned char want[32];
    mac_of(want, key, c, h);
    return sodium_memcmp(want, h.mac, sizeof(want)) == 0;
}

void sign_verdict(const secret& key, const challenge_message& c, const hello_message& h,
                  verdict_message& v) {
    mac_of(v.mac, key, c, h, v);
}

bool proves_key(const secret& key, const challenge_message& c, const hello_message& h,
                const verdict_message& v) {
    unsigned char want[32];
    mac_of(want, key, c, h, v);
    return sodium_memcmp(want, v.mac, sizeof(want)) == 0;
}

inbound::inbound(fd socket) : socket_(std::move(socket)) {
    challenge_.magic = handshake_magic;
    challenge_.version = handshake_version;
    randombytes_buf(challenge_.nonce, sizeof(challenge_.nonce));
}

shake inbound::drop(std::string why) {
    why_ = std::move(why);
    return shake::dropped;
}

shake inbound::step(const secret& key, const judge& j) {
    if (!greeted_) {
        if (!put(socket_.get(), &challenge_, sizeof(challenge_))) return drop("gone at once");
        greeted_ = true;
    }
    const int full = fill(socket_.get(), in_, got_, sizeof(in_));
    uint32_t version = 0;
    switch (parse_hello({in_, got_}, hello_, version)) {
    case parsed::garbage:
        return drop("not a hello");
    case parsed::other_version:
        return drop(fmt::format("handshake version {}, this library speaks {}", version,
                                handshake_version));
    case parsed::need_more:
        return full < 0 ? drop("closed before its hello") : shake::pending;
    case parsed::good:
        break;
    }
    return decide(key, j);
}

shake inbound::decide(const secret& key, const judge& j) {
    verdict_message v;
    v.magic = handshake_magic;
    v.code = verdict_refused;
    if (!proves_key(key, challenge_, hello_)) {
        put(socket_.get(), &v, sizeof(v));
        why_ = "wrong key";
        return shake::refused;
    }
    const verdict_code code = j(hello_);
    v.code = code;
    sign_verdict(key, challenge_, hello_, v);
    if (!put(socket_.get(), &v, sizeof(v))) return drop("gone before the verdict");
    return code == verdict_accepted ? shake::done : drop("belongs to another group");
}

shake outbound::give_up(ef_status_t code, std::string why) {
    error_ = status(code, std::move(why));
    return shake::refused;
}

shake outbound::answer(int socket, const secret& key) {
    randombytes_buf(hello_.nonce, sizeof(hello_.nonce));
    hello_.magic = handshake_magic;
    hello_.version = handshake_version;
    sign_hello(key, challenge_, hello_);
    answered_ = true;
    got_ = 0;
    return put(socket, &hello_, sizeof(hello_)) ? shake::pending : shake::dropped;
}

shake outbound::step(int socket, const secret& key) {
    if (!answered_) {
        const int full = fill(socket, in_, got_, sizeof(challenge_message));
        uint32_t version = 0;
        switch (parse_challenge({in_, got_}, challenge_, version)) {
        case parsed::garbage:
            return give_up(EF_AUTH_FAILED, "what answers there is not a rank of eflops");
        case parsed::other_version:
            return give_up(EF_MISMATCH,
                           fmt::format("it speaks handshake version {}, this library {}", version,
                                       handshake_version));
        case parsed::need_more:
            return full < 0 ? shake::dropped : shake::pending;
        case parsed::good:
            break;
        }
        if (answer(socket, key) == shake::dropped) return shake::dropped;
    }
    const int full = fill(socket, in_, got_, sizeof(verdict_message));
    switch (parse_verdict({in_, got_}, verdict_)) {
    case parsed::garbage:
        return give_up(EF_AUTH_FAILED, "what answers there is not a rank of eflops");
    case parsed::need_more:
        return full < 0 ? shake::dropped : shake::pending;
    default:
        return judge_verdict(key);
    }
}

shake outbound::judge_verdict(const secret& key) {
    if (verdict_.code == verdict_refused)
        return give_up(EF_AUTH_FAILED, "it refused this rank's key: the job's key differs");
    if (!proves_key(key, challenge_, hello_, verdict_))
        return give_up(EF_AUTH_FAILED, "it does not hold the job's key");
    return verdict_.code == verdict_accepted ? shake::done : shake::dropped;
}

}  // namespace ef
