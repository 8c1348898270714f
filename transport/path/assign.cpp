// A search in the manner of min-conflicts with a tabu list [Minton et al. 1992; Glover 1989]: start
// greedily, then move one flow out of the crowded links at a time, to the way that costs least, and
// keep the best state seen. What it leaves, chains of moves repair. If flows still meet: the same
// with room on every link for one flow less than the fullest has now, as long as that works; and at
// last for fewer meetings without filling any link more.
#include "transport/path/assign.hpp"

#include "transport/path/chain.hpp"
#include "transport/path/occupancy.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace ef::path {
namespace {

constexpr uint32_t nowhere = ~uint32_t(0), unlimited = ~uint32_t(0);

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

class search {
public:
    explicit search(occupancy& on) : on_(on), barred_(on.flows()), place_(on.flows(), nowhere) {
        for (uint32_t f = 0; f < on_.flows(); ++f) barred_[f].resize(on_.ways(f));
    }

    void start();
    /// Leaves the occupancy at the best state that was seen.
    void wander();
    void repair();
    bool done() const noexcept { return on_.cost() == 0; }

private:
    uint32_t cheapest(uint32_t f) const noexcept;
    bool crowded(uint32_t f) const noexcept;
    void note(uint32_t f);
    void note_around(uint32_t f, uint32_t w);
    void move_one(uint64_t best);

    occupancy& on_;
    std::vector<std::vector<uint64_t>> barred_;  // flow, way: until which turn
    std::vector<uint32_t> crowd_, place_;        // flows on crowded cells; where in it
    random_source random_;
    uint64_t turn_ = 0;
};

uint32_t search::cheapest(uint32_t f) const noexcept {
    uint32_t best = 0;
    uint64_t least = ~uint64_t(0);
    // From a different one for each flow, so that equal prices do not heap all on the first.
    const uint32_t n = on_.ways(f);
    for (uint32_t i = 0; i < n; ++i) {
        const uint32_t w = (f + i) % n;
        const uint64_t p = on_.price(f, w);
        if (p < least) {
            least = p;
            best = w;
        }
    }
    return best;
}

// Those with the fewest ways choose first.
void search::start() {
    std::vector<uint32_t> order(on_.flows());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return on_.ways(a) < on_.ways(b); });
    for (const uint32_t f : order) on_.put(f, cheapest(f));
}

bool search::crowded(uint32_t f) const noexcept {
    if (on_.ways(f) < 2) return false;
    for (const uint32_t c : on_.cells(f, on_.chosen()[f]))
        if (on_.at(c).above()) return true;
    return false;
}

void search::note(uint32_t f) {
    const bool is = crowded(f), was = place_[f] != nowhere;
    if (is == was) return;
    if (is) {
        place_[f] = uint32_t(crowd_.size());
        crowd_.push_back(f);
    } else {
        crowd_[place_[f]] = crowd_.back();
        place_[crowd_.back()] = place_[f];
        crowd_.pop_back();
        place_[f] = nowhere;
    }
}

void search::note_around(uint32_t f, uint32_t w) {
    for (const uint32_t c : on_.cells(f, w))
        for (const uint32_t other : on_.at(c).who) note(other);
}

void search::move_one(uint64_t best) {
    const uint32_t f = crowd_[random_.below(uint32_t(crowd_.size()))];
    const uint32_t from = on_.chosen()[f];
    on_.lift(f);
    uint32_t to = from, equals = 0;
    uint64_t least = ~uint64_t(0);
    for (uint32_t w = 0; w < on_.ways(f); ++w) {
        if (w == from) continue;
        const uint64_t p = on_.price(f, w);
        if (barred_[f][w] > turn_ && on_.cost() + p >= best) continue;
        if (p < least) {
            least = p;
            to = w;
            equals = 1;
        } else if (p == least && random_.below(++equals) == 0) {
            to = w;
        }
    }
    barred_[f][from] = turn_ + 4 + random_.below(8);
    on_.put(f, to);
    note(f);
    note_around(f, from);
    note_around(f, to);
}

void search::wander() {
    std::vector<uint32_t> best = on_.chosen();
    uint64_t least = on_.cost();
    // Turns without a new best. A turn is about a microsecond.
    const uint64_t patience = 2000 + 8 * uint64_t(on_.flows());
    for (uint32_t f = 0; f < on_.flows(); ++f) note(f);
    for (uint64_t since = 0; !crowd_.empty() && since < patience; ++since) {
        move_one(least);
        ++turn_;
        if (on_.cost() < least) {
            least = on_.cost();
            best = on_.chosen();
            since = 0;
        }
    }
    on_.restore(best);
}

void search::repair() {
    chains c(on_);
    // Moves; one is about a microsecond.
    uint64_t effort = 100'000;
    for (bool better = true; better && !done();) {
        better = false;
        for (uint32_t f = 0; f < on_.flows() && effort > 0; ++f)
            while (effort > 0 && crowded(f) && c.relieve(f, effort)) better = true;
    }
}

assignment describe(const occupancy& on) {
    assignment a;
    a.way = on.chosen();
    std::map<std::pair<uint32_t, link_number>, std::vector<uint32_t>> who;
    for (uint32_t f = 0; f < on.flows(); ++f) {
        if (on.ways(f) == 0) continue;
        for (const uint32_t c : on.cells(f, a.way[f]))
            who[{on.at(c).round, on.at(c).link}].push_back(f);
    }
    for (auto& [where, flows] : who) {
        a.worst = std::max(a.worst, uint32_t(flows.size()));
        if (flows.size() > 1) a.meetings.push_back({where.second, where.first, std::move(flows)});
    }
    return a;
}

}  // namespace

assignment assign(std::span<const flow_ways> flows) {
    occupancy on(flows);
    search s(on);
    s.start();
    s.wander();
    s.repair();
    const uint32_t first = on.worst();
    std::vector<uint32_t> kept = on.chosen();
    uint32_t worst = first;
    for (; worst > on.least_worst(); --worst) {
        on.set_room(worst - 1, unlimited);
        s.wander();
        s.repair();
        if (!s.done()) break;
        kept = on.chosen();
    }
    // What has room for more took no care of what could be empty.
    on.set_room(1, worst);
    on.restore(kept);
    if (worst < first) {
        s.wander();
        s.repair();
    }
    return describe(on);
}

}  // namespace ef::path
