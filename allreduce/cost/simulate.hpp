// simulate: how long a plan takes on a fabric. Flow-level: every flow that is under way gets its
// max-min fair share of the links on its path [Bertsekas, Gallager: Data Networks, 6.5.2], rates
// change only when a flow begins or ends.
//
// What lets a flow begin is the policy:
//   eager       its bytes are there (what it passes on has been received)
//   in_order    and the rank's own previous sends are complete
//   pair        and the receiver has come to this round too: both directions start together
//   barrier     and every rank has finished the round before
#pragma once

#include "allreduce/proof.hpp"

#include <cstdint>

namespace ef::cost {

enum class policy : uint8_t { eager, in_order, pair, barrier };

struct simulation_options {
    policy how = policy::pair;
    double alpha_us = 5;           // from the start of a flow to its first byte's arrival
    double gamma_ns_per_byte = 0;  // reduction of what was received, before the next round
    uint32_t turn = plan::never;   // from this round on what is received is only stored
    double skew_us = 0;            // ranks start at a random time in 0 .. skew
    double jitter_us = 0;          // mean of an exponential delay before each round of each rank
    double efficiency = 1;         // goodput / line rate, e.g. 0.95 for RoCE
    uint32_t subflows = 1;
    uint64_t seed = 1;
};

struct simulation_result {
    double us = 0;                           // until the last rank has finished
    double mean_us = 0;                      // over ranks
    fabric::link_id busiest = fabric::none;  // the link with the most bytes
    double busiest_use = 0;                  // its bytes over what it could have carried in `us`
    std::vector<double> round_us;            // when the last rank finished each round
};

/// `flows`: as flows_of() gives them, by round. Hosts carry as many flows as they have ranks; ranks of
/// one host or server reach each other in alpha. Deterministic, and the delays of a rank in a round are
/// the same whatever the policy. Errors: a pair without a path; more flows than can be simulated in
/// minutes.
result<simulation_result> simulate(std::span<const flow_round> flows, rank_t nranks,
                                   const fabric::routes& routes, const mapping::placement& where,
                                   uint64_t bytes, const simulation_options& o);

/// All ranks in step: the sum over rounds of alpha + the fullest link's bytes over its capacity +
/// gamma times what the busiest rank receives. Exact for policy::barrier without skew and jitter when
/// the flows of a round are equal; what the planner uses, and what scales. Infinite if a pair has no
/// path.
double price_in_step_us(std::span<const flow_round> flows, const fabric::routes& routes,
                        const mapping::placement& where, uint64_t bytes,
                        const simulation_options& o);

}  // namespace ef::cost
