// An event is a time at which a rank comes to a round, a flow has its first byte on the way, a stream
// (a flow's part on one path) ends, or a reduction is finished. Ends of streams move whenever rates
// change and are kept apart. All events of one time are taken
// before rates are settled anew.
//
//   rank enters round t --policy--> flow starts --alpha--> streams --fair shares--> all ended
//        ^                                                                             |
//        +---- jitter <--- all of its round t-1 is done <--- gamma <-------------------+
#include "allreduce/cost/simulate.hpp"

#include "allreduce/cost/simulate_share.hpp"
#include "allreduce/cost/simulate_work.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <queue>
#include <unordered_map>

namespace ef::cost {
namespace {

constexpr uint32_t nowhere = 0xffff'ffff;

constexpr double never = std::numeric_limits<double>::infinity();

// Times that differ by rounding only are one time.
constexpr double same_time = 1e-12;

struct event {
    enum kind_t : uint8_t { enters, arrives, received };
    double at;
    uint64_t number;  // between equal times the first that was planned
    kind_t kind;
    uint32_t who;  // rank, transfer, transfer
    bool operator<(const event& o) const noexcept {
        return at != o.at ? at > o.at : number > o.number;
    }
};

/// Even in (0, 1], from the seed and two numbers [splitmix64: Steele, Lea, Flood 2014]; the same on
/// every machine.
double random_of(uint64_t seed, uint64_t a, uint64_t b) {
    uint64_t h = 0;
    for (const uint64_t v : {seed, a, b}) {
        h = (h ^ v) + 0x9e3779b97f4a7c15;
        h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
        h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
        h ^= h >> 31;
    }
    return (double(h >> 11) + 1) * 0x1p-53;
}

double skew_us(rank_t r, const simulation_options& o) {
    return o.skew_us > 0 ? o.skew_us * random_of(o.seed, uint64_t(r), nowhere) : 0;
}

double jitter_us(rank_t r, uint32_t round, const simulation_options& o) {
    return o.jitter_us > 0 ? -o.jitter_us * std::log(random_of(o.seed, uint64_t(r), round)) : 0;
}

/// Times by number, all of which change again and again; the earliest at once. A tree of minima.
class earliest {
public:
    void set(uint32_t i, double at) {
        if (i >= size_) grow(i);
        uint32_t n = size_ + i;
        tree_[n] = at;
        for (n /= 2; n; n /= 2) tree_[n] = std::min(tree_[2 * n], tree_[2 * n + 1]);
    }
    double at() const noexcept { return tree_[1]; }
    /// The first with that time.
    uint32_t who() const noexcept {
        uint32_t n = 1;
        while (n < size_) n = tree_[2 * n] == tree_[n] ? 2 * n : 2 * n + 1;
        return n - size_;
    }

private:
    void grow(uint32_t i) {
        const std::vector<double> old(tree_.begin() + size_, tree_.end());
        size_ = std::bit_ceil(i + 1);
        tree_.assign(2 * size_t(size_), never);
        std::copy(old.begin(), old.end(), tree_.begin() + size_);
        for (uint32_t n = size_ - 1; n; --n) tree_[n] = std::min(tree_[2 * n], tree_[2 * n + 1]);
    }

    uint32_t size_ = 1;
    std::vector<double> tree_{never, never};
};

/// A flow in one round that is under way.
struct transfer {
    uint32_t set = 0, flow = 0, round = 0;
    uint32_t streams = 0;  // that have not ended
};

struct rank_state {
    uint32_t set = nowhere, rep = 0, round = nowhere;  // where it is
    bool in = false;                                   // has entered it
    uint32_t to_receive = 0, to_send = 0;
    double reduced = 0;   // when its reductions so far are finished
    double finished = 0;  // its last event
};

class simulator {
public:
    simulator(const workload& w, const fabric::graph& g, const simulation_options& o)
        : w_(w), o_(o), share_(g, o.efficiency), ranks_(size_t(w.nranks())) {
        result_.round_us.assign(w.rounds(), 0);
        left_.assign(w.rounds(), 0);
    }

    simulation_result run() {
        for (rank_t r = 0; r < w_.nranks(); ++r) advance(r, 0);
        if (o_.how == policy::barrier) release(0);
        for (double now = next(); now < never; now = next()) {
            const double until = now + same_time * (1 + now);
            for (double at = now; at <= until; at = next()) take_next();
            for (const fair_share::stream_id s : share_.settle(now)) ends_.set(s, share_.finish(s));
        }
        double sum = 0;
        for (const rank_state& r : ranks_) {
            result_.us = std::max(result_.us, r.finished);
            sum += r.finished;
        }
        result_.mean_us = ranks_.empty() ? 0 : sum / double(ranks_.size());
        return result_;
    }

private:
    void plan_event(double at, event::kind_t k, uint32_t who) {
        events_.push({at, ++number_, k, who});
    }

    double next() const { return std::min(events_.empty() ? never : events_.top().at, ends_.at()); }

    void take_next() {
        if (events_.empty() || ends_.at() < events_.top().at) return end_stream();
        const event e = events_.top();
        events_.pop();
        switch (e.kind) {
        case event::enters:
            return enter(rank_t(e.who), e.at);
        case event::arrives:
            return send_bytes(e.who, e.at);
        case event::received:
            return receive(e.who, e.at);
        }
    }

    void end_stream() {
        const double at = ends_.at();
        const uint32_t s = ends_.who(), t = transfer_of_[s];
        ends_.set(s, never);
        share_.end(s);
        if (--transfers_[t].streams == 0) complete(t, at);
    }

    // ---------------------------------------------------------------- ranks and rounds

    /// To the next round in which the rank has flows.
    void advance(rank_t r, double now) {
        rank_state& k = ranks_[size_t(r)];
        k.in = false;
        if (k.set != nowhere && k.rep + 1 < w_.set(k.set).repeat) {
            ++k.rep;
        } else {
            k.set = w_.next_set(r, k.set == nowhere ? 0 : k.set + 1);
            k.rep = 0;
            if (k.set == workload::none) {
                k.round = nowhere;
                return;
            }
        }
        k.round = w_.set(k.set).round + k.rep;
        k.to_send = uint32_t(w_.sends(k.set, r).size());
        k.to_receive = uint32_t(w_.receives(k.set, r).size());
        if (const auto it = early_.find({r, k.round}); it != early_.end()) {
            k.to_receive -= it->second;
            early_.erase(it);
        }
        if (o_.how == policy::barrier) ++left_[k.round];
        else come_to(r, now);
    }

    void come_to(rank_t r, double now) {
        const uint32_t round = ranks_[size_t(r)].round;
        const double start = skew_us(r, o_);
        plan_event(std::max(now, start) + jitter_us(r, round, o_), event::enters, uint32_t(r));
    }

    void enter(rank_t r, double now) {
        rank_state& k = ranks_[size_t(r)];
        k.in = true;
        const bool pair = o_.how == policy::pair;
        const auto has_entered = [&](rank_t other) {
            const rank_state& s = ranks_[size_t(other)];
            return s.in && s.round == k.round;
        };
        for (const uint32_t f : w_.sends(k.set, r)) {
            const rank_t to = w_.set(k.set).flows[f].to;
            if (!pair || has_entered(to)) start(k.set, f, k.round, now);
        }
        if (pair)
            for (const uint32_t f : w_.receives(k.set, r)) {
                const rank_t from = w_.set(k.set).flows[f].from;
                if (has_entered(from)) start(k.set, f, k.round, now);
            }
        leave_if_done(r, now);
    }

    void leave_if_done(rank_t r, double now) {
        rank_state& k = ranks_[size_t(r)];
        if (!k.in || k.to_receive || (k.to_send && o_.how != policy::eager)) return;
        const uint32_t round = k.round;
        advance(r, now);
        if (o_.how == policy::barrier && --left_[round] == 0) release(now);
    }

    /// Barrier: the earliest round that is not finished begins.
    void release(double now) {
        uint32_t round = nowhere;
        for (const rank_state& k : ranks_) round = std::min(round, k.round);
        if (round == nowhere) return;
        for (rank_t r = 0; r < w_.nranks(); ++r)
            if (ranks_[size_t(r)].round == round) come_to(r, now);
    }

    // ---------------------------------------------------------------- flows

    void start(uint32_t set, uint32_t flow, uint32_t round, double now) {
        uint32_t t;
        if (free_.empty()) {
            t = uint32_t(transfers_.size());
            transfers_.emplace_back();
        } else {
            t = free_.back();
            free_.pop_back();
        }
        transfers_[t] = {set, flow, round, 0};
        plan_event(now + o_.alpha_us, event::arrives, t);
    }

    void send_bytes(uint32_t t, double now) {
        transfer& v = transfers_[t];
        const double bytes = w_.bytes(v.set, v.flow) / w_.subflows();
        for (uint32_t i = 0; i < w_.subflows(); ++i) {
            const auto path = w_.path(v.set, v.flow, i);
            if (path.empty() || bytes <= 0) continue;
            const fair_share::stream_id s = share_.begin(now, path, bytes);
            if (s >= transfer_of_.size()) transfer_of_.resize(s + 1);
            transfer_of_[s] = t;
            ++v.streams;
        }
        if (v.streams == 0) complete(t, now);
    }

    void complete(uint32_t t, double now) {
        const transfer v = transfers_[t];
        const flow& f = w_.set(v.set).flows[v.flow];
        rank_state &from = ranks_[size_t(f.from)], &to = ranks_[size_t(f.to)];
        from.finished = std::max(from.finished, now);
        if (o_.gamma_ns_per_byte > 0 && v.round < o_.turn) {
            to.reduced =
                std::max(to.reduced, now) + w_.bytes(v.set, v.flow) * o_.gamma_ns_per_byte / 1000;
            plan_event(to.reduced, event::received, t);
        } else {
            receive(t, now);
        }
        // After an eager send the rank may be rounds ahead.
        if (from.round == v.round && from.to_send) {
            --from.to_send;
            leave_if_done(f.from, now);
        }
    }

    void receive(uint32_t t, double now) {
        const transfer v = transfers_[t];
        free_.push_back(t);
        const rank_t r = w_.set(v.set).flows[v.flow].to;
        rank_state& k = ranks_[size_t(r)];
        k.finished = std::max(k.finished, now);
        result_.round_us[v.round] = std::max(result_.round_us[v.round], now);
        if (k.round == v.round) {
            --k.to_receive;
            leave_if_done(r, now);
        } else {
            ++early_[{r, v.round}];
        }
    }

    struct place_hash {
        size_t operator()(const std::pair<rank_t, uint32_t>& p) const noexcept {
            return std::hash<uint64_t>()(uint64_t(p.first) << 32 | p.second);
        }
    };

    const workload& w_;
    const simulation_options& o_;
    fair_share share_;
    std::vector<rank_state> ranks_;
    std::vector<transfer> transfers_;
    std::vector<uint32_t> free_;
    std::vector<uint32_t> transfer_of_;  // by stream of share_
    earliest ends_;                      // of streams
    std::vector<uint32_t> left_;         // barrier, by round: ranks that are not through
    // Received in a round to which the rank has not come.
    std::unordered_map<std::pair<rank_t, uint32_t>, uint32_t, place_hash> early_;
    std::priority_queue<event> events_;
    uint64_t number_ = 0;
    simulation_result result_;
};

/// The link with the most bytes, and how much of its time it worked.
void find_busiest(const workload& w, const fabric::graph& g, double efficiency,
                  simulation_result& out) {
    double most = 0;
    for (fabric::link_id l = 0; l < g.links().size(); ++l)
        if (w.bytes_on_link()[l] > most) {
            most = w.bytes_on_link()[l];
            out.busiest = l;
        }
    if (out.busiest == fabric::none || out.us <= 0) return;
    const double could = g.edge(out.busiest).gbps * 1000 / 8 * efficiency * out.us;
    out.busiest_use = most / could;
}

}  // namespace

result<simulation_result> simulate(std::span<const flow_round> flows, rank_t nranks,
                                   const fabric::routes& routes, const mapping::placement& where,
                                   uint64_t bytes, const simulation_options& o) {
    auto work = workload::make(flows, nranks, routes, where, bytes, o.subflows);
    if (!work.ok()) return work.why();
    simulation_result r = simulator(*work, routes.net(), o).run();
    find_busiest(*work, routes.net(), o.efficiency, r);
    return r;
}

}  // namespace ef::cost
