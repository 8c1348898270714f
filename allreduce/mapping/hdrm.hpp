// HDRM's rank mapping [EFLOPS, HPCA 2020]: where position r of a halving-doubling sits on a BiGraph,
// so that every step of it puts at most one flow on each link.
//
// Flipping any one bit of r changes sides, so partners are always one direct hop apart, and the
// pairs of one step use max(1, ceil(H / (S L))) flows per link, whatever the bit:
//
//   x = r mod 2S, g = r / 2S, i = x / 2, side = popcount(r) mod 2
//   side U: switch (i + g) mod S      side L: switch i       port g
//
// S and H are powers of two. Both directions are O(1).
#pragma once

#include "affinity/fabric/graph.hpp"
#include "allreduce/plan.hpp"

namespace ef::mapping {

struct bigraph_place {
    uint32_t side = 0, sw = 0, port = 0;  // side 0 = U, 1 = L
};

bigraph_place hdrm_place(uint32_t position, uint32_t switches) noexcept;
uint32_t hdrm_position(const bigraph_place& at, uint32_t switches) noexcept;

/// Flows on the fullest link in every step, with the lane rule: max(1, ceil(H / (S L))).
uint32_t hdrm_load(const fabric::bigraph_shape& s) noexcept;

/// Hosts of a BiGraph (by host index of make_bigraph's numbering: U0p0, U0p1, ..) in the order of a
/// ring that uses no directed lane between switches twice, for any S, H, L with H <= S L: an
/// Eulerian circuit of the digraph U a -> L a+h, L a -> U a+1+h, h < H. Empty if H > S L.
std::vector<uint32_t> eulerian_order(const fabric::bigraph_shape& s);

}  // namespace ef::mapping
