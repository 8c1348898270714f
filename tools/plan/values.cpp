#include "tools/plan/values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace ef::planning {
namespace {

constexpr uint64_t most_moves = 6'000'000;         // of all ranks, kept at a time
constexpr uint64_t most_steps = 10'000'000;        // moves, each once per slice
constexpr uint64_t most_memory_words = 4'000'000;  // of all ranks' buffers

uint64_t mix(uint64_t z) {  // splitmix64 [Steele, Lea, Flood 2014]
    z += 0x9e37'79b9'7f4a'7c15;
    z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
    z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
    return z ^ (z >> 31);
}

/// What rank r contributes to block b; `salt` tells contributions from what was in memory before.
uint64_t contribution(rank_t r, uint32_t b, uint64_t salt = 1) {
    return mix(mix(uint64_t(r) + (salt << 40)) ^ b);
}

// Blocks do not mix, so a slice of them is run at a time, in bounded memory.
class runner {
public:
    runner(const plan_request& like, std::vector<plan> plans)
        : like_(like), plans_(std::move(plans)), n_(plans_[0].nblocks) {}

    numbers_run run() {
        const uint64_t per_block = 3 * plans_.size();
        const uint32_t slice = uint32_t(std::clamp<uint64_t>(most_memory_words / per_block, 1, n_));
        uint64_t moves = 1;
        for (const plan& p : plans_) moves += p.moves.size();
        const uint32_t wanted = (n_ + slice - 1) / slice;
        const uint32_t runs =
            uint32_t(std::min<uint64_t>(wanted, std::max<uint64_t>(most_steps / moves, 1)));
        numbers_run out{{}, 0, n_};
        for (uint32_t i = 0; i < runs && out.outcome.ok(); ++i) {
            // All slices one after another, or some from the first block to the last.
            first_ = runs == wanted ? i * slice
                                    : uint32_t(uint64_t(n_ - slice) * i / std::max(runs - 1, 1u));
            width_ = std::min(slice, n_ - first_);
            out.blocks += width_;
            prepare();
            out.outcome = execute();
            if (out.outcome.ok()) out.outcome = compare();
        }
        return out;
    }

private:
    bool owns(rank_t r, uint32_t block) const {
        return block / std::max(1u, n_ / uint32_t(like_.nranks)) == uint32_t(r);
    }
    bool given(rank_t r, uint32_t block) const {
        if (like_.coll == EF_ALLGATHER) return owns(r, block);
        return like_.coll != EF_BROADCAST || r == like_.root;
    }

    uint64_t& at(rank_t r, buffer b, uint32_t block) {
        return memory_[(size_t(r) * 3 + size_t(b)) * width_ + (block - first_)];
    }

    void prepare() {
        memory_.resize(plans_.size() * 3 * width_);
        for (rank_t r = 0; r < like_.nranks; ++r)
            for (uint32_t b = first_; b < first_ + width_; ++b) {
                at(r, buffer::in, b) = given(r, b) ? contribution(r, b) : contribution(r, b, 2);
                at(r, buffer::out, b) = contribution(r, b, 3);
                at(r, buffer::tmp, b) = contribution(r, b, 4);
            }
        next_.assign(plans_.size(), 0);
        mail_.clear();
    }

    static uint64_t pair(rank_t from, rank_t to) { return uint64_t(from) << 32 | uint32_t(to); }

    /// Each rank runs until it lacks a message; a message wakes who lacks it.
    status execute() {
        std::vector<rank_t> ready(plans_.size());
        for (size_t r = 0; r < ready.size(); ++r) ready[r] = rank_t(r);
        std::vector<rank_t> lacks(plans_.size(), -1);  // from whom
        while (!ready.empty()) {
            const rank_t r = ready.back();
            ready.pop_back();
            lacks[size_t(r)] = -1;
            const std::vector<move>& moves = plans_[size_t(r)].moves;
            for (size_t& i = next_[size_t(r)]; i < moves.size(); ++i) {
                const move& m = moves[i];
                if (m.kind == move_kind::send) {
                    send(r, m);
                    if (lacks[size_t(m.peer)] == r) {
                        lacks[size_t(m.peer)] = -1;
                        ready.push_back(m.peer);
                    }
                } else if (m.peer >= 0) {
                    const auto box = mail_.find(pair(m.peer, r));
                    if (box == mail_.end()) {
                        lacks[size_t(r)] = m.peer;
                        break;
                    }
                    const message& first = box->second.front();
                    if (first.what.first != m.what.first || first.what.count != m.what.count)
                        return wrong(r, m, "the message has other blocks");
                    receive(r, m, first);
                    box->second.erase(box->second.begin());  // there are few
                    if (box->second.empty()) mail_.erase(box);
                } else {
                    local(r, m);
                }
            }
        }
        for (rank_t r = 0; r < like_.nranks; ++r)
            if (const auto& moves = plans_[size_t(r)].moves; next_[size_t(r)] < moves.size())
                return wrong(r, moves[next_[size_t(r)]], "deadlock: the message never comes");
        return {};
    }

    status wrong(rank_t r, const move& m, const char* why) const {
        return status(EF_INVALID,
                      fmt::format("rank {}: round {}: blocks {}..{} of rank {}: {}", r, m.round,
                                  m.what.first, m.what.end() - 1, m.peer, why));
    }

    struct message {
        block_range what;
        std::vector<uint64_t> values;  // of those in the slice
    };

    /// The part of a move's blocks that is in the slice.
    std::pair<uint32_t, uint32_t> cut(const move& m) const {
        const uint32_t from = std::max(m.what.first, first_);
        const uint32_t to = std::min(m.what.end(), first_ + width_);
        return {from, std::max(from, to)};
    }

    void send(rank_t r, const move& m) {
        const auto [from, to] = cut(m);
        message out{m.what, {}};
        if (from < to) {
            const uint64_t* p = &at(r, m.src, from);
            out.values.assign(p, p + (to - from));
        }
        mail_[pair(r, m.peer)].push_back(std::move(out));
    }

    void receive(rank_t r, const move& m, const message& in) {
        const auto [from, to] = cut(m);
        for (uint32_t b = from; b < to; ++b) {
            const uint64_t got = in.values[b - from];
            at(r, m.dst, b) = m.kind == move_kind::recv ? got : got + at(r, m.src, b);
        }
    }

    void local(rank_t r, const move& m) {
        const auto [from, to] = cut(m);
        for (uint32_t b = from; b < to; ++b) {
            const uint64_t v = at(r, m.src, b);
            at(r, m.dst, b) = m.kind == move_kind::copy ? v : v + at(r, m.dst, b);
        }
    }

    status compare() {
        for (uint32_t b = first_; b < first_ + width_; ++b) {
            uint64_t want = 0;
            for (rank_t r = 0; r < like_.nranks; ++r)
                if (given(r, b)) want += contribution(r, b);
            for (rank_t r = 0; r < like_.nranks; ++r) {
                if (like_.coll == EF_REDUCE_SCATTER && !owns(r, b)) continue;
                if (at(r, buffer::out, b) != want)
                    return status(
                        EF_INVALID,
                        fmt::format("rank {}: block {} is not what the ranks gave", r, b));
            }
        }
        return {};
    }

    const plan_request& like_;
    const std::vector<plan> plans_;
    const uint32_t n_;
    uint32_t first_ = 0, width_ = 0;
    std::vector<uint64_t> memory_;
    std::vector<size_t> next_;                                 // move, by rank
    std::unordered_map<uint64_t, std::vector<message>> mail_;  // by pair; what was not taken yet
};

}  // namespace

numbers_run check_numbers(const plan_request& like, const std::function<plan(rank_t)>& build) {
    std::vector<plan> plans;
    uint64_t moves = 0;
    for (rank_t r = 0; r < like.nranks; ++r) {
        plans.push_back(build(r));
        moves += plans.back().moves.size();
        if (moves > most_moves)
            return {status(EF_UNSUPPORTED,
                           fmt::format("{} ranks are too many for a run on numbers", like.nranks)),
                    0, plans[0].nblocks};
    }
    for (const plan& p : plans)
        if (p.nblocks != plans[0].nblocks)
            return {status(EF_INVALID, fmt::format("rank {} cuts into {} blocks, rank 0 into {}",
                                                   p.rank, p.nblocks, plans[0].nblocks)),
                    0, plans[0].nblocks};
    return runner(like, std::move(plans)).run();
}

}  // namespace ef::planning
