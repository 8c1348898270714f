// plan: one rank's part of a schedule. It is data: the engine runs it on bytes, the proof runs it
// on sets of contributions, the cost model prices it. There is no second description of an
// algorithm anywhere.
//
// The vector is cut into `nblocks` blocks. A rank has three buffers: `in` (the caller's send
// buffer, read only), `out` (the caller's receive buffer) and `tmp` (scratch). in and tmp span all
// blocks; out does too, except that
//   reduce_scatter: out holds only block `rank`;    allgather: in holds only block `rank`.
// In place, in and out are the same memory (there, the same block addresses).
//
// Moves are listed in the order of their rounds. Meaning, for the engine and the proof alike:
//   - Per pair of ranks and direction, messages meet in order: the i-th send of a to b is the i-th
//   receive of b from a, and
//     both name the same blocks.
//   - Two moves of one rank that touch the same block of the same buffer, at least one of them
//   writing, happen in list
//     order, block by block (a send reads; a borrowed send has read when the peer has consumed it).
//     All else may overlap. So a later round starts on the first chunks while an earlier one still
//     works on the last: pipelining needs no word in the plan.
#pragma once

#include <eflops/allreduce.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ef {

using rank_t = int32_t;

enum class buffer : uint8_t { in, out, tmp };

enum class move_kind : uint8_t {
    send,         // src -> peer
    recv,         // dst = message
    recv_reduce,  // dst = src (+) message, or message (+) src if message_first
    copy,         // dst = src            (local)
    reduce,       // dst = dst (+) src    (local)
};

struct block_range {
    uint32_t first = 0;
    uint32_t count = 0;
    uint32_t end() const noexcept { return first + count; }
};

struct move {
    move_kind kind = move_kind::send;
    buffer dst = buffer::out;
    buffer src = buffer::in;
    bool message_first = false;
    bool last = false;  // recv_reduce, reduce: the value is complete after this one (an average is
                        // scaled here)
    rank_t peer = -1;   // -1: local
    uint32_t round = 0;
    block_range what;
};

// What a rank waits for between two rounds of a plan in which pairs exchange.
//   none     a move starts when its bytes are there: chunks run through the rounds
//   pair     both partners are ready before either sends, and a round is over for a rank when what
//            it sent has been taken in whole: a rank that runs ahead cannot put two rounds on one
//            link
//   barrier  all ranks have finished the round before
enum class sync_policy : uint8_t { none, pair, barrier };

struct plan {
    ef_collective_t coll = EF_ALLREDUCE;
    rank_t rank = 0;
    rank_t nranks = 1;
    uint32_t nblocks = 1;
    uint32_t rounds = 0;  // of this rank: the round of its last move, plus one
    // Round in which the second half begins (what was combined is given out), the same on all
    // ranks; `never` for plans that have no halves.
    uint32_t turn = never;
    static constexpr uint32_t never = 0xffff'ffff;
    sync_policy sync = sync_policy::none;  // the same on all ranks
    uint32_t all_rounds = 0;  // rounds in which any rank has a move, the same on all ranks
    bool eager = false;  // every send is copied when posted: small messages, and plans that need
                         // buffering to be free of deadlock
    std::vector<move> moves;
};

/// An order of the ranks for an algorithm that is defined on positions: position p is rank
/// order[p]. Positions core .. are extras: extra i is position core + i; it gives its vector to a
/// position of the core first and gets the result from it at the end. A core of 0: all positions are
/// core.
struct rank_order {
    std::vector<rank_t> order;
    rank_t core = 0;
    // By extra: the core position that it gives to, ascending. Empty: extra i gives to i mod core.
    std::vector<rank_t> fold;
    // By rank: its position, the inverse of order. Empty: position_of() searches.
    std::vector<rank_t> position;
    bool empty() const noexcept { return order.empty(); }
    rank_t position_of(rank_t r) const noexcept;
    /// Fills `position`, so that position_of() is O(1).
    void index();
};

/// How the fabric wants the ranks arranged; made by mapping/ from a fabric and a placement. Orders
/// of servers are by index of the server (plan_request::host_of) and serve hierarchical plans. An
/// empty order: this fabric has none.
struct rank_maps {
    rank_order halving, ring;                // of ranks
    rank_order server_halving, server_ring;  // of servers
    std::string halving_says, ring_says;     // "HDRM on BiGraph S=4 H=2 L=1", for explanations
};

struct plan_request {
    ef_collective_t coll = EF_ALLREDUCE;  // a barrier is an allreduce of one byte
    rank_t rank = 0;
    rank_t nranks = 1;
    rank_t root = 0;  // broadcast
    bool in_place = false;
    std::span<const int> host_of;     // by rank: index of its host, 0 .. hosts-1; empty: all on one
    const rank_maps* maps = nullptr;  // null: no fabric is known. The same on all ranks.
    sync_policy sync = sync_policy::none;  // for algorithms that exchange in rounds of pairs
};

/// First element of block b when `count` elements are cut into `nblocks`: blocks differ by at most
/// one unit of 64 bytes (of one element below 64 bytes per block), so that vector loads stay
/// aligned. b == nblocks gives count. reduce_scatter and allgather have nblocks a multiple of
/// nranks and cut each rank's block on its own.
size_t block_begin(const plan& p, size_t count, size_t element_bytes, uint32_t b) noexcept;

}  // namespace ef
