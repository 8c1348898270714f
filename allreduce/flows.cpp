// Flows of a plan. Every rank's plan is read once and dropped; what is kept of it are runs of equal
// rounds. A ring of 8192 ranks is one run per rank and not 16382 rounds:
//
//   rank 0   round 0 .. 5 to 1                       rounds 0 .. 2   0 -> 1  1 -> 2
//   rank 1   round 0 .. 2 to 2, round 3 .. 5 to 0    rounds 3 .. 5   0 -> 1  1 -> 0
#include "allreduce/flows.hpp"

#include <algorithm>
#include <numeric>

namespace ef {
namespace {

/// The sends of one rank in one round, by peer, several messages to one peer added up.
void add_up(std::vector<std::pair<rank_t, uint64_t>>& sends) {
    if (sends.size() < 2) return;
    std::sort(sends.begin(), sends.end());
    size_t kept = 0;
    for (size_t i = 1; i < sends.size(); ++i) {
        if (sends[i].first == sends[kept].first) sends[kept].second += sends[i].second;
        else sends[++kept] = sends[i];
    }
    sends.resize(kept + 1);
}

}  // namespace

void flow_reader::add(const plan& p) {
    std::vector<std::pair<rank_t, uint64_t>> sends;
    bool has_run = false;  // runs_.back() is of this rank
    for (size_t at = 0; at < p.moves.size();) {
        const uint32_t round = p.moves[at].round;
        sends.clear();
        for (; at < p.moves.size() && p.moves[at].round == round; ++at)
            if (p.moves[at].kind == move_kind::send)
                sends.emplace_back(p.moves[at].peer, p.moves[at].what.count);
        add_up(sends);
        if (sends.empty()) continue;

        const size_t first = flows_.size();
        for (const auto& [to, blocks] : sends)
            flows_.push_back({p.rank, to, double(blocks) / double(p.nblocks)});
        rounds_ = std::max(rounds_, round + 1);
        if (has_run && continues(runs_.back(), round, first)) {
            flows_.resize(first);
            ++runs_.back().repeat;
            continue;
        }
        runs_.push_back({round, 1, first, uint32_t(flows_.size() - first)});
        has_run = true;
    }
}

bool flow_reader::continues(const run& r, uint32_t round, size_t first) const noexcept {
    return r.round + r.repeat == round && r.count == flows_.size() - first &&
           std::equal(
               flows_.begin() + long(first), flows_.end(), flows_.begin() + long(r.first),
               [](const flow& a, const flow& b) { return a.to == b.to && a.part == b.part; });
}

std::vector<flow_round> flow_reader::finish() const {
    // Where the flows of any rank change, a new set begins.
    std::vector<uint32_t> set_of(rounds_ + 1, 0);
    for (const run& r : runs_) set_of[r.round] = set_of[r.round + r.repeat] = 1;
    std::vector<flow_round> sets;
    for (uint32_t t = 0; t <= rounds_; ++t) {
        if (set_of[t] || sets.empty()) {
            if (!sets.empty()) sets.back().repeat = t - sets.back().round;
            sets.push_back({t, 1, {}});
        }
        set_of[t] = uint32_t(sets.size()) - 1;
    }
    const auto each = [&](auto&& what) {
        for (const run& r : runs_)
            for (uint32_t s = set_of[r.round]; s < set_of[r.round + r.repeat]; ++s)
                what(sets[s], r);
    };
    std::vector<size_t> sizes(sets.size(), 0);
    each([&](flow_round& s, const run& r) { sizes[size_t(&s - sets.data())] += r.count; });
    for (size_t s = 0; s < sets.size(); ++s) sets[s].flows.reserve(sizes[s]);
    each([&](flow_round& s, const run& r) {
        s.flows.insert(s.flows.end(), flows_.begin() + long(r.first),
                       flows_.begin() + long(r.first + r.count));
    });
    std::erase_if(sets, [](const flow_round& s) { return s.flows.empty(); });
    return sets;
}

std::vector<flow_round> flows_read(rank_t nranks, const std::function<plan(rank_t)>& build) {
    flow_reader reader;
    for (rank_t r = 0; r < nranks; ++r) reader.add(build(r));
    return reader.finish();
}

std::vector<flow_round> flows_spread(std::span<const flow_round> one, symmetry how,
                                     const rank_order* order, rank_t nranks) {
    const auto rank_at = [&](rank_t v) { return order ? order->order[size_t(v)] : v; };
    std::vector<rank_t> position(static_cast<size_t>(nranks));
    for (rank_t v = 0; v < nranks; ++v) position[size_t(rank_at(v))] = v;

    std::vector<flow_round> all;
    for (const flow_round& r : one) {
        flow_round& out = all.emplace_back(flow_round{r.round, r.repeat, {}});
        out.flows.reserve(r.flows.size() * size_t(nranks));
        for (rank_t from = 0; from < nranks; ++from) {
            const rank_t v = position[size_t(from)];
            for (const flow& f : r.flows) {
                const rank_t d = position[size_t(f.to)];
                const rank_t w =
                    how == symmetry::rotation ? rank_t((int64_t(v) + d) % nranks) : rank_t(v ^ d);
                out.flows.push_back({from, rank_at(w), f.part});
            }
        }
    }
    return all;
}

std::vector<flow_round> flows_of(const algorithm& a, const plan_request& like) {
    plan_request r = like;
    const auto build = [&](rank_t rank) {
        r.rank = rank;
        return a.build(r);
    };
    const symmetry how = a.symmetric ? a.symmetric(like) : symmetry::none;
    if (how == symmetry::none) return flows_read(like.nranks, build);
    const rank_order* order = a.order ? a.order(like) : nullptr;
    flow_reader first;
    first.add(build(order ? order->order[0] : 0));
    return flows_spread(first.finish(), how, order, like.nranks);
}

}  // namespace ef
