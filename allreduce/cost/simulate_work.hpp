// workload: flows as a simulation needs them: by rank, with their paths. Sets of equal rounds are kept
// once.
#pragma once

#include "allreduce/link_loads.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace ef::cost {

class workload {
public:
    static constexpr uint32_t none = 0xffff'ffff;

    /// `flows` outlive it.
    static result<workload> make(std::span<const flow_round> flows, rank_t nranks,
                                 const fabric::routes& routes, const mapping::placement& where,
                                 uint64_t bytes, uint32_t subflows);

    rank_t nranks() const noexcept { return nranks_; }
    uint32_t subflows() const noexcept { return subflows_; }
    uint32_t rounds() const noexcept;
    const flow_round& set(uint32_t s) const noexcept { return flows_[s]; }
    /// The first set from `from` on in which the rank sends or receives.
    uint32_t next_set(rank_t r, uint32_t from) const noexcept;
    /// Indices into set(s).flows.
    std::span<const uint32_t> sends(uint32_t s, rank_t r) const noexcept {
        return of(sets_[s].sends, r);
    }
    std::span<const uint32_t> receives(uint32_t s, rank_t r) const noexcept {
        return of(sets_[s].receives, r);
    }
    double bytes(uint32_t s, uint32_t flow) const noexcept {
        return flows_[s].flows[flow].part * bytes_;
    }
    /// Empty within a host or server.
    std::span<const fabric::link_id> path(uint32_t s, uint32_t flow,
                                          uint32_t subflow) const noexcept;
    /// By link, of all rounds.
    std::span<const double> bytes_on_link() const noexcept { return bytes_on_link_; }

private:
    struct by_rank {
        std::vector<uint32_t> begin, flows;  // of rank r: flows[begin[r]] .. flows[begin[r+1]-1]
    };
    struct set_index {
        by_rank sends, receives;
        std::vector<uint32_t> begin;  // by flow and subflow: into links
        std::vector<fabric::link_id> links;
    };

    static std::span<const uint32_t> of(const by_rank& b, rank_t r) noexcept {
        const uint32_t first = b.begin[size_t(r)];
        return {b.flows.data() + first, b.begin[size_t(r) + 1] - first};
    }
    by_rank sorted(uint32_t s, rank_t flow::*whose) const;
    status find_paths(uint32_t s, const link_loads& loads);

    std::span<const flow_round> flows_;
    rank_t nranks_ = 0;
    double bytes_ = 0;
    uint32_t subflows_ = 1;
    std::vector<set_index> sets_;
    std::vector<double> bytes_on_link_;
};

}  // namespace ef::cost
