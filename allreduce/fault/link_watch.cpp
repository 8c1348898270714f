#include "allreduce/fault/link_watch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace ef {
namespace {

constexpr uint64_t usual_ns = 2'000'000'000;  // between two looks while data moves
constexpr uint64_t stalled_ns = 200'000'000;  // while none does
constexpr uint64_t patient_ms = 300;          // what is no stall yet
constexpr size_t most_peers = 16;             // looked at together
// Ports for probes: below the range that Linux gives out by itself, and off the steered ones.
constexpr uint16_t first_port = 24000, ports = 8000;

path::probe_options how_to_probe() {
    path::probe_options o;
    o.most_hops = 6;
    o.attempts = 3;
    o.answer_ms = 100;  // a switch's answer may stand in a queue behind data
    o.deadline_ms = 4000;
    return o;
}

std::string name_of(const fabric::graph& g, fabric::node_id n, const std::string& address) {
    return address.empty() ? g.at(n).name : fmt::format("{} ({})", g.at(n).name, address);
}

// The links that these routers' answers name, up to the first that is not known.
fabric::path links_of(const fabric_view& v, const path::trace& t) {
    fabric::path p;
    for (const path::hop& h : t.hops) {
        const fabric::link_id l = v.link_into(h.address);
        if (l == fabric::none) break;
        p.push_back(l);
    }
    return p;
}

// Links on shortest ways from a to b that leave `at`, by what the file says to be up.
std::vector<fabric::link_id> next_links(const fabric_view& v, fabric::node_id a, fabric::node_id b,
                                        fabric::node_id at) {
    std::vector<fabric::link_id> out;
    for (const fabric::path& p : v.ways().all(a, b, 256))
        for (fabric::link_id l : p)
            if (v.net().edge(l).from == at && std::find(out.begin(), out.end(), l) == out.end())
                out.push_back(l);
    return out;
}

link_finding ends_here(const fabric_view& v, fabric::node_id b, fabric::link_id l,
                       const path::trace& now) {
    const fabric::graph& g = v.net();
    const fabric::link& e = g.edge(l);
    const std::string here =
        now.hops.empty() ? g.at(e.from).name : name_of(g, e.from, now.hops.back().address);
    link_finding f{l, true, false, {}};
    f.text = fmt::format("link {} is down: on the way to {}, {} {} and {} does not answer",
                         g.text_of(l), g.at(b).name, here,
                         now.hops.empty()      ? "sends"
                         : now.refusal.empty() ? "answers"
                                               : "says \"" + now.refusal + "\"",
                         name_of(g, e.to, e.to_address));
    return f;
}

}  // namespace

std::optional<link_finding> judge_way(const fabric_view& v, fabric::node_id a, fabric::node_id b,
                                      const path::trace& now, const path::trace& before) {
    if (!now.why.ok()) return {};
    const fabric::graph& g = v.net();
    const fabric::path seen = links_of(v, now), old = links_of(v, before);
    if (now.reached) {
        // Longer than before: round something. The same length is another of several ways.
        if (!before.reached || now.hops.size() < before.hops.size() || seen == old) return {};
        if (now.hops.size() == before.hops.size()) {
            if (seen.size() != now.hops.size() || old.size() != seen.size()) return {};
            return link_finding{
                fabric::none, false, true,
                fmt::format("the way to {} has moved to other switches", g.at(b).name)};
        }
        for (size_t i = 0; i < std::min(seen.size(), old.size()); ++i) {
            if (seen[i] == old[i]) continue;
            link_finding f{old[i], false, false, {}};
            f.text = fmt::format(
                "link {} is not used any more: the way to {} goes round it, by {} "
                "routers instead of {}",
                g.text_of(old[i]), g.at(b).name, now.hops.size(), before.hops.size());
            return f;
        }
        return {};
    }
    if (seen.size() != now.hops.size()) {
        link_finding f{fabric::none, true, false, {}};
        f.text = fmt::format("the way to {} ends behind {}", g.at(b).name, now.hops.back().address);
        return f;
    }
    // The next link is the one that was taken before, or the only one that can be.
    const bool as_before = before.reached && old.size() == before.hops.size() &&
                           seen.size() <= old.size() &&
                           std::equal(seen.begin(), seen.end(), old.begin());
    if (as_before) {
        const fabric::link_id down = g.edge(g.uplink(b)).reverse;
        return ends_here(v, b, seen.size() < old.size() ? old[seen.size()] : down, now);
    }
    const fabric::node_id at = seen.empty() ? a : g.edge(seen.back()).to;
    const std::vector<fabric::link_id> next = next_links(v, a, b, at);
    if (next.size() == 1) return ends_here(v, b, next.front(), now);
    link_finding f{fabric::none, true, false, {}};
    f.text = fmt::format("the way to {} ends behind {}", g.at(b).name,
                         name_of(g, at, now.hops.empty() ? "" : now.hops.back().address));
    return f;
}

link_watch::link_watch(const group& g, const fabric_view& v)
    : g_(g), v_(v), port_(uint16_t(unsigned(getpid()) * 37u % ports)) {}
link_watch::~link_watch() = default;

void link_watch::step(uint64_t now_ns, std::span<const rank_t> peers, uint64_t stalled_ms) {
    if (prober_) {
        prober_->step();
        if (!prober_->done()) return;
        finish();
        due_ns_ = now_ns + (stalled_ms > patient_ms ? stalled_ns : usual_ns);
        return;
    }
    if (stalled_ms > patient_ms) due_ns_ = std::min(due_ns_, now_ns + stalled_ns);
    if (now_ns < due_ns_ || peers.empty()) return;
    begin(peers);
    due_ns_ = now_ns + usual_ns;
}

void link_watch::begin(std::span<const rank_t> peers) {
    const result<std::vector<endpoint>> self = resolve(g_.info(g_.rank()).address);
    if (!self.ok()) return;
    std::vector<path::tuple> tuples;
    probed_.clear();
    for (rank_t p : peers) {
        if (probed_.size() == most_peers) break;
        const result<std::vector<endpoint>> far = resolve(g_.info(p).address);
        if (!far.ok() || v_.where()[size_t(p)] == v_.where()[size_t(g_.rank())]) continue;
        path::tuple t{path::protocol::tcp, self->front(), far->front()};
        // The same port each time, so that a way can be compared with what it was.
        t.from.set_port(uint16_t(first_port + (port_ + unsigned(p)) % ports));
        tuples.push_back(std::move(t));
        probed_.push_back(p);
    }
    if (!tuples.empty())
        prober_ = std::make_unique<path::prober>(std::move(tuples), how_to_probe());
}

void link_watch::finish() {
    const auto host = [&](rank_t r) { return v_.net().hosts()[v_.where()[size_t(r)]]; };
    for (size_t i = 0; i < probed_.size(); ++i) {
        const path::trace& now = prober_->traces()[i];
        const rank_t peer = probed_[i];
        const auto f = judge_way(v_, host(g_.rank()), host(peer), now, whole_[peer]);
        if (!now.why.ok()) ++port_;  // taken: another one next time, and nothing to compare with
        if (!f) {
            if (now.reached) whole_[peer] = now;
            continue;
        }
        last_ = f->text;
        const std::string key = f->link == fabric::none ? f->text : v_.net().text_of(f->link);
        if (++made_[key] != 2) continue;
        found_.push_back(*f);
        if (!f->moved) continue;
        made_.erase(key);  // it may happen again
        whole_[peer] = now;
    }
    prober_.reset();
}

bool link_watch::next(link_finding& f) {
    if (found_.empty()) return false;
    f = std::move(found_.front());
    found_.erase(found_.begin());
    return true;
}

}  // namespace ef
