// A search in the manner of min-conflicts with a tabu list [Minton et al. 1992; Glover 1989]: start
// greedily, then move one flow out of the fullest links at a time, to the way that costs least, and
// keep the best state seen. Rounds in which the same flows send are one to the search: a plan
// repeats them often.
//
// A link that every way of several flows needs (a host's own uplink) carries them whatever is
// chosen: its cost starts above that number.
#include "transport/path/assign.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace ef::path {
namespace {

class random_source {  // splitmix64 [Steele, Lea, Flood 2014]; the same numbers on every rank
public:
    uint32_t below(uint32_t n) noexcept {
        uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return uint32_t(((z ^ (z >> 31)) >> 32) * n >> 32);
    }

private:
    uint64_t state_ = 20;
};

// A link in one class of rounds.
struct cell {
    std::vector<uint32_t> who;  // the flows on it now
    uint32_t forced = 0;        // flows that have no way around it
    uint32_t round = 0;         // the first of its class
    link_number link = 0;

    uint32_t load() const noexcept { return uint32_t(who.size()); }
    uint32_t above() const noexcept {
        const uint32_t free = std::max(forced, 1u);
        return load() > free ? load() - free : 0;
    }
};

class search {
public:
    explicit search(std::span<const flow_ways> flows) : flows_(flows), at_(flows.size()) {
        make_cells();
        for (uint32_t f = 0; f < flows_.size(); ++f) put(f, cheapest(f));
    }

    void improve();
    assignment finish() const;

private:
    void make_cells();
    std::vector<uint32_t> classes_of_rounds(std::vector<std::vector<uint32_t>>& of_flow) const;
    const std::vector<uint32_t>& cells(uint32_t f, uint32_t w) const noexcept {
        return ways_[f][w];
    }
    uint64_t price(uint32_t f, uint32_t w) const noexcept;
    uint32_t cheapest(uint32_t f) const noexcept;
    void put(uint32_t f, uint32_t w) noexcept;
    void lift(uint32_t f) noexcept;
    bool crowded(uint32_t f) const noexcept;
    void note(uint32_t f) noexcept;
    void move_one(uint64_t turn);

    std::span<const flow_ways> flows_;
    std::vector<std::vector<std::vector<uint32_t>>> ways_;  // flow, way: cells
    std::vector<cell> cells_;
    std::vector<uint32_t> at_;  // by flow: its way now
    std::vector<uint32_t> best_;
    uint64_t sum_ = 0, best_sum_ = 0;            // over cells, above * (above + 1) / 2
    std::vector<std::vector<uint64_t>> barred_;  // flow, way: until which turn
    std::vector<uint32_t> crowd_, place_;        // flows on cells above their number; where in it
    random_source random_;
};

// Rounds with the same flows get the same class, named by the first of them.
std::vector<uint32_t> search::classes_of_rounds(std::vector<std::vector<uint32_t>>& of_flow) const {
    std::map<uint32_t, std::vector<uint32_t>> members;
    for (uint32_t f = 0; f < flows_.size(); ++f)
        for (const uint32_t r : flows_[f].rounds)
            if (members[r].empty() || members[r].back() != f) members[r].push_back(f);
    std::map<std::vector<uint32_t>, uint32_t> classes;
    std::vector<uint32_t> first_round;
    of_flow.resize(flows_.size());
    for (const auto& [round, who] : members) {
        if (!classes.emplace(who, uint32_t(first_round.size())).second) continue;
        for (const uint32_t f : who) of_flow[f].push_back(uint32_t(first_round.size()));
        first_round.push_back(round);
    }
    return first_round;
}

void search::make_cells() {
    std::vector<std::vector<uint32_t>> classes;
    const std::vector<uint32_t> first_round = classes_of_rounds(classes);
    std::map<std::pair<uint32_t, link_number>, uint32_t> number;
    ways_.resize(flows_.size());
    barred_.resize(flows_.size());
    for (uint32_t f = 0; f < flows_.size(); ++f) {
        std::map<uint32_t, uint32_t> uses;
        for (const way& w : flows_[f].ways) {
            std::vector<uint32_t> mine;
            for (const uint32_t k : classes[f])
                for (const link_number l : w.links) {
                    const auto [at, fresh] = number.emplace(std::pair(k, l), cells_.size());
                    if (fresh) cells_.push_back({{}, 0, first_round[k], l});
                    mine.push_back(at->second);
                }
            std::sort(mine.begin(), mine.end());
            mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
            for (const uint32_t c : mine) ++uses[c];
            ways_[f].push_back(std::move(mine));
        }
        for (const auto& [c, n] : uses) cells_[c].forced += n == flows_[f].ways.size();
        barred_[f].resize(flows_[f].ways.size());
    }
    place_.assign(flows_.size(), uint32_t(-1));
}

// What the flow would add there. It must not be anywhere just now.
uint64_t search::price(uint32_t f, uint32_t w) const noexcept {
    uint64_t p = 0;
    for (const uint32_t c : cells(f, w)) {
        const cell& x = cells_[c];
        if (x.load() >= std::max(x.forced, 1u)) p += x.above() + 1;
    }
    return p;
}

uint32_t search::cheapest(uint32_t f) const noexcept {
    uint32_t best = 0;
    uint64_t least = ~uint64_t(0);
    // From a different one for each flow, so that equal prices do not heap all on the first.
    const auto n = uint32_t(ways_[f].size());
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t w = (f + i) % n;
        const uint64_t p = price(f, w);
        if (p < least) {
            least = p;
            best = w;
        }
    }
    return best;
}

void search::put(uint32_t f, uint32_t w) noexcept {
    if (ways_[f].empty()) return;
    at_[f] = w;
    sum_ += price(f, w);
    for (const uint32_t c : cells(f, w)) cells_[c].who.push_back(f);
}

void search::lift(uint32_t f) noexcept {
    for (const uint32_t c : cells(f, at_[f])) {
        std::vector<uint32_t>& who = cells_[c].who;
        *std::find(who.begin(), who.end(), f) = who.back();
        who.pop_back();
    }
    sum_ -= price(f, at_[f]);
}

bool search::crowded(uint32_t f) const noexcept {
    if (ways_[f].size() < 2) return false;
    for (const uint32_t c : cells(f, at_[f]))
        if (cells_[c].above()) return true;
    return false;
}

void search::note(uint32_t f) noexcept {
    const bool is = crowded(f), was = place_[f] != uint32_t(-1);
    if (is == was) return;
    if (is) {
        place_[f] = uint32_t(crowd_.size());
        crowd_.push_back(f);
    } else {
        crowd_[place_[f]] = crowd_.back();
        place_[crowd_.back()] = place_[f];
        crowd_.pop_back();
        place_[f] = uint32_t(-1);
    }
}

void search::move_one(uint64_t turn) {
    const uint32_t f = crowd_[random_.below(uint32_t(crowd_.size()))];
    const uint32_t from = at_[f];
    lift(f);
    uint32_t to = from, equals = 0;
    uint64_t least = ~uint64_t(0);
    for (uint32_t w = 0; w < ways_[f].size(); ++w) {
        if (w == from) continue;
        const uint64_t p = price(f, w);
        if (barred_[f][w] > turn && sum_ + p >= best_sum_) continue;
        if (p < least) {
            least = p;
            to = w;
            equals = 1;
        } else if (p == least && random_.below(++equals) == 0) {
            to = w;
        }
    }
    barred_[f][from] = turn + 4 + random_.below(8);
    put(f, to);
    note(f);
    for (const uint32_t w : {from, to})
        for (const uint32_t c : cells(f, w))
            for (const uint32_t other : cells_[c].who) note(other);
}

void search::improve() {
    best_ = at_;
    best_sum_ = sum_;
    // Turns without a new best. A turn is about a microsecond.
    const uint64_t patience = 2000 + 24 * uint64_t(flows_.size());
    for (uint32_t f = 0; f < flows_.size(); ++f) note(f);
    for (uint64_t turn = 0, since = 0; !crowd_.empty() && since < patience; ++turn, ++since) {
        move_one(turn);
        if (sum_ < best_sum_) {
            best_sum_ = sum_;
            best_ = at_;
            since = 0;
        }
    }
}

assignment search::finish() const {
    assignment a;
    a.way = best_;
    std::map<std::pair<uint32_t, link_number>, std::vector<uint32_t>> on;
    for (uint32_t f = 0; f < flows_.size(); ++f) {
        if (ways_[f].empty()) continue;
        for (const uint32_t c : cells(f, best_[f]))
            on[{cells_[c].round, cells_[c].link}].push_back(f);
    }
    for (auto& [where, who] : on) {
        a.worst = std::max(a.worst, uint32_t(who.size()));
        if (who.size() > 1) a.meetings.push_back({where.second, where.first, std::move(who)});
    }
    return a;
}

}  // namespace

assignment assign(std::span<const flow_ways> flows) {
    search s(flows);
    s.improve();
    return s.finish();
}

}  // namespace ef::path
