// assign: which of its possible paths each flow should take, so that flows of one round meet on no
// link. Pure computation on what was probed; every rank runs it on the same data and comes to the
// same answer.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ef::path {

/// A directed link, by whatever number the caller gives to its two ends (e.g. to the address that a
/// router answered with).
using link_number = uint32_t;

/// One way that a flow can take: a set of links. Which source ports lead there is the caller's.
struct way {
    std::vector<link_number> links;
};

struct flow_ways {
    int32_t from = -1, to = -1;    // ranks
    std::vector<uint32_t> rounds;  // in which it sends; flows meet only within a round
    std::vector<way> ways;         // at least one
};

struct meeting {
    link_number link = 0;
    uint32_t round = 0;
    std::vector<uint32_t> flows;  // indices, more than one
};

struct assignment {
    std::vector<uint32_t> way;      // by flow: index into its ways
    uint32_t worst = 0;             // flows on the fullest link of any round
    std::vector<meeting> meetings;  // what remains; empty: no link is shared in any round
};

/// Fewest flows on the fullest link first, then fewest shared links. Deterministic. 512 ranks with
/// 9 peers each take well under a second.
assignment assign(std::span<const flow_ways> flows);

}  // namespace ef::path
