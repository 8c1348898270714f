// flows: what flows_of() and flows_read() are made of, for readers that cannot hold the flows of all
// ranks at once.
#pragma once

#include "allreduce/proof.hpp"

namespace ef {

/// Takes plans one after another; keeps of each its sends, equal consecutive rounds once.
class flow_reader {
public:
    void add(const plan& p);
    /// The flows of all plans so far, round by round.
    std::vector<flow_round> finish() const;
    /// Flows that are kept.
    size_t size() const noexcept { return flows_.size(); }

private:
    struct run {  // rounds in which a rank sends the same
        uint32_t round, repeat;
        size_t first;  // in flows_
        uint32_t count;
    };
    bool continues(const run& r, uint32_t round, size_t first) const noexcept;

    std::vector<run> runs_;
    std::vector<flow> flows_;
    uint32_t rounds_ = 0;
};

/// From the flows of the rank at position 0 to those of all. `order` null: position == rank.
std::vector<flow_round> flows_spread(std::span<const flow_round> one, symmetry how,
                                     const rank_order* order, rank_t nranks);

}  // namespace ef
