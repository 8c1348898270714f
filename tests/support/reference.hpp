// reference: a collective computed in one process by scalar code, twice. By the plans: every rank's
// moves are executed on whole arrays, so that floating results have the very bits that the plan's
// order gives. And without any plan: element by element over the ranks, exact for integers, in a
// wider type with an error bound for floats.
#pragma once

#include <eflops/allreduce.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ef::test {

using bytes = std::vector<std::byte>;

struct reference_call {
    ef_collective_t coll = EF_ALLREDUCE;
    int nranks = 1, root = 0;
    size_t count = 0;  // as the collective counts
    ef_type_t type = EF_FLOAT32;
    ef_op_t op = EF_SUM;
    std::string algorithm;  // as ef_comm_plan says, and its chunk_bytes
    uint64_t chunk_bytes = 65536;
    std::vector<int> host_of;
    std::vector<bool> in_place;  // by rank

    size_t input_bytes() const;   // of each rank
    size_t output_bytes() const;  // of each rank
};

/// Outputs by rank from inputs by rank. Throws std::logic_error if the plans cannot be executed: a
/// message nobody takes, or ranks that wait for each other.
std::vector<bytes> execute_plans(const reference_call& c, const std::vector<bytes>& inputs);

/// "" if `output` of `rank` is what the collective means, up to rounding; else the first element
/// that is not, with the values.
std::string check_meaning(const reference_call& c, const std::vector<bytes>& inputs, int rank,
                          const bytes& output);

/// All NaNs become one: which of several wins is not promised.
void canonical(ef_type_t type, bytes& data);

}  // namespace ef::test
