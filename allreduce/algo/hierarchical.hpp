// hierarchical: one builder per inner algorithm, for the registry.
#pragma once

#include "allreduce/plan.hpp"

namespace ef::algo {

/// hdrm and eulerian_ring run between hosts in the order of maps->server_*.
enum class inner {
    ring,
    halving_doubling,
    pairwise,
    doubling,
    double_tree,
    tree,
    hdrm,
    eulerian_ring
};

/// At least two hosts, and more than one rank on one of them. Broadcast only with `tree`.
template <inner I>
bool accepts_hierarchical(const plan_request& r) noexcept;
template <inner I>
plan build_hierarchical(const plan_request& r);

/// Ranks per host if all hosts have the same, else 0. `hosts_p` gets the number of hosts.
uint32_t equal_hosts(const plan_request& r, uint32_t* hosts_p) noexcept;

}  // namespace ef::algo
