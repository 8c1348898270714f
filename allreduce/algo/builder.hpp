// plan_builder: what algorithms are written with. It knows in which buffer each block's current
// value lies, so that an algorithm says "send block b" and not from where:
//
//   in  --first reduction-->  out (tmp, for a block that is not this rank's in a reduce_scatter)
//
// A team is the ranks and the blocks that a phase works on. An algorithm that is a phase of another
// (hierarchical) sees its own ranks 0 .. size-1 and its own parts of the vector.
#pragma once

#include "allreduce/plan.hpp"

#include <span>
#include <vector>

namespace ef::algo {

struct team {
    rank_t me = 0;
    rank_t size = 1;
    std::span<const rank_t> members;  // rank of the communicator by rank of the team; empty: same
    block_range blocks;
    bool completes = true;  // the last reduction of this phase is the last of all
    // Part i is the block of member i's rank, and not the i-th: where the caller fixes the order.
    bool by_rank = false;

    rank_t global(rank_t v) const noexcept { return members.empty() ? v : members[size_t(v)]; }

    /// Parts first .. first+count-1 when the team's blocks are cut into `of` equal parts.
    block_range parts(uint32_t first, uint32_t count, uint32_t of) const noexcept {
        const uint32_t each = blocks.count / of;
        return {blocks.first + first * each, count * each};
    }
    block_range part(rank_t i) const noexcept {
        return parts(uint32_t(by_rank ? global(i) : i), 1, uint32_t(size));
    }
    /// v + d modulo the size, for |d| <= size.
    rank_t shift(rank_t v, rank_t d) const noexcept { return (v + d + size) % size; }
};

/// In which buffer each block's value lies: runs of blocks, so that it costs what the moves cost and
/// not what the vector has blocks.
class block_places {
public:
    block_places(uint32_t nblocks, buffer at) : nblocks_(nblocks), runs_{{0, at}} {}

    buffer at(uint32_t block) const noexcept { return runs_[run_of(block)].at; }
    /// The blocks from `block` on that lie in the same buffer, up to `end` (not included).
    block_range run(uint32_t block, uint32_t end) const noexcept;
    void set(block_range b, buffer at);

private:
    struct piece {
        uint32_t begin;
        buffer at;
    };
    size_t run_of(uint32_t block) const noexcept;
    void cut(uint32_t block);

    uint32_t nblocks_;
    std::vector<piece> runs_;  // by begin; neighbours differ in `at`
};

class plan_builder {
public:
    plan_builder(const plan_request& r, uint32_t nblocks);

    /// All ranks, all blocks.
    team everyone() const noexcept;
    bool in_place() const noexcept { return in_place_; }

    void next_round() noexcept { ++round_; }
    uint32_t round() const noexcept { return round_; }
    /// Moves that follow belong to this round; finish() sorts.
    void set_round(uint32_t r) noexcept { round_ = r; }
    /// The second half of the plan begins in round `r`. Called by every rank; the last call counts.
    void turn_at(uint32_t r) noexcept { plan_.turn = r; }
    void set_eager() noexcept { plan_.eager = true; }
    void set_sync(sync_policy s) noexcept { plan_.sync = s; }

    /// The buffer that holds the current value of these blocks (of the first of them; algorithms
    /// move blocks together).
    buffer where(block_range b) const noexcept { return where_.at(b.first); }

    // All peers are ranks of the communicator.
    void send(rank_t to, block_range b) { send_from(to, where(b), b); }
    void send_from(rank_t to, buffer src, block_range b);
    void recv(rank_t from, block_range b);  // into out
    /// value = value (+) message, where partial values belong.
    void recv_reduce(rank_t from, block_range b, bool last) {
        recv_reduce_into(accumulator(b), from, b, last, false);
    }
    void recv_reduce_into(buffer dst, rank_t from, block_range b, bool last, bool message_first);
    void copy(buffer dst, buffer src, block_range b);
    void reduce(buffer dst, buffer src, block_range b, bool last);
    /// Bring the value to out unless it is there (or in place).
    void settle(block_range b);

    /// Settle what the collective owes this rank, order moves by round, count rounds.
    plan finish();

private:
    buffer accumulator(block_range b) const noexcept;
    bool owns(block_range b) const noexcept;
    void add(move m);

    plan plan_;
    rank_t root_ = 0;
    bool in_place_ = false;
    uint32_t round_ = 0;
    uint32_t rounds_with_peers_ = 0;
    block_places where_;
};

}  // namespace ef::algo
