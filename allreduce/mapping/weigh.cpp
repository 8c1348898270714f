#include "allreduce/mapping/arrange.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

namespace ef::mapping {

namespace {

/// Flows on the links in one round.
class round_links {
public:
    round_links(const fabric::graph& g, std::span<const unit> units)
        : g_(g),
          units_(units),
          routes_(g, {fabric::balance::by_destination, 1}),
          flows_(g.links().size(), 0) {}

    void add(uint32_t from, uint32_t to) {
        const fabric::node_id a = units_[from].host, b = units_[to].host;
        path_.clear();
        if (a != b && !routes_.append(a, b, 0, path_)) reachable_ = false;
        for (const fabric::link_id l : path_) {
            if (flows_[l]++ == 0) used_.push_back(l);
            fullest_ = std::max(fullest_, flows_[l] / g_.edge(l).gbps);
        }
    }
    /// Of what was added since the last call, for one vector per flow.
    double time() {
        for (const fabric::link_id l : used_) flows_[l] = 0;
        used_.clear();
        return std::exchange(fullest_, 0);
    }
    bool reachable() const { return reachable_; }

private:
    const fabric::graph& g_;
    std::span<const unit> units_;
    fabric::routes routes_;
    std::vector<uint32_t> flows_;  // by link
    std::vector<fabric::link_id> used_;
    fabric::path path_;
    double fullest_ = 0;
    bool reachable_ = true;
};

/// Extras by how many of the same core position come before them.
std::vector<std::vector<size_t>> turns_of(const halving_order& o) {
    std::vector<std::vector<size_t>> turns;
    std::map<uint32_t, uint32_t> before;
    for (size_t i = 0; i < o.extras.size(); ++i) {
        const uint32_t turn = before[o.extras[i].first]++;
        if (turn >= turns.size()) turns.resize(turn + 1);
        turns[turn].push_back(i);
    }
    return turns;
}

}  // namespace

double in_step_time(const fabric::graph& g, std::span<const unit> units, const halving_order& o) {
    round_links links(g, units);
    double time = 0;
    for (const std::vector<size_t>& turn : turns_of(o)) {
        for (const size_t i : turn) links.add(o.extras[i].second, o.core[o.extras[i].first]);
        time += links.time();
        for (const size_t i : turn) links.add(o.core[o.extras[i].first], o.extras[i].second);
        time += links.time();
    }
    double part = 1;
    for (size_t bit = 1; bit < o.core.size(); bit *= 2) {
        part /= 2;
        for (size_t p = 0; p < o.core.size(); ++p) links.add(o.core[p], o.core[p ^ bit]);
        time += 2 * part * links.time();
    }
    return links.reachable() ? time : std::numeric_limits<double>::infinity();
}

}  // namespace ef::mapping
