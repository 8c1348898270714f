// program: a plan bound to a count and a type, in the form that the engine runs: byte offsets
// instead of blocks, one queue of steps per peer and direction, and for each step the earlier steps
// that it must not overtake.
//
//      plan (blocks)                       program (bytes)
//      send      in  -> 3  block 0         lane of peer 3:  sends    [step 0] [step 3]
//      recv_red  out <- 2  block 1         lane of peer 2:  receives [step 1] [step 2]
//      ...                                 step 3 after step 1, at the same distance in bytes
//
// Channels are ordered, so only the heads of the queues can move: the engine looks at two steps per
// peer, however long the plan. A dependency is by position, not by step: step x may work up to byte
// p of its range when step y has finished the bytes below p + shift of its own. That is what
// pipelines chunks through the rounds.
//
// A long vector is cut into segments of one chunk per block, and the plan is run for each. The
// segments are merged so that the second half of one (on a ring: the allgather) comes just behind
// the first half of the next:
//
//      s0 first | s1 first, s0 second | s2 first, s1 second | ...
//
// What a rank has reduced is then passed on while it is still in its cache; were the whole vector
// reduced first, every byte would come from memory again. The order is by (segment, round), and a
// send and its receive have both in common, so both ends merge alike and the merged plan is as free
// of deadlock as one run of it.
//
// Offsets count from the beginning of the whole vector for all three buffers, so that in place is
// equality of offsets.
#pragma once

#include "allreduce/plan.hpp"

#include <vector>

namespace ef {

struct dependency {
    uint32_t step;
    int64_t shift;
};

constexpr uint64_t token_bytes = 8;  // a multiple of every element

struct step {
    move_kind kind;
    buffer dst, src;
    bool message_first;
    bool last;
    bool token;     // a word of the handshake between rounds (sync.cpp), not the caller's data
    uint16_t lane;  // index into program::lanes; local steps: unused
    uint32_t round;
    uint32_t segment;
    uint64_t at;     // offset of its range in both buffers
    uint64_t bytes;  // never 0
    uint32_t first_dependency, dependencies;
};

struct lane {
    rank_t peer;
    std::vector<uint32_t> sends, receives;  // steps, in order
};

struct program {
    std::vector<step> steps;
    std::vector<dependency> dependencies;
    std::vector<lane> lanes;
    std::vector<uint32_t> locals;  // copy and reduce steps, in order
    bool eager = false;
    uint64_t bytes = 0;      // of the whole vector
    uint64_t tmp_bytes = 0;  // scratch that it needs; 0 if tmp is not used
    uint64_t in_origin = 0;  // offset of the caller's in[0] and out[0] in the whole vector
    uint64_t out_origin = 0;
};

/// `count` elements in the whole vector: for reduce_scatter and allgather nranks times the call's
/// count.
/// `chunk_bytes`: a multiple of 64.
program compile(const plan& p, size_t count, size_t element_bytes, bool in_place,
                uint64_t chunk_bytes);

}  // namespace ef
