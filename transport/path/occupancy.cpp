#include "transport/path/occupancy.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace ef::path {
namespace {

// By flow, its classes; returned: by class, the first of its rounds.
std::vector<uint32_t> classes_of_rounds(std::span<const flow_ways> flows,
                                        std::vector<std::vector<uint32_t>>& of_flow) {
    std::map<uint32_t, std::vector<uint32_t>> members;
    for (uint32_t f = 0; f < flows.size(); ++f)
        for (const uint32_t r : flows[f].rounds)
            if (members[r].empty() || members[r].back() != f) members[r].push_back(f);
    std::map<std::vector<uint32_t>, uint32_t> classes;
    std::vector<uint32_t> first_round;
    of_flow.resize(flows.size());
    for (const auto& [round, who] : members) {
        if (!classes.emplace(who, uint32_t(first_round.size())).second) continue;
        for (const uint32_t f : who) of_flow[f].push_back(uint32_t(first_round.size()));
        first_round.push_back(round);
    }
    return first_round;
}

}  // namespace

occupancy::occupancy(std::span<const flow_ways> flows)
    : ways_(flows.size()), chosen_(flows.size()), placed_(flows.size()) {
    make_cells(flows);
    set_room(1, ~uint32_t(0));
}

void occupancy::make_cells(std::span<const flow_ways> flows) {
    std::vector<std::vector<uint32_t>> classes;
    const std::vector<uint32_t> first_round = classes_of_rounds(flows, classes);
    std::map<std::pair<uint32_t, link_number>, uint32_t> number;
    for (uint32_t f = 0; f < flows.size(); ++f) {
        std::map<uint32_t, uint32_t> uses;
        for (const way& w : flows[f].ways) {
            std::vector<uint32_t> mine;
            for (const uint32_t k : classes[f])
                for (const link_number l : w.links) {
                    const auto [at, fresh] = number.emplace(std::pair(k, l), cells_.size());
                    if (fresh) cells_.push_back({{}, 0, 1, first_round[k], l});
                    mine.push_back(at->second);
                }
            std::sort(mine.begin(), mine.end());
            mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
            for (const uint32_t c : mine) ++uses[c];
            ways_[f].push_back(std::move(mine));
        }
        for (const auto& [c, n] : uses) cells_[c].forced += n == flows[f].ways.size();
    }
}

uint64_t occupancy::price(uint32_t f, uint32_t w) const noexcept {
    uint64_t p = 0;
    for (const uint32_t c : ways_[f][w]) {
        const cell& x = cells_[c];
        if (x.load() >= x.room) p += x.above() + 1;
        if (x.load() >= limit_) p += over_limit;
    }
    return p;
}

void occupancy::put(uint32_t f, uint32_t w) {
    if (ways_[f].empty()) return;
    cost_ += price(f, w);
    chosen_[f] = w;
    placed_[f] = true;
    for (const uint32_t c : ways_[f][w]) cells_[c].who.push_back(f);
}

void occupancy::lift(uint32_t f) noexcept {
    if (!placed_[f]) return;
    placed_[f] = false;
    for (const uint32_t c : ways_[f][chosen_[f]]) {
        std::vector<uint32_t>& who = cells_[c].who;
        *std::find(who.begin(), who.end(), f) = who.back();
        who.pop_back();
    }
    cost_ -= price(f, chosen_[f]);
}

void occupancy::restore(const std::vector<uint32_t>& chosen) {
    for (uint32_t f = 0; f < flows(); ++f)
        if (!placed_[f] || chosen_[f] != chosen[f]) move(f, chosen[f]);
}

void occupancy::set_room(uint32_t room, uint32_t limit) {
    for (cell& c : cells_) c.room = std::max(c.forced, room);
    limit_ = limit;
    cost_ = 0;
    for (const cell& c : cells_) {
        cost_ += uint64_t(c.above()) * (c.above() + 1) / 2;
        if (c.load() > limit) cost_ += over_limit * (c.load() - limit);
    }
}

uint32_t occupancy::worst() const noexcept {
    uint32_t w = 0;
    for (const cell& c : cells_) w = std::max(w, c.load());
    return w;
}

uint32_t occupancy::least_worst() const noexcept {
    uint32_t w = cells_.empty() ? 0 : 1;
    for (const cell& c : cells_) w = std::max(w, c.forced);
    return w;
}

}  // namespace ef::path
