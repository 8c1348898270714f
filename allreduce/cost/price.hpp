// price: how long a plan takes by the machine model, and what it moves. It reads the plan itself,
// so it holds for every algorithm; closed forms of the regular ones are its tests.
//
// Per round t and rank r let w(t,r) be the work on bytes: sent, received and reduced bytes times
// their betas and gamma. Without pipelining the rounds add up to S = sum_t max_r w(t,r). With many
// chunks every rank is busy all the time and the fullest one decides: M = max_r sum_t w(t,r). With
// k chunks per message the time lies between them,
//
//     T = sum_t alpha(t)  +  M + (S - M) / k  +  memory
//
// where a reduction of a message of the same host costs the larger of beta and gamma, since it
// reads it where it lies; alpha(t) is the slowest medium used in round t, plus the messages of the
// busiest rank times cpu. When ranks outnumber cores, T is at least all ranks' work divided by the
// cores, a part of the smaller of the two is not hidden behind the larger, and each round costs a
// turn of the scheduler. `memory` is the way to and from memory of vectors beyond the last cache.
#pragma once

#include "allreduce/algo/algorithm.hpp"
#include "allreduce/cost/model.hpp"

#include <vector>

namespace ef::cost {

struct price {
    double ns = 0;
    uint32_t rounds = 0;
};

/// What the ranks of a plan do per round, as shares of the vector: all that a price needs, whatever
/// the size.
struct profile {
    struct round {
        float sent_near = 0, sent_far = 0, received_near = 0,
              received_far = 0;         // shares of the vector
        float reduced_near = 0;         // the part of received_near that is reduced where it lies
        float reduced = 0, copied = 0;  // reductions of what is in private memory by then
        uint16_t messages_near = 0, messages_far = 0;
        bool waits_near = false,
             waits_far = false;  // receives from a rank of this host, of another
    };
    bool eager = false;
    float longest_message = 0;              // share of the vector
    std::vector<std::vector<round>> ranks;  // of the ranks that were looked at, by round
};

/// Reads the plans of all ranks, above 64 ranks of some. `r.rank` is ignored.
profile profile_of(const algorithm& a, const plan_request& r);

price price_of(const profile& p, rank_t nranks, int ranks_per_host, uint64_t bytes,
               uint64_t chunk_bytes, const machine_model& m);

/// What one rank's part of a plan moves. Memory traffic counts every copy that is made on this
/// rank's cores.
struct traffic_count {
    uint32_t transfers = 0;
    uint64_t sent = 0, read = 0, written = 0;
};
traffic_count count_traffic(const plan& p, std::span<const int> host_of, uint64_t bytes,
                            bool shared_memory);

/// The time below which no plan can be: every byte of the vector read once and written once at copy
/// speed where ranks share memory, 2 (p-1)/p of it (for an allreduce) through a medium otherwise.
double limit_ns(const plan_request& r, uint64_t bytes, const machine_model& m);

}  // namespace ef::cost
