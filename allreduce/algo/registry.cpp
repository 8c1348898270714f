#include "allreduce/algo/algorithm.hpp"
#include "allreduce/algo/hierarchical.hpp"
#include "allreduce/algo/phases.hpp"

namespace ef {

namespace algo {

bool any_collective(const plan_request&) noexcept { return true; }

}  // namespace algo

namespace {

using namespace algo;

template <inner I>
constexpr algorithm between_hosts(std::string_view name, std::string_view summary) {
    return {name, summary, accepts_hierarchical<I>, build_hierarchical<I>};
}

// Ties go to the first: what the fabric asks for stands before the same in the caller's order.
constexpr algorithm table[] = {
    {"direct", "one shot: everyone sends everything to everyone; small vectors", any_collective,
     build_direct, rotation_symmetry},
    {"pairwise", "two shots: rank b sums part b and sends it to all; shared memory",
     accepts_pairwise, build_pairwise, rotation_symmetry},
    {"eulerian_ring", "ring in the order of the fabric: no link carries two flows",
     accepts_eulerian_ring, build_eulerian_ring, rotation_symmetry, eulerian_ring_order},
    {"ring", "reduce-scatter and allgather round a ring; fewest bytes, one neighbour each way",
     any_collective, build_ring, rotation_symmetry},
    {"hdrm", "halving_doubling in the order of the fabric: no link carries two flows", accepts_hdrm,
     build_hdrm, hdrm_symmetry, hdrm_order},
    {"halving_doubling", "recursive halving, recursive doubling; fewest bytes in 2 lg p rounds",
     accepts_halving_doubling, build_halving_doubling, power_of_two_symmetry},
    {"halving_doubling:far", "the same with the farthest partner first, who gets most",
     accepts_halving_doubling_far, build_halving_doubling_far, power_of_two_symmetry},
    {"doubling", "whole vectors between ever farther partners; lg p rounds", accepts_doubling,
     build_doubling, power_of_two_symmetry},
    {"double_tree", "two binary trees with half the vector each; 2 lg p rounds, pipelined",
     accepts_tree, build_double_tree},
    {"tree", "binomial tree to rank 0 and back; fewest messages in all", accepts_tree, build_tree},
    between_hosts<inner::halving_doubling>("hierarchical:halving_doubling",
                                           "host first, then halving_doubling between hosts"),
    between_hosts<inner::hdrm>("hierarchical:hdrm",
                               "host first, then hdrm between hosts, all rails in step"),
    between_hosts<inner::eulerian_ring>(
        "hierarchical:eulerian_ring",
        "host first, then eulerian_ring between hosts, all rails in step"),
    between_hosts<inner::ring>("hierarchical:ring", "host first, then ring between hosts"),
    between_hosts<inner::pairwise>("hierarchical:pairwise",
                                   "host first, then pairwise between hosts"),
    between_hosts<inner::doubling>("hierarchical:doubling",
                                   "host first, then doubling between hosts"),
    between_hosts<inner::double_tree>("hierarchical:double_tree",
                                      "host first, then double_tree between hosts"),
    between_hosts<inner::tree>("hierarchical:tree", "host first, then tree between hosts"),
};

}  // namespace

std::span<const algorithm> algorithms() noexcept { return table; }

const algorithm* find_algorithm(std::string_view name) noexcept {
    if (name == "hierarchical") name = "hierarchical:halving_doubling";
    if (name == "halving_doubling:near") name = "halving_doubling";
    for (const algorithm& a : table)
        if (a.name == name) return &a;
    return nullptr;
}

}  // namespace ef
