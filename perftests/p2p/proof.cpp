// --verify: messages whose every byte is known to both ends.
#include "perftests/p2p/traffic.hpp"

#include <algorithm>
#include <cstring>

namespace ef::perf::p2p {
namespace {

uint64_t mix(uint64_t x) noexcept {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

}  // namespace

uint64_t proof::word(size_t lane_at, size_t slot, size_t i) const noexcept {
    return mix(salt_ * 0x9e3779b97f4a7c15u + (uint64_t(lane_at) << 48) + (uint64_t(slot) << 32) +
               i);
}

void proof::fill_slot(std::byte* p, size_t lane_at, size_t slot) const noexcept {
    for (size_t i = 0; i < bytes_; i += 8) {
        const uint64_t w = word(lane_at, slot, i / 8);
        memcpy(p + i, &w, std::min<size_t>(8, bytes_ - i));
    }
}

uint64_t proof::wrong_in_slot(const std::byte* p, size_t lane_at, size_t slot) const noexcept {
    uint64_t wrong = 0;
    for (size_t i = 0; i < bytes_; i += 8) {
        const uint64_t w = word(lane_at, slot, i / 8);
        std::byte want[8];
        memcpy(want, &w, 8);
        for (size_t k = 0; k < std::min<size_t>(8, bytes_ - i); ++k) wrong += p[i + k] != want[k];
    }
    return wrong;
}

uint64_t proof::atomic_start() const noexcept { return mix(salt_ + 77); }

// What arrives is poisoned first: a message that never comes is found too.
void proof::fill(bool client) {
    const bool reads = s_.what().op == EF_WORK_READ;
    const bool atomic = s_.what().what == kind::atomic_lat;
    for (size_t q = 0; q < s_.lanes().size(); ++q) {
        lane& l = *s_.lanes()[q];
        if (atomic && !client) {
            const uint64_t start = atomic_start();
            memcpy(l.incoming(0), &start, 8);
        }
        for (size_t i = 0; i < l.slots() && !atomic; ++i) {
            std::byte* source = reads ? l.incoming(i) : l.outgoing(i);
            std::byte* landing = reads ? l.outgoing(i) : l.incoming(i);
            fill_slot(source, q, i);
            for (size_t k = 0; k < bytes_; k += 4096)
                memset(landing + k, 0xa5, std::min<size_t>(4096, bytes_ - k));
        }
    }
}

void proof::move() {
    if (s_.what().what == kind::atomic_lat) return move_atomics();
    patience until(s_, "messages of --verify");
    for (const auto& l : s_.lanes())
        for (size_t left = l->slots(); left > 0 || l->completed() < l->posted();) {
            const uint64_t n = std::min<uint64_t>(left, l->room());
            if (n > 0) l->post(n, true);
            left -= n;
            until.spend(s_.poll(nullptr));
        }
}

// Each addition must return the sum of those before it, and a swap the last sum.
void proof::move_atomics() {
    patience until(s_, "atomics of --verify");
    for (const auto& l : s_.lanes()) {
        uint64_t expected = atomic_start();
        for (uint64_t k = 1; k <= l->slots() + 1; ++k) {
            const uint64_t at = l->posted();
            if (k <= l->slots()) l->post(1, true, k);
            else l->compare_swap(expected, ~atomic_start());
            while (l->completed() < l->posted()) until.spend(s_.poll(nullptr));
            uint64_t old = 0;
            memcpy(&old, l->outgoing(at), 8);
            wrong_ += old == expected ? 0 : 8;
            expected += k;
        }
    }
}

uint64_t proof::count_wrong(bool client) {
    const bool reads = s_.what().op == EF_WORK_READ;
    const traffic_options& t = s_.options().traffic;
    const bool both = t.bidirectional || s_.what().ping_pong;
    if (s_.what().what == kind::atomic_lat) {
        for (const auto& l : s_.lanes()) {
            uint64_t now = 0;
            memcpy(&now, l->incoming(0), 8);
            if (!client && now != ~atomic_start()) wrong_ += 8;
        }
        return wrong_;
    }
    if (!both && client != reads) return 0;  // nothing has come to this end
    for (size_t q = 0; q < s_.lanes().size(); ++q) {
        lane& l = *s_.lanes()[q];
        for (size_t i = 0; i < l.slots(); ++i)
            wrong_ += wrong_in_slot(reads ? l.outgoing(i) : l.incoming(i), q, i);
    }
    return wrong_;
}

}  // namespace ef::perf::p2p
