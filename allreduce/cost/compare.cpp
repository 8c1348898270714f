#include "allreduce/cost/compare.hpp"

#include "allreduce/cost/simulate_in_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

namespace ef::cost {

using fabric::balance;
using mapping::placement;

namespace {

/// A fabric, the flows of one algorithm in positions, and times of it on some placements.
class contest {
public:
    contest(const compare_case& c, const fabric::graph& g, std::string_view algorithm_name,
            const rank_maps* maps = nullptr)
        : c_(c), g_(g), nranks_(rank_t(g.hosts().size())) {
        plan_request like;
        like.nranks = nranks_;
        like.maps = maps;
        const algorithm& a = *find_algorithm(algorithm_name);
        flows_ = flows_of(a, like);
        like.rank = 0;
        turn_ = a.build(like).turn;
    }

    /// Rank r on host r, static routes.
    result<compare_time> planned() const { return mean(1, 1, false, {balance::by_destination, 1}); }
    /// Hosts in order or at random, hashed paths.
    result<compare_time> hashed(bool random, uint32_t subflows) const {
        return mean(std::max(1u, c_.seeds), subflows, random, {balance::hash, 1});
    }

private:
    placement place(bool random, uint64_t seed) const {
        placement in_order(static_cast<size_t>(nranks_));
        std::iota(in_order.begin(), in_order.end(), 0);
        if (!random) return in_order;
        return mapping::placed_by(mapping::random_order(nranks_, seed), in_order);
    }

    result<compare_time> mean(uint32_t seeds, uint32_t subflows, bool random,
                              fabric::route_rule rule) const {
        fabric::routes routes(g_, rule);
        simulation_options o = c_.how;
        o.subflows = subflows;
        o.turn = turn_;
        compare_time out;
        double squares = 0;
        for (uint32_t i = 0; i < seeds; ++i) {
            o.seed = c_.how.seed + i;
            routes.reseed(o.seed);
            const placement where = place(random, o.seed);
            step_reader reader(routes, where, subflows, turn_);
            for (const flow_round& r : flows_) reader.add(r);
            const step_profile steps = reader.finish();
            double us = price_in_step_us(steps, c_.bytes, o);
            if (c_.simulated) {
                const auto r = simulate(flows_, nranks_, routes, where, c_.bytes, o);
                if (!r.ok()) return r.why();
                us = r->us;
            }
            out.us += us / seeds;
            squares += us * us / seeds;
            out.worst_load = std::max(out.worst_load, steps.worst_load);
        }
        out.spread_us = seeds > 1 ? std::sqrt(std::max(0.0, squares - out.us * out.us)) : 0;
        return out;
    }

    const compare_case& c_;
    const fabric::graph& g_;
    rank_t nranks_;
    uint32_t turn_;
    std::vector<flow_round> flows_;
};

}  // namespace

const compare_time& compare_row::best_naive() const noexcept {
    const compare_time* best = &near_leaf_spine;
    for (const compare_time* t : {&ring_random, &halving_random, &halving_random_4, &far_bigraph})
        if (t->us < best->us) best = t;
    return *best;
}

result<compare_row> compare(const compare_case& c) {
    const fabric::bigraph_shape& s = c.shape;
    if (!std::has_single_bit(s.switches) || !std::has_single_bit(s.hosts) || s.rails != 1)
        return status(EF_INVALID,
                      fmt::format("S={} H={} rails={}: HDRM is compared on one rail with S and H "
                                  "powers of two",
                                  s.switches, s.hosts, s.rails));
    if (s.hosts > s.switches * s.lanes)
        return status(EF_INVALID, fmt::format("H={} is more than S L = {}: no ring is free of "
                                              "congestion",
                                              s.hosts, s.switches * s.lanes));
    const fabric::graph bigraph = fabric::make_bigraph(s, c.gbps);
    const fabric::graph leaf_spine =
        fabric::make_leaf_spine(2 * s.switches, s.hosts, s.switches * s.lanes, 1, c.gbps);
    placement where(bigraph.hosts().size());
    std::iota(where.begin(), where.end(), 0);
    const rank_maps maps = mapping::make_maps(bigraph, where);

    compare_row row;
    status failed;
    const auto take = [&](result<compare_time> r, compare_time& to) {
        if (r.ok()) to = *r;
        else if (failed.ok()) failed = r.why();
    };
    const contest halving(c, leaf_spine, "halving_doubling");
    take(contest(c, bigraph, "hdrm", &maps).planned(), row.hdrm);
    take(contest(c, bigraph, "eulerian_ring", &maps).planned(), row.ring);
    take(contest(c, leaf_spine, "ring").hashed(true, 1), row.ring_random);
    take(halving.hashed(true, 1), row.halving_random);
    take(halving.hashed(true, 4), row.halving_random_4);
    take(halving.hashed(false, 1), row.near_leaf_spine);
    take(contest(c, bigraph, "halving_doubling:far").hashed(false, 1), row.far_bigraph);
    if (!failed.ok()) return failed;
    return row;
}

}  // namespace ef::cost
