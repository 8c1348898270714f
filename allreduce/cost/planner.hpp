// planner: prices every algorithm that serves a call and takes the cheapest. Deterministic: the
// same inputs give the same decision on every rank, so it looks at nothing that differs between
// them.
#pragma once

#include "allreduce/cost/price.hpp"
#include "transport/base/status.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ef::cost {

/// What the links of a fabric make of a plan, all ranks in step: bytes * ns_per_byte, the sum over
/// its rounds of the fullest link's share over its capacity.
struct link_price {
    double ns_per_byte = 0;
    uint64_t messages = 0;  // one after another: an alpha for each
    uint32_t rounds = 0;    // in which something leaves a host
    bool in_pairs = false;  // ranks exchange: whom one sends to in a round is whom it hears from
    double worst_load = 0;  // flows on the fullest link of any round
    uint32_t worst_link = 0xffff'ffff;  // fabric::link_id
    const char* refused = nullptr;      // why it cannot be priced, or null
};
using link_pricer = std::function<link_price(const algorithm&, const plan_request&)>;

struct candidate {
    const algorithm* algo;
    double ns;
    uint32_t rounds;
    const char* refused;  // why it is not considered, or null
    link_price links;     // zeros where no fabric is known
};

struct decision {
    const algorithm* algo = nullptr;
    uint64_t chunk_bytes = 0;
    double predicted_ns = 0;
    double limit_ns = 0;
    uint32_t rounds = 0;
    link_price links;                   // of the one that was taken
    std::vector<candidate> candidates;  // in the order of the registry
    std::string reason;
};

/// Holds the profiles of the plans that it has read, so that a new size costs no new reading.
class planner {
public:
    /// `ranks_per_host`: on the fullest host, whatever connects them. `forced`: a name, or empty.
    /// `chunk_bytes`: 0 for the planner's own.
    /// `links`: empty where no fabric is known.
    planner(int ranks_per_host, std::string forced, uint64_t chunk_bytes, link_pricer links = {})
        : ranks_per_host_(ranks_per_host),
          forced_(std::move(forced)),
          chunk_bytes_(chunk_bytes),
          links_(std::move(links)) {}

    /// The fabric has changed: read all plans again.
    void forget() { read_.clear(); }

    /// `r.host_of` must be the same in every call; `r.rank` and `r.in_place` do not count.
    result<decision> decide(const plan_request& r, uint64_t bytes, const machine_model& m);

private:
    struct known {
        const algorithm* algo;
        bool accepts;
        profile reading;
        link_price links;
    };
    const std::vector<known>& read(const plan_request& r);

    int ranks_per_host_;
    std::string forced_;
    uint64_t chunk_bytes_;
    link_pricer links_;
    std::map<std::pair<ef_collective_t, rank_t>, std::vector<known>>
        read_;  // by collective and root
};

/// A table of the candidates and the reason, for people. `link_name`: of a fabric's link; empty
/// where no fabric is known.
std::string explain(const decision& d, const plan_request& r, uint64_t bytes,
                    const machine_model& m,
                    const std::function<std::string(uint32_t)>& link_name = {});

}  // namespace ef::cost
