// fabric_price: what every algorithm of the registry would take on a fabric whose links are known, all
// ranks in step. Plans are read once; then a size costs next to nothing:
//
//   const auto readings = read_on_fabric(request, routes, where, subflows);
//   for (uint64_t bytes : sizes) use(price_on_fabric(readings, bytes, options));
#pragma once

#include "allreduce/cost/simulate_in_step.hpp"

namespace ef::cost {

struct fabric_candidate {
    const algorithm* algo = nullptr;
    double us = 0;                              // infinite if refused
    double worst_load = 0;                      // flows on the fullest link of any round
    fabric::link_id worst_link = fabric::none;  // that link; `none` if nothing leaves a server
    uint32_t rounds = 0;
    double bytes_per_rank = 0;      // over the fabric, by the rank that sends most, in vectors
    const char* refused = nullptr;  // why it is not considered; then the numbers mean nothing
};

/// One algorithm on one fabric with one placement, whatever the size.
struct fabric_reading {
    const algorithm* algo = nullptr;
    bool eager = false;
    const char* refused = nullptr;
    step_profile steps;
};

/// All of the registry, in its order. `like`: collective, ranks, root, host_of and maps; rank and
/// in_place do not count. Plans that follow from one by a declared symmetry cost one plan; of others
/// all ranks' plans are read. What would take longer than a few seconds is refused.
std::vector<fabric_reading> read_on_fabric(const plan_request& like, const fabric::routes& routes,
                                           const mapping::placement& where, uint32_t subflows = 1);
/// One algorithm.
fabric_reading read_on_fabric(const algorithm& a, const plan_request& like,
                              const fabric::routes& routes, const mapping::placement& where,
                              uint32_t subflows = 1);

/// At one size, in the same order. Of the options alpha, gamma and efficiency count.
std::vector<fabric_candidate> price_on_fabric(std::span<const fabric_reading> readings,
                                              uint64_t bytes, const simulation_options& o);
/// Both, for one size.
std::vector<fabric_candidate> price_on_fabric(const plan_request& like,
                                              const fabric::routes& routes,
                                              const mapping::placement& where, uint64_t bytes,
                                              const simulation_options& o);

/// Prices that differ by less are the same: what a fabric's links do is not known better, and flows
/// that meet do not share a link as evenly as a price assumes.
constexpr double equal_prices = 1.05;

/// The cheapest that is not refused; among equal prices the one whose flows meet least, then the
/// cheaper, then the first; null if all are refused.
const fabric_candidate* cheapest(std::span<const fabric_candidate> all) noexcept;

}  // namespace ef::cost
