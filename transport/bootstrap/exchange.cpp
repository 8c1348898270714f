// Allgather over the control connections [Bruck et al. 1997]: in round k a rank hands its newest
// min(2^k, P - 2^k) blocks to r + 2^k, so that after ceil(log2 P) rounds everybody has all of them,
// for any P.
#include "transport/bootstrap/group_impl.hpp"

#include <fmt/core.h>

namespace ef {

status group_impl::await_blocks(rank_t from, uint32_t serial, uint16_t round, deadline d,
                                frame& f) {
    neighbour& n = neighbours_[from];
    while (n.inbox.empty()) {
        if (!failure_.ok()) return failure_;
        // A goodbye that came through other ranks may have overtaken its blocks.
        if (n.left || (gone(from) && n.line && n.line->broken()))
            return status(EF_PEER_LOST, name(from).text() + " has left the communicator");
        if (d.passed())
            return status(EF_TIMEOUT, fmt::format("waited {} ms for {} in round {} of an exchange",
                                                  config_.timeout_ms, name(from).text(), round));
        look(d.left_ms(20));
    }
    f = std::move(n.inbox.front());
    n.inbox.pop_front();
    if (f.serial == serial && f.round == round) return {};
    return status(EF_MISMATCH,
                  fmt::format("{} is at round {} of its exchange {}, this rank at round {} of {}",
                              name(from).text(), f.round, f.serial, round, serial));
}

status group_impl::flush(deadline d) {
    for (;;) {
        bool all = true;
        for (auto& [r, n] : neighbours_) all &= !n.line || n.line->broken() || n.line->flushed();
        if (all) return {};
        if (!failure_.ok()) return failure_;
        if (d.passed())
            return status(EF_TIMEOUT, fmt::format("an exchange's last messages were not taken "
                                                  "within {} ms",
                                                  config_.timeout_ms));
        look(d.left_ms(20));
    }
}

result<std::vector<bytes>> group_impl::allgather(std::span<const std::byte> mine, deadline d) {
    std::vector<bytes> all(static_cast<size_t>(nranks_));
    all[size_t(rank_)].assign(mine.begin(), mine.end());
    const uint32_t serial = ++serial_;
    uint16_t round = 0;
    for (rank_t dist = 1; dist < nranks_; dist *= 2, ++round) {
        const rank_t count = std::min(dist, nranks_ - dist);
        const rank_t to = (rank_ + dist) % nranks_, from = (rank_ - dist + nranks_) % nranks_;
        writer w;
        w.put(uint32_t(count));
        for (rank_t i = 0; i < count; ++i) {
            const rank_t r = (rank_ - i + nranks_) % nranks_;
            w.put(uint32_t(r)).block(all[size_t(r)]);
        }
        const bytes payload = w.take();
        if (payload.size() > max_frame_bytes)
            return status(EF_INVALID, fmt::format("an exchange of {} bytes is over the limit of {}",
                                                  payload.size(), max_frame_bytes));
        if (connection* c = neighbours_[to].line.get())
            c->send(frame_blocks, payload, serial, round);
        frame f;
        if (status s = await_blocks(from, serial, round, d, f); !s.ok()) return s;
        std::vector<block_of> got;
        if (!parse_blocks(f.payload, nranks_, got) || got.size() != size_t(count))
            return status(EF_MISMATCH,
                          name(from).text() + " sent an exchange message that cannot be read");
        for (const block_of& b : got) all[size_t(b.rank)].assign(b.data.begin(), b.data.end());
    }
    if (status s = flush(d); !s.ok()) return s;
    return all;
}

result<std::vector<std::byte>> group_impl::exchange(std::span<const std::byte> mine) {
    result<std::vector<bytes>> all = allgather(mine, patience());
    if (!all.ok()) return all.why();
    std::vector<std::byte> out;
    out.reserve(mine.size() * size_t(nranks_));
    for (rank_t r = 0; r < nranks_; ++r) {
        const bytes& b = (*all)[size_t(r)];
        if (b.size() != mine.size())
            return status(EF_MISMATCH, fmt::format("{} exchanges {} bytes, this rank {}",
                                                   name(r).text(), b.size(), mine.size()));
        out.insert(out.end(), b.begin(), b.end());
    }
    return out;
}

status group_impl::check_transport() const {
    if (config_.transport != "shm") return {};
    for (rank_t r = 0; r < nranks_; ++r)
        if (info(r).host_id != info(rank_).host_id)
            return status(EF_INVALID,
                          fmt::format("EFLOPS_TRANSPORT=shm, but {} does not share memory with {}",
                                      name(r).text(), name(rank_).text()));
    return {};
}

status group_impl::learn_infos(deadline d) {
    result<std::vector<bytes>> all = allgather(write_peer_info(infos_[size_t(rank_)]), d);
    if (!all.ok()) return all.why();
    for (rank_t r = 0; r < nranks_; ++r)
        if (!parse_peer_info((*all)[size_t(r)], infos_[size_t(r)]))
            return status(EF_MISMATCH, fmt::format("rank {} describes itself in a way that cannot "
                                                   "be read",
                                                   r));
    return check_transport();
}

}  // namespace ef
