#include "allreduce/algo/algorithm.hpp"
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
