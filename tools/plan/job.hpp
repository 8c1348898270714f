// job: fabric, placement and order of the ranks that the options name; what every command starts
// from. Failures are thrown as perf::failure and end in one line on stderr.
#pragma once

#include "allreduce/algo/algorithm.hpp"
#include "allreduce/mapping/maps.hpp"
#include "allreduce/proof.hpp"
#include "tools/plan/options.hpp"

#include <memory>
#include <string>
#include <vector>

namespace ef::planning {

/// Orders and requests point into it: it does not move.
struct job {
    fabric::graph net;
    mapping::placement where;  // by rank, after --order
    std::vector<int> host_of;  // by rank: its server, numbered as the ranks name them
    rank_maps maps;
    std::string order_says;  // "block order", "random order, seed 1"

    job() = default;
    job(const job&) = delete;
    job& operator=(const job&) = delete;

    rank_t nranks() const noexcept { return rank_t(where.size()); }
    /// What its algorithms are asked for.
    plan_request request(ef_collective_t coll) const;
    fabric::routes routes(const plan_options& o) const;
    /// The host of a rank, and the machine that it sits in.
    const fabric::node& host(rank_t r) const { return net.at(net.hosts()[where[size_t(r)]]); }
    std::string server(rank_t r) const;
};

/// Read or made, with what --fail names down.
fabric::graph load_net(const std::string& text, const std::vector<std::string>& fail);
std::unique_ptr<job> make_job(const options& o);

/// The algorithm that --algorithm names, or the default of the command; it serves the request.
const algorithm& chosen_algorithm(const options& o, const job& j);

/// What the network sees of a plan.
struct traffic {
    std::vector<flow_round> flows;
    bool by_symmetry = false;  // read from one plan and what the algorithm declares, not from all
};
/// `exact`: read every rank's plan, as long as that takes seconds and not minutes.
traffic traffic_of(const algorithm& a, const plan_request& r, bool exact);

}  // namespace ef::planning
