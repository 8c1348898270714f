#include "allreduce/cost/fabric_price.hpp"

#include "allreduce/flows.hpp"

#include <algorithm>
#include <limits>

namespace ef::cost {
namespace {

// What a second or two are enough for: to read so many moves of plans, and to lay so many flows.
constexpr size_t most_moves = 40'000'000;
constexpr size_t most_flows = 16'000'000;

// Messages of an eager plan are copied when they are posted; see planner.cpp.
constexpr uint64_t most_eager_bytes = 16 * 1024;

plan plan_of(const algorithm& a, plan_request r, rank_t rank) {
    r.rank = rank;
    r.in_place = false;  // ranks may differ in it
    return a.build(r);
}

/// The rank at position 0 stands for all: the flows of a set are spread, laid and dropped.
const char* read_one(const algorithm& a, const plan_request& like, symmetry how,
                     step_reader& steps) {
    const rank_order* order = a.order ? a.order(like) : nullptr;
    flow_reader reader;
    reader.add(plan_of(a, like, order ? order->order[0] : 0));
    if (reader.size() * size_t(like.nranks) > most_flows)
        return "everyone sends to everyone: more flows than can be laid in a second";
    for (const flow_round& one : reader.finish())
        for (const flow_round& all : flows_spread({&one, 1}, how, order, like.nranks))
            steps.add(all);
    return nullptr;
}

const char* read_all(const algorithm& a, const plan_request& like, step_reader& steps) {
    // Leaders and others, core and extras have different plans: a look at some before reading all.
    size_t moves = 0;
    for (const rank_t r : {0, like.nranks / 2, like.nranks - 1})
        moves = std::max(moves, plan_of(a, like, r).moves.size());
    if (moves * size_t(like.nranks) > most_moves)
        return "longer plans, without a symmetry, than can be read in a second";
    flow_reader reader;
    for (rank_t r = 0; r < like.nranks; ++r) reader.add(plan_of(a, like, r));
    size_t flows = 0;
    const std::vector<flow_round> sets = reader.finish();
    for (const flow_round& s : sets) flows += s.flows.size();
    if (flows > most_flows) return "more flows than can be laid in a second";
    for (const flow_round& s : sets) steps.add(s);
    return nullptr;
}

}  // namespace

fabric_reading read_on_fabric(const algorithm& a, const plan_request& like,
                              const fabric::routes& routes, const mapping::placement& where,
                              uint32_t subflows) {
    fabric_reading out;
    out.algo = &a;
    if (!a.accepts(like)) {
        out.refused = "does not serve this collective on these ranks";
        return out;
    }
    const symmetry how = a.symmetric ? a.symmetric(like) : symmetry::none;
    const plan first = plan_of(a, like, 0);
    out.eager = first.eager;
    // Nothing is combined in these.
    const bool stores = like.coll == EF_ALLGATHER || like.coll == EF_BROADCAST;
    step_reader steps(routes, where, subflows, stores ? 0 : first.turn);
    out.refused = how == symmetry::none ? read_all(a, like, steps) : read_one(a, like, how, steps);
    out.steps = steps.finish();
    if (!out.refused && !out.steps.unreachable.ok())
        out.refused = "a rank cannot reach another that it sends to";
    return out;
}

std::vector<fabric_reading> read_on_fabric(const plan_request& like, const fabric::routes& routes,
                                           const mapping::placement& where, uint32_t subflows) {
    std::vector<fabric_reading> all;
    for (const algorithm& a : algorithms())
        all.push_back(read_on_fabric(a, like, routes, where, subflows));
    return all;
}

std::vector<fabric_candidate> price_on_fabric(std::span<const fabric_reading> readings,
                                              uint64_t bytes, const simulation_options& o) {
    std::vector<fabric_candidate> all;
    for (const fabric_reading& r : readings) {
        fabric_candidate c{r.algo, std::numeric_limits<double>::infinity()};
        c.worst_load = r.steps.worst_load;
        c.worst_link = r.steps.worst_link;
        c.rounds = r.steps.rounds;
        c.bytes_per_rank = r.steps.sent;
        c.refused = r.refused;
        if (!c.refused && r.eager && bytes > most_eager_bytes)
            c.refused = "copies every message: for short vectors";
        if (!c.refused) c.us = price_in_step_us(r.steps, bytes, o);
        all.push_back(c);
    }
    return all;
}

std::vector<fabric_candidate> price_on_fabric(const plan_request& like,
                                              const fabric::routes& routes,
                                              const mapping::placement& where, uint64_t bytes,
                                              const simulation_options& o) {
    return price_on_fabric(read_on_fabric(like, routes, where, o.subflows), bytes, o);
}

const fabric_candidate* cheapest(std::span<const fabric_candidate> all) noexcept {
    const fabric_candidate* best = nullptr;
    for (const fabric_candidate& c : all)
        if (!c.refused && (!best || c.us < best->us)) best = &c;
    if (!best) return best;
    const double lowest = best->us;
    for (const fabric_candidate& c : all)
        if (!c.refused && c.us <= lowest * equal_prices &&
            std::pair(c.worst_load, c.us) < std::pair(best->worst_load, best->us))
            best = &c;
    return best;
}

}  // namespace ef::cost
