#include "allreduce/algo/algorithm.hpp"
#include "allreduce/algo/hierarchical.hpp"
#include "allreduce/algo/phases.hpp"

namespace ef {

namespace algo {

bool any_collective(const plan_request&) noexcept { return true; }

}  // namespace algo

namespace {

using namespace algo;

constexpr algorithm table[] = {
    {"direct", "one shot: everyone sends everything to everyone; small vectors", any_collective,
     build_direct},
    {"pairwise", "two shots: rank b sums part b and sends it to all; shared memory",
     accepts_pairwise, build_pairwise},
    {"ring", "reduce-scatter and allgather round a ring; fewest bytes, one neighbour each way",
     any_collective, build_ring},
    {"halving_doubling", "recursive halving, recursive doubling; fewest bytes in 2 lg p rounds",
     accepts_halving_doubling, build_halving_doubling},
    {"doubling", "whole vectors between ever farther partners; lg p rounds", accepts_doubling,
     build_doubling},
    {"double_tree", "two binary trees with half the vector each; 2 lg p rounds, pipelined",
     accepts_tree, build_double_tree},
    {"tree", "binomial tree to rank 0 and back; fewest messages in all", accepts_tree, build_tree},
    {"hierarchical:halving_doubling", "host first, then halving_doubling between hosts",
     accepts_hierarchical<inner::halving_doubling>, build_hierarchical<inner::halving_doubling>},
    {"hierarchical:ring", "host first, then ring between hosts", accepts_hierarchical<inner::ring>,
     build_hierarchical<inner::ring>},
    {"hierarchical:pairwise", "host first, then pairwise between hosts",
     accepts_hierarchical<inner::pairwise>, build_hierarchical<inner::pairwise>},
    {"hierarchical:doubling", "host first, then doubling between hosts",
     accepts_hierarchical<inner::doubling>, build_hierarchical<inner::doubling>},
    {"hierarchical:double_tree", "host first, then double_tree between hosts",
     accepts_hierarchical<inner::double_tree>, build_hierarchical<inner::double_tree>},
    {"hierarchical:tree", "host first, then tree between hosts", accepts_hierarchical<inner::tree>,
     build_hierarchical<inner::tree>},
};

}  // namespace

std::span<const algorithm> algorithms() noexcept { return table; }

const algorithm* find_algorithm(std::string_view name) noexcept {
    for (const algorithm& a : table)
        if (a.name == name || (name == "hierarchical" && a.name.starts_with("hierarchical:")))
            return &a;
    return nullptr;
}

}  // namespace ef
