#include "allreduce/mapping/improve.hpp"

#include <algorithm>
#include <map>

namespace ef::mapping {

namespace {

/// Links between switches on the way from any unit of a switch to a unit, numbered densely: static
/// routes look at the destination only. Links of hosts do not count: a host sends to one other in
/// every round, whoever sits where.
class switch_paths {
public:
    switch_paths(const fabric::graph& g, std::span<const unit> units) {
        const fabric::routes routes(g, {fabric::balance::by_destination, 1});
        std::map<fabric::node_id, uint32_t> stations;
        std::vector<uint32_t> first;  // unit of each
        for (uint32_t u = 0; u < units.size(); ++u) {
            const auto [it, is_new] = stations.emplace(units[u].at, uint32_t(first.size()));
            if (is_new) first.push_back(u);
            station_.push_back(it->second);
        }
        std::vector<uint32_t> number(g.links().size(), fabric::none);
        fabric::path p;
        for (const uint32_t from : first)
            for (const unit& to : units) {
                begin_.push_back(uint32_t(links_.size()));
                p.clear();
                if (units[from].at == to.at) continue;
                reachable_ &= routes.append(units[from].host, to.host, 0, p);
                for (size_t i = 1; i + 1 < p.size(); ++i) {
                    if (number[p[i]] == fabric::none) number[p[i]] = count_++;
                    links_.push_back(number[p[i]]);
                }
            }
        begin_.push_back(uint32_t(links_.size()));
    }
    bool reachable() const { return reachable_; }
    uint32_t links() const { return count_; }
    bool together(uint32_t a, uint32_t b) const { return station_[a] == station_[b]; }
    std::span<const uint32_t> operator()(uint32_t from, uint32_t to) const {
        const size_t i = station_[from] * station_.size() + to;
        return {links_.data() + begin_[i], links_.data() + begin_[i + 1]};
    }

private:
    std::vector<uint32_t> station_, begin_, links_;
    uint32_t count_ = 0;
    bool reachable_ = true;
};

/// One round: who exchanges with whom, by slot, and what that puts on the links.
struct round_flows {
    uint64_t weight;               // of its bytes; the whole vector both ways is 2 * core
    std::vector<uint32_t> with;    // by slot: its partner, or none
    std::vector<uint32_t> flows;   // by link
    std::vector<uint32_t> loaded;  // links with so many flows
    uint32_t most = 0;
    uint64_t squares = 0;

    void add(uint32_t link) {
        uint32_t& f = flows[link];
        --loaded[f];
        squares += 2 * f + 1;
        ++loaded[++f];
        most = std::max(most, f);
    }
    void remove(uint32_t link) {
        uint32_t& f = flows[link];
        --loaded[f];
        squares -= 2 * f - 1;
        ++loaded[--f];
        while (most && loaded[most] == 0) --most;
    }
};

/// Slots are the positions of the core, then the extras.
class search {
public:
    search(const switch_paths& paths, const halving_order& o) : paths_(paths), unit_at_(o.core) {
        const uint32_t core = uint32_t(o.core.size());
        for (const auto& [to, u] : o.extras) unit_at_.push_back(u);
        std::vector<uint32_t> turn(core, 0);
        for (uint32_t i = 0; i < o.extras.size(); ++i) {
            const uint32_t to = o.extras[i].first, t = turn[to]++;
            if (t == rounds_.size()) new_round(2 * core);
            rounds_[t].with[to] = core + i;
            rounds_[t].with[core + i] = to;
        }
        for (uint32_t bit = 1; bit < core; bit *= 2) {
            new_round(core / bit);
            for (uint32_t p = 0; p < core; ++p) rounds_.back().with[p] = p ^ bit;
        }
        for (round_flows& r : rounds_)
            for (uint32_t s = 0; s < unit_at_.size(); ++s)
                if (r.with[s] != fabric::none)
                    for (const uint32_t l : paths_(unit_at_[s], unit_at_[r.with[s]])) r.add(l);
    }

    void run() {
        const uint64_t n = unit_at_.size(), tries = tries_per_unit * n;
        uint64_t now = cost();
        // At first a try may cost this much; in the end nothing.
        const uint64_t slack = now / most_slack;
        for (uint64_t t = 0; t < tries; ++t) {
            const uint32_t x = uint32_t(random() % n), y = uint32_t(random() % n);
            if (paths_.together(unit_at_[x], unit_at_[y])) continue;
            exchange(x, y);
            const uint64_t then = cost();
            if (then <= now + slack * (tries - t) / tries) now = then;
            else exchange(x, y);
        }
    }

    uint32_t unit_at(size_t slot) const { return unit_at_[slot]; }

private:
    static constexpr uint64_t tries_per_unit = 300, most_slack = 100;

    void new_round(uint64_t weight) {
        const size_t n = unit_at_.size();
        rounds_.push_back({weight, std::vector<uint32_t>(n, fabric::none),
                           std::vector<uint32_t>(paths_.links(), 0),
                           std::vector<uint32_t>(2 * n + 1, 0)});
        rounds_.back().loaded[0] = paths_.links();
    }

    uint64_t cost() const {
        uint64_t sum = 0;
        for (const round_flows& r : rounds_)
            sum += r.weight * (2 * unit_at_.size() * std::max(r.most, 1u) + r.squares);
        return sum;
    }

    void exchange(uint32_t x, uint32_t y) {
        flows_of(x, y, &round_flows::remove);
        std::swap(unit_at_[x], unit_at_[y]);
        flows_of(x, y, &round_flows::add);
    }

    // Where x and y are each other's partners an exchange changes nothing.
    void flows_of(uint32_t x, uint32_t y, void (round_flows::*change)(uint32_t)) {
        for (round_flows& r : rounds_)
            for (const uint32_t s : {x, y}) {
                const uint32_t other = r.with[s];
                if (other == fabric::none || other == x || other == y) continue;
                for (const uint32_t l : paths_(unit_at_[s], unit_at_[other])) (r.*change)(l);
                for (const uint32_t l : paths_(unit_at_[other], unit_at_[s])) (r.*change)(l);
            }
    }

    uint64_t random() {  // xorshift64* [Marsaglia 2003, Vigna 2016]
        seed_ ^= seed_ >> 12;
        seed_ ^= seed_ << 25;
        seed_ ^= seed_ >> 27;
        return seed_ * 0x2545'f491'4f6c'dd1d >> 32;
    }

    const switch_paths& paths_;
    std::vector<uint32_t> unit_at_;
    std::vector<round_flows> rounds_;
    uint64_t seed_ = 1;
};

}  // namespace

halving_order improved(const fabric::graph& g, std::span<const unit> units, halving_order from) {
    const switch_paths paths(g, units);
    if (!paths.reachable()) return from;
    search s(paths, from);
    s.run();
    const size_t core = from.core.size();
    for (size_t i = 0; i < core; ++i) from.core[i] = s.unit_at(i);
    for (size_t i = 0; i < from.extras.size(); ++i) from.extras[i].second = s.unit_at(core + i);
    from.says = "order found by search";
    return from;
}

}  // namespace ef::mapping
