#include "allreduce/exec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ef {

void exec::start(const exec_call& c) {
    const program& p = *c.prog;
    call_ = c;
    error_ = {};
    if (p.tmp_bytes > tmp_bytes_) {
        tmp_.reset(new std::byte[p.tmp_bytes]);
        tmp_bytes_ = p.tmp_bytes;
    }
    // Addresses before the first byte of a buffer are never used: a step's offset is at or after
    // the origin.
    base_[size_t(buffer::in)] = const_cast<std::byte*>(c.in) - p.in_origin;
    base_[size_t(buffer::out)] = c.out - p.out_origin;
    base_[size_t(buffer::tmp)] = tmp_.get();
    states_.assign(p.steps.size(), {});
    lanes_.resize(p.lanes.size());
    for (size_t i = 0; i < p.lanes.size(); ++i)
        lanes_[i] = {channels_[size_t(p.lanes[i].peer)], 0, 0, !p.lanes[i].sends.empty(), 0};
    local_at_ = 0;
    remaining_ = uint32_t(p.steps.size());
    draining_ = uint32_t(std::count_if(lanes_.begin(), lanes_.end(),
                                       [](const lane_state& l) { return l.draining; }));
}

std::byte* exec::address(buffer b, uint64_t at) const noexcept { return base_[size_t(b)] + at; }

bool exec::advance() noexcept {
    bool moved = false;
    const program& p = *call_.prog;
    if (local_at_ < p.locals.size()) moved |= advance_local();
    for (size_t i = 0; i < lanes_.size(); ++i) {
        lane_state& l = lanes_[i];
        const lane& q = p.lanes[i];
        if (!l.link) {
            l.link = channels_[size_t(q.peer)];
            if (!l.link) continue;
        }
        if (l.send_at < q.sends.size()) moved |= advance_send(l, q);
        if (l.receive_at < q.receives.size()) moved |= advance_receive(l, q);
        if (l.draining && l.send_at == q.sends.size() && l.link->completed() == l.link->sent()) {
            l.draining = false;
            --draining_;
            moved = true;
        }
    }
    if (!moved)
        for (lane_state& l : lanes_)
            if (l.link) moved |= l.link->progress();
    return moved;
}

// ---------------------------------------------------------------- order

uint64_t exec::finished_bytes(const step& s, const step_state& st) const noexcept {
    if (s.kind != move_kind::send) return st.done;
    if (st.done == 0) return 0;
    // Its messages are one chunk each, but for the last.
    channel* link = lanes_[s.lane].link;
    const uint64_t completed = link->completed();
    if (completed < st.first_ticket) return 0;
    const uint64_t unit = std::min<uint64_t>(
        call_.chunk_bytes, call_.prog->eager ? link->max_copy() : link->max_message());
    return std::min(st.done, (completed - st.first_ticket + 1) * unit);
}

// How many of `want` bytes from `from` on may step `s` work on now.
uint64_t exec::allowed(const step& s, uint64_t from, uint64_t want) const noexcept {
    const program& p = *call_.prog;
    for (uint32_t d = 0; d < s.dependencies; ++d) {
        const dependency& dep = p.dependencies[s.first_dependency + d];
        const step& y = p.steps[dep.step];
        const uint64_t finished = finished_bytes(y, states_[dep.step]);
        if (finished == y.bytes) continue;
        const int64_t end = int64_t(finished) - dep.shift;
        if (end <= int64_t(from)) return 0;
        want = std::min(want, uint64_t(end) - from);
    }
    return want;
}

// ---------------------------------------------------------------- steps

bool exec::advance_send(lane_state& l, const lane& q) noexcept {
    static constexpr std::byte token[token_bytes] = {};
    bool moved = false;
    const bool eager = call_.prog->eager;
    const uint64_t unit =
        std::min<uint64_t>(call_.chunk_bytes, eager ? l.link->max_copy() : l.link->max_message());
    while (l.send_at < q.sends.size()) {
        const uint32_t index = q.sends[l.send_at];
        const step& s = call_.prog->steps[index];
        step_state& st = states_[index];
        const uint64_t n = std::min(unit, s.bytes - st.done);
        // Whole chunks only: then their tickets tell how far the peer has come.
        if (s.dependencies && allowed(s, st.done, n) < n) return moved;
        const std::byte* data = s.token ? token : address(s.src, s.at) + st.done;
        if (!l.link->send(call_.tag, data, n,
                          eager || s.token ? ownership::copy : ownership::borrow))
            return moved;
        moved = true;
        if (st.done == 0) st.first_ticket = l.link->sent();
        st.done += n;
        if (st.done < s.bytes) continue;
        ++l.send_at;
        --remaining_;
    }
    return moved;
}

// One message at a time: what it completes is sent on before the next one takes its place in the
// cache.
bool exec::advance_receive(lane_state& l, const lane& q) noexcept {
    message m;
    if (!l.link->peek(m)) return false;
    const uint32_t index = q.receives[l.receive_at];
    const step& s = call_.prog->steps[index];
    step_state& st = states_[index];
    if (m.tag != call_.tag || m.bytes > s.bytes - st.done || m.bytes == 0 ||
        m.bytes > call_.chunk_bytes || m.bytes % call_.element_bytes) {
        refuse(q, s, st, m);
        return false;
    }
    if (s.dependencies && allowed(s, st.done, m.bytes) < m.bytes) return false;
    const uint64_t there = consume(l, s, st.done, m);
    if (there < m.bytes) return std::exchange(l.fetched, there) < there;
    l.fetched = 0;
    l.link->release();
    st.done += m.bytes;
    if (st.done == s.bytes) {
        ++l.receive_at;
        --remaining_;
    }
    return true;
}

// The message at the head into its place. How many of its bytes are there; it is done with when all
// are.
uint64_t exec::consume(lane_state& l, const step& s, uint64_t from, const message& m) noexcept {
    if (s.token) return m.view ? m.bytes : l.link->fetch(token_sink_);
    if (s.kind == move_kind::recv) {
        std::byte* dst = address(s.dst, s.at) + from;
        if (!m.view) return l.link->fetch(dst);
        memcpy(dst, m.view, m.bytes);
        return m.bytes;
    }
    if (!m.view) return fetch_and_reduce(l, s, from);
    combine(s, from, m.view, m.bytes);
    return m.bytes;
}

// Reduce what has come while the rest is on its way.
uint64_t exec::fetch_and_reduce(lane_state& l, const step& s, uint64_t from) noexcept {
    std::byte* const landing = scratch(l);
    if (!landing) return 0;
    const uint64_t there = l.link->fetch(landing);
    const uint64_t begin = l.fetched - l.fetched % call_.element_bytes,
                   end = there - there % call_.element_bytes;
    if (end > begin) combine(s, from + begin, landing + begin, end - begin);
    return there;
}

void exec::combine(const step& s, uint64_t from, const std::byte* msg, uint64_t bytes) noexcept {
    std::byte* dst = address(s.dst, s.at) + from;
    const std::byte* own = address(s.src, s.at) + from;
    const size_t n = bytes / call_.element_bytes;
    if (s.message_first) call_.reduce(dst, msg, own, n);
    else call_.reduce(dst, own, msg, n);
    if (s.last && call_.average) call_.average(dst, n, call_.nranks);
}

bool exec::advance_local() noexcept {
    const program& p = *call_.prog;
    const uint32_t index = p.locals[local_at_];
    const step& s = p.steps[index];
    step_state& st = states_[index];
    const uint64_t n = std::min(call_.chunk_bytes, s.bytes - st.done);
    if (s.dependencies && allowed(s, st.done, n) < n) return false;
    std::byte* dst = address(s.dst, s.at) + st.done;
    const std::byte* src = address(s.src, s.at) + st.done;
    if (s.kind == move_kind::copy) {
        memcpy(dst, src, n);
    } else {
        call_.reduce(dst, dst, src, n / call_.element_bytes);
        if (s.last && call_.average) call_.average(dst, n / call_.element_bytes, call_.nranks);
    }
    st.done += n;
    if (st.done == s.bytes) {
        ++local_at_;
        --remaining_;
    }
    return true;
}

// One landing place per lane, each as long as the longest message that a chunk can make.
std::byte* exec::scratch(const lane_state& l) noexcept {
    const uint64_t each = (call_.chunk_bytes + 63) / 64 * 64;
    if (each * lanes_.size() > scratch_bytes_) {
        std::byte* p = new (std::nothrow) std::byte[each * lanes_.size()];
        if (!p) {
            error_ = status(EF_NO_MEMORY,
                            fmt::format("{} bytes of receive scratch", each * lanes_.size()));
            return nullptr;
        }
        scratch_.reset(p);
        scratch_bytes_ = each * lanes_.size();
    }
    return scratch_.get() + each * size_t(&l - lanes_.data());
}

// ---------------------------------------------------------------- reports

// Other ranks repeat these sentences, so they name both ends.
void exec::refuse(const lane& q, const step& s, const step_state& st, const message& m) noexcept {
    const uint64_t theirs = m.tag >> 32, ours = call_.tag >> 32;
    if (m.tag != call_.tag)
        error_ = status(EF_MISMATCH,
                        fmt::format("rank {} is at operation #{}{}, rank {} at #{}: the ranks' "
                                    "calls differ",
                                    q.peer, theirs, theirs == ours ? " with other arguments" : "",
                                    call_.rank, ours));
    else
        error_ = status(EF_MISMATCH,
                        fmt::format("round {}: rank {} sent {} bytes to rank {} where {} were "
                                    "expected",
                                    s.round, q.peer, m.bytes, call_.rank, s.bytes - st.done));
}

std::vector<exec::waiting> exec::waiting_for() const {
    std::vector<waiting> out;
    const program& p = *call_.prog;
    for (size_t i = 0; i < lanes_.size(); ++i) {
        const lane& q = p.lanes[i];
        const lane_state& l = lanes_[i];
        if (l.receive_at < q.receives.size()) {
            const uint32_t x = q.receives[l.receive_at];
            out.push_back({q.peer, false, &p.steps[x], states_[x].done});
        }
        if (l.send_at < q.sends.size()) {
            const uint32_t x = q.sends[l.send_at];
            out.push_back({q.peer, true, &p.steps[x], states_[x].done});
        } else if (l.draining) {
            const uint32_t x = q.sends.back();
            out.push_back({q.peer, true, &p.steps[x], finished_bytes(p.steps[x], states_[x])});
        }
    }
    return out;
}

}  // namespace ef
