// proof: what a plan does to the links of a fabric, round by round. With plan_check (values, order,
// deadlock) it is the whole claim: everybody gets every contribution once, and no link carries two
// flows at a time; or the links that do, by name, with the round and the ranks that meet there.
//
// A flow is all that one rank sends to one other in one round, over one of its subflows' paths.
#pragma once

#include "affinity/fabric/routes.hpp"
#include "allreduce/algo/algorithm.hpp"
#include "allreduce/mapping/maps.hpp"

#include <functional>
#include <string>
#include <vector>

namespace ef {

struct flow {
    rank_t from = -1, to = -1;
    double part = 0;  // of the vector's bytes, 0 .. 1
};

/// Consecutive rounds that have the same flows: on a ring there is one such set for 2 (P-1) rounds.
struct flow_round {
    uint32_t round = 0;       // the first of them
    uint32_t repeat = 1;      // how many
    std::vector<flow> flows;  // by sender
};

/// The flows of all ranks, round by round. Plans are built one after another and not kept; where the
/// algorithm declares a symmetry, only that of rank 0 is read (tests hold the declaration to the
/// plans). `like` has everything but the rank.
std::vector<flow_round> flows_of(const algorithm& a, const plan_request& like);
/// The same by reading every rank's plan, whatever is declared: for proofs.
std::vector<flow_round> flows_read(rank_t nranks, const std::function<plan(rank_t)>& build);

struct crowded_link {
    fabric::link_id link = 0;
    uint32_t round = 0;
    double load = 0;  // flows on it (a flow split over k subflows counts 1/k for each)
    std::vector<std::pair<rank_t, rank_t>> pairs;  // who meets there
};

struct load_report {
    uint32_t rounds = 0;           // that have flows between hosts
    double most = 0;               // flows on the fullest link of any round
    std::vector<double> by_round;  // fullest link of each round, 0 where nothing leaves a host
    std::vector<crowded_link>
        worst;  // links with more than one flow, fullest first, at most `keep`
    std::vector<double> bytes_on_link;  // by link id, in units of the vector, all rounds together
    status unreachable;                 // OK, or the first pair without a path

    bool congestion_free() const noexcept { return unreachable.ok() && most <= 1.0 + 1e-9; }
};

/// `subflows`: connections per pair that share its bytes evenly.
load_report load_of(std::span<const flow_round> flows, const fabric::routes& routes,
                    const mapping::placement& where, uint32_t subflows = 1, size_t keep = 16);

/// "congestion-free: at most 1 flow per link in each of 12 rounds", or the crowded links, a line
/// each.
std::string text_of(const load_report& r, const fabric::graph& g);

}  // namespace ef
