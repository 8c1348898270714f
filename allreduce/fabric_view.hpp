// fabric_view: the fabric as a communicator sees it: the graph, where its ranks sit on it, the
// orders that fit, and the links that have failed. The same on all ranks.
#pragma once

#include "affinity/fabric/routes.hpp"
#include "allreduce/cost/planner.hpp"
#include "allreduce/mapping/maps.hpp"
#include "transport/bootstrap/group.hpp"

#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>

namespace ef {

class fabric_view {
public:
    /// Null without EFLOPS_FABRIC. Collective over `g` otherwise. Errors: a file that cannot be
    /// read, ranks that read different ones, a rank that is nowhere on it.
    static result<std::unique_ptr<fabric_view>> create(group& g, const config& c,
                                                       std::span<const int> host_of);

    const fabric::graph& net() const noexcept { return net_; }
    const fabric::routes& ways() const noexcept { return *ways_; }
    const mapping::placement& where() const noexcept { return where_; }
    const rank_maps& maps() const noexcept { return maps_; }

    /// The directed link that ends in this address; `none` if the fabric file does not say.
    fabric::link_id link_into(const std::string& address) const noexcept;
    /// Whether the file says what routers answer with, so that probes can be read.
    bool has_addresses() const noexcept { return !into_.empty(); }

    /// What the links make of a plan of these ranks.
    cost::link_price price(const algorithm& a, const plan_request& like) const;

    /// The ways of this plan's flows have been found by probing: flows on the fullest link of each
    /// round; rounds that are not named have none that meet. `fullest`: the link with most, or `none`.
    /// Its price goes by them from now on.
    void know_ways(const algorithm& a, std::map<uint32_t, double> flows_by_round,
                   fabric::link_id fullest);

    /// Both directions of these cables are out, for good.
    void leave_out(std::span<const fabric::link_id> links);
    std::span<const fabric::link_id> left_out() const noexcept { return left_out_; }

private:
    fabric_view() = default;
    void price_known(cost::link_price& p, const algorithm& a, const plan_request& like) const;

    fabric::graph net_;
    std::unique_ptr<fabric::routes> ways_;
    mapping::placement where_;
    rank_maps maps_;
    std::vector<fabric::link_id> left_out_;
    const algorithm* known_ = nullptr;  // whose ways have been found
    std::map<uint32_t, double> known_flows_;
    fabric::link_id known_fullest_ = fabric::none;
    std::unordered_map<std::string, fabric::link_id> into_;  // by to_address
};

}  // namespace ef
