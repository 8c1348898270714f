// planner: prices every algorithm that serves a call and takes the cheapest. Deterministic: the
// same inputs give the same decision on every rank, so it looks at nothing that differs between
// them.
#pragma once

#include "allreduce/cost/price.hpp"
#include "transport/base/status.hpp"

#include <string>
#include <vector>

namespace ef::cost {

struct candidate {
    const algorithm* algo;
    double ns;
    uint32_t rounds;
    const char* refused;  // why it is not considered, or null
};

struct decision {
    const algorithm* algo = nullptr;
    uint64_t chunk_bytes = 0;
    double predicted_ns = 0;
    double limit_ns = 0;
    uint32_t rounds = 0;
    std::vector<candidate> candidates;  // in the order of the registry
    std::string reason;
};

/// `forced`: a name, or empty. `chunk_bytes`: 0 for the planner's own.
result<decision> decide(const plan_request& r, const placement& where, uint64_t bytes,
                        const machine_model& m, std::string_view forced, uint64_t chunk_bytes);

/// A table of the candidates and the reason, for people.
std::string explain(const decision& d, const plan_request& r, uint64_t bytes,
                    const machine_model& m);

}  // namespace ef::cost
