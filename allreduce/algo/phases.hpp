// The halves that algorithms are composed of. Each works on a team, starts in the builder's current
// round and leaves the builder in the round after its last. `team.blocks.count` must be a multiple
// of the number of parts that the phase's comment names.
#pragma once

#include "allreduce/algo/algorithm.hpp"
#include "allreduce/algo/builder.hpp"

namespace ef::algo {

// pairwise, ring: size parts; member v ends with part v reduced, or starts with it.
void pairwise_reduce_scatter(plan_builder& out, const team& t);
void pairwise_allgather(plan_builder& out, const team& t);
void ring_reduce_scatter(plan_builder& out, const team& t);
void ring_allgather(plan_builder& out, const team& t);

/// size parts; a power of two of members. Member v ends with, or starts with, part v.
void halving_reduce_scatter(plan_builder& out, const team& t);
void doubling_allgather(plan_builder& out, const team& t);

/// In which order halving takes the bits of a position: near, bit 0 first.
enum class bit_order : uint8_t { near, far };
/// size parts; a power of two of members.
void halving_core_allreduce(plan_builder& out, const team& t, bit_order bits);

/// Largest power of two that is not above n (n >= 1): the core that other ranks fold into.
rank_t power_of_two_core(rank_t n) noexcept;

// Whole allreduces. Parts:          pairwise, ring: size; halving_doubling:
// power_of_two_core(size); doubling, tree: 1; double_tree: 2.
void pairwise_allreduce(plan_builder& out, const team& t);
void ring_allreduce(plan_builder& out, const team& t);
void halving_doubling_allreduce(plan_builder& out, const team& t);
void doubling_allreduce(plan_builder& out, const team& t);
void double_tree_allreduce(plan_builder& out, const team& t);
void tree_allreduce(plan_builder& out, const team& t);

// Binomial trees; the result of the reduction, or the source of the broadcast, is member `root`.
void tree_reduce(plan_builder& out, const team& t, rank_t root);
void tree_broadcast(plan_builder& out, const team& t, rank_t root);

// Registry entries: accepts and build of each algorithm, symmetry of most.
bool any_collective(const plan_request& r) noexcept;
plan build_direct(const plan_request& r);
bool accepts_pairwise(const plan_request& r) noexcept;
plan build_pairwise(const plan_request& r);
plan build_ring(const plan_request& r);
/// ring, pairwise and direct, unless it is a broadcast.
symmetry rotation_symmetry(const plan_request& r) noexcept;
bool accepts_doubling(const plan_request& r) noexcept;
plan build_doubling(const plan_request& r);
bool accepts_halving_doubling(const plan_request& r) noexcept;
plan build_halving_doubling(const plan_request& r);
bool accepts_halving_doubling_far(const plan_request& r) noexcept;
plan build_halving_doubling_far(const plan_request& r);
/// halving_doubling and doubling.
symmetry power_of_two_symmetry(const plan_request& r) noexcept;
bool accepts_tree(const plan_request& r) noexcept;
plan build_double_tree(const plan_request& r);
plan build_tree(const plan_request& r);

// On the orders of request.maps.
bool accepts_hdrm(const plan_request& r) noexcept;
plan build_hdrm(const plan_request& r);
symmetry hdrm_symmetry(const plan_request& r) noexcept;
const rank_order* hdrm_order(const plan_request& r) noexcept;
bool accepts_eulerian_ring(const plan_request& r) noexcept;
plan build_eulerian_ring(const plan_request& r);
const rank_order* eulerian_ring_order(const plan_request& r) noexcept;

}  // namespace ef::algo
