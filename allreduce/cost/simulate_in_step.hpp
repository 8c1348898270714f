// Plans whose ranks are all in step: each round lasts as long as the fullest link and the rank that
// has most to reduce. Read once, priced for any size.
#pragma once

#include "allreduce/cost/simulate.hpp"
#include "allreduce/link_loads.hpp"

namespace ef::cost {

/// What a price in step needs of a plan.
struct step_profile {
    struct rounds_of {
        uint32_t rounds = 0, reducing = 0;  // how many; how many of them come before the turn
        uint32_t messages = 0;   // that one rank sends, or receives, in a round: an alpha for each
        double us_per_byte = 0;  // of the vector, on the link that takes longest
        double received = 0;     // by the rank that receives most, in vectors
    };
    std::vector<rounds_of> sets;
    uint32_t rounds = 0;                        // with flows
    uint64_t messages = 0;                      // of all rounds: how many alphas one after another
    double worst_load = 0;                      // flows on the fullest link
    fabric::link_id worst_link = fabric::none;  // the first with so many
    uint32_t worst_round = 0;                   // the first in which it has them
    double sent = 0;  // over the fabric, by the rank that sends most, in vectors
    status unreachable;
};

class step_reader {
public:
    /// `routes` and `where` outlive it. `turn` as in plan.
    step_reader(const fabric::routes& routes, const mapping::placement& where, uint32_t subflows,
                uint32_t turn);
    void add(const flow_round& r);
    step_profile finish();

private:
    link_loads loads_;
    const fabric::graph& g_;
    uint32_t turn_;
    std::vector<uint32_t> messages_in_, messages_out_;  // by rank, in this round
    std::vector<double> received_, sent_;               // by rank: in this round, in all
    step_profile profile_;
};

/// In us; infinite if a pair has no path. Of the options alpha, gamma and efficiency count.
double price_in_step_us(const step_profile& p, uint64_t bytes, const simulation_options& o);

}  // namespace ef::cost
