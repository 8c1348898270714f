#include "allreduce/p2p.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ef {
namespace {

// Long enough that a socket is kept busy by one system call, short enough for several connections
// to share a message.
constexpr uint64_t chunk_bytes = 1 << 20;

void finish(request_queue& q, std::vector<request*>& finished) {
    finished.push_back(q.pop());
    finished.back()->finished = true;
}

}  // namespace

p2p::p2p(rank_t rank, rank_t nranks, std::vector<channel*>& channels)
    : rank_(rank), channels_(channels), queues_(size_t(nranks)) {
    active_.reserve(size_t(nranks));
}

void p2p::start(request* r) {
    peer_queue& q = queues_[size_t(r->site.root_or_peer)];
    (r->sending ? q.sends : q.receives).push(r);
    if (q.listed) return;
    q.listed = true;
    active_.push_back(r->site.root_or_peer);
}

bool p2p::advance(std::vector<request*>& finished) {
    bool moved = false;
    for (size_t i = 0; i < active_.size();) {
        const rank_t peer = active_[i];
        peer_queue& q = queues_[size_t(peer)];
        if (peer == rank_) {
            moved |= advance_self(q, finished);
        } else if (channel* c = channels_[size_t(peer)]) {
            if (!q.sends.empty()) moved |= advance_send(*c, q, finished);
            if (!q.receives.empty()) moved |= advance_receive(peer, *c, q, finished);
            moved |= c->progress();
        }
        if (q.sends.empty() && q.receives.empty()) {
            q.listed = false;
            active_[i] = active_.back();
            active_.pop_back();
        } else {
            ++i;
        }
    }
    return moved;
}

bool p2p::advance_send(channel& c, peer_queue& q, std::vector<request*>& finished) {
    bool moved = false;
    request* r = q.sends.front();
    while (!r->started || r->done < r->bytes) {
        const uint64_t n = std::min({r->bytes - r->done, chunk_bytes, uint64_t(c.max_message())});
        if (!c.send(r->bytes, r->buffer + r->done, n, ownership::borrow)) return moved;
        r->started = true;
        r->done += n;
        r->ticket = c.sent();
        moved = true;
    }
    if (c.completed() < r->ticket) return moved;
    finish(q.sends, finished);
    return true;
}

bool p2p::advance_receive(rank_t peer, channel& c, peer_queue& q, std::vector<request*>& finished) {
    bool moved = false;
    request* r = q.receives.front();
    message m;
    while (c.peek(m)) {
        if (!fits(*r, m.tag, peer)) return moved;
        if (m.bytes > r->bytes - r->done) {
            error_ =
                status(EF_MISMATCH, fmt::format("rank {}: a message of {} bytes where {} are left",
                                                peer, m.bytes, r->bytes - r->done));
            return moved;
        }
        if (m.view) {
            memcpy(r->buffer + r->done, m.view, m.bytes);
        } else if (const uint64_t there = c.fetch(r->buffer + r->done); there < m.bytes) {
            return std::exchange(r->fetched, there) < there || moved;
        }
        r->fetched = 0;
        c.release();
        r->done += m.bytes;
        moved = true;
        if (r->done == r->bytes) {
            finish(q.receives, finished);
            return true;
        }
    }
    return moved;
}

bool p2p::advance_self(peer_queue& q, std::vector<request*>& finished) {
    if (q.sends.empty() || q.receives.empty()) return false;
    const request& s = *q.sends.front();
    if (!fits(*q.receives.front(), s.bytes, rank_)) return false;
    if (s.bytes) memmove(q.receives.front()->buffer, s.buffer, s.bytes);
    finish(q.sends, finished);
    finish(q.receives, finished);
    return true;
}

bool p2p::fits(const request& r, uint64_t announced, rank_t peer) noexcept {
    if (announced == r.bytes) return true;
    if (error_.ok())
        error_ = status(EF_MISMATCH,
                        fmt::format("rank {} sends {} bytes where {} bytes are to be received",
                                    peer, announced, r.bytes));
    return false;
}

std::vector<request*> p2p::abandon() {
    std::vector<request*> all;
    for (peer_queue& q : queues_) {
        while (!q.sends.empty()) all.push_back(q.sends.pop());
        while (!q.receives.empty()) all.push_back(q.receives.pop());
        q.listed = false;
    }
    active_.clear();
    return all;
}

std::vector<const request*> p2p::pending() const {
    std::vector<const request*> heads;
    for (rank_t peer : active_) {
        const peer_queue& q = queues_[size_t(peer)];
        if (!q.sends.empty()) heads.push_back(q.sends.front());
        if (!q.receives.empty()) heads.push_back(q.receives.front());
    }
    return heads;
}

}  // namespace ef
