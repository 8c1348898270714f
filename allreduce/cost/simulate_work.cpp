#include "allreduce/cost/simulate_work.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ef::cost {

namespace {

// Each costs some microseconds of simulation, more where many share links.
constexpr double most_flows = 20e6;

status check(std::span<const flow_round> flows, rank_t nranks, const mapping::placement& where,
             uint32_t subflows) {
    if (where.size() < size_t(nranks))
        return status(EF_INVALID,
                      fmt::format("{} ranks are placed, the plan has {}", where.size(), nranks));
    double all = 0;
    uint32_t round = 0;
    for (const flow_round& s : flows) {
        if (s.round < round || s.repeat == 0)
            return status(
                EF_INVALID,
                fmt::format("the flows of round {} do not come after those before", s.round));
        round = s.round + s.repeat;
        all += double(s.flows.size()) * s.repeat * subflows;
        for (const flow& f : s.flows)
            if (f.from < 0 || f.from >= nranks || f.to < 0 || f.to >= nranks || f.from == f.to)
                return status(EF_INVALID, fmt::format("round {}: no flow can be from rank {} to {}",
                                                      s.round, f.from, f.to));
    }
    if (all > most_flows)
        return status(
            EF_UNSUPPORTED,
            fmt::format("{:.3g} flows: the simulation is for up to {:.0e}", all, most_flows));
    return {};
}

}  // namespace

result<workload> workload::make(std::span<const flow_round> flows, rank_t nranks,
                                const fabric::routes& routes, const mapping::placement& where,
                                uint64_t bytes, uint32_t subflows) {
    workload w;
    w.flows_ = flows;
    w.nranks_ = nranks;
    w.bytes_ = double(bytes);
    w.subflows_ = std::max(1u, subflows);
    if (status s = check(flows, nranks, where, w.subflows_); !s.ok()) return s;
    w.sets_.resize(flows.size());
    const link_loads loads(routes, where, w.subflows_);
    w.bytes_on_link_.assign(routes.net().links().size(), 0);
    for (uint32_t s = 0; s < flows.size(); ++s) {
        w.sets_[s].sends = w.sorted(s, &flow::from);
        w.sets_[s].receives = w.sorted(s, &flow::to);
        if (status bad = w.find_paths(s, loads); !bad.ok()) return bad;
    }
    return w;
}

workload::by_rank workload::sorted(uint32_t s, rank_t flow::*whose) const {
    const std::vector<flow>& flows = flows_[s].flows;
    by_rank out;
    out.begin.assign(size_t(nranks_) + 1, 0);
    for (const flow& f : flows) ++out.begin[size_t(f.*whose) + 1];
    for (size_t r = 0; r < size_t(nranks_); ++r) out.begin[r + 1] += out.begin[r];
    std::vector<uint32_t> at(out.begin.begin(), out.begin.end() - 1);
    out.flows.resize(flows.size());
    for (uint32_t i = 0; i < flows.size(); ++i) out.flows[at[size_t(flows[i].*whose)]++] = i;
    return out;
}

status workload::find_paths(uint32_t s, const link_loads& loads) {
    set_index& x = sets_[s];
    x.begin.push_back(0);
    for (uint32_t i = 0; i < flows_[s].flows.size(); ++i) {
        const flow& f = flows_[s].flows[i];
        for (uint32_t sub = 0; sub < subflows_; ++sub) {
            if (!loads.append(f, sub, x.links)) return loads.no_path(f);
            x.begin.push_back(uint32_t(x.links.size()));
        }
        const size_t first = x.begin[size_t(i) * subflows_];
        for (size_t l = first; l < x.links.size(); ++l)
            bytes_on_link_[x.links[l]] += bytes(s, i) / subflows_ * flows_[s].repeat;
    }
    return {};
}

uint32_t workload::rounds() const noexcept {
    return flows_.empty() ? 0 : flows_.back().round + flows_.back().repeat;
}

uint32_t workload::next_set(rank_t r, uint32_t from) const noexcept {
    for (uint32_t s = from; s < sets_.size(); ++s)
        if (!sends(s, r).empty() || !receives(s, r).empty()) return s;
    return none;
}

std::span<const fabric::link_id> workload::path(uint32_t s, uint32_t flow,
                                                uint32_t subflow) const noexcept {
    const set_index& x = sets_[s];
    const size_t i = size_t(flow) * subflows_ + subflow;
    return {x.links.data() + x.begin[i], x.begin[i + 1] - x.begin[i]};
}

}  // namespace ef::cost
