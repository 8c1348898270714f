#include "allreduce/fault/link_watch.hpp"

#include "transport/base/clock.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

namespace ef {
namespace {

constexpr uint64_t usual_ns = 2'000'000'000;  // between two looks
constexpr uint64_t soon_ns = 200'000'000;     // between two where something is odd
constexpr uint64_t patient_ms = 300;          // what is no stall yet
constexpr unsigned most_doublings = 4;
constexpr size_t most_peers = 8;    // looked at together: 8 peers are about 40 probes a look
constexpr size_t always_peers = 4;  // of these, from the front of the list
// Nobody moved the look for so long: its deadline may have passed without a fault of the network.
constexpr uint64_t absence_ns = 1'000'000'000;
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

}  // namespace

// ---------------------------------------------------------------- pace

bool look_pace::due(uint64_t now_ns, uint64_t stalled_ms) const noexcept {
    if (at_ns_ == 0) return true;
    uint64_t gap = usual_ns;
    if (doubtful_) gap = soon_ns;
    else if (stalled_ms > patient_ms)
        gap = std::min(usual_ns, soon_ns << std::min(fruitless_, most_doublings));
    return now_ns >= at_ns_ + gap;
}

void look_pace::looked(uint64_t now_ns, uint64_t stalled_ms, bool doubtful) noexcept {
    at_ns_ = std::max<uint64_t>(now_ns, 1);
    doubtful_ = doubtful;
    fruitless_ = stalled_ms > patient_ms ? std::min(fruitless_ + 1, most_doublings) : 0;
}

// ---------------------------------------------------------------- findings

bool finding_book::note(rank_t peer, const std::string& key, link_finding f) {
    entry& e = entries_[peer];
    if (e.times && f.proof < e.what.proof) return false;  // says less of what is known already
    if (const std::string before = std::exchange(e.key, key); before != key) {
        e.times = 0;
        if (!found_by_others(before)) told_.erase(before);
    }
    e.what = std::move(f);
    e.times = std::min(e.times + 1, 2u);
    return e.times == 2 && told_.insert(key).second;
}

bool finding_book::found_by_others(const std::string& key) const {
    return std::any_of(entries_.begin(), entries_.end(),
                       [&](const auto& e) { return e.second.key == key; });
}

void finding_book::fine(rank_t peer) {
    const auto at = entries_.find(peer);
    if (at == entries_.end()) return;
    const std::string key = at->second.key;
    entries_.erase(at);
    if (!found_by_others(key)) told_.erase(key);
}

void finding_book::clear() {
    entries_.clear();
    told_.clear();
}

bool finding_book::doubtful() const noexcept {
    return std::any_of(entries_.begin(), entries_.end(),
                       [](const auto& e) { return e.second.times == 1; });
}

std::string finding_book::text(uint8_t least_proof) const {
    const entry* best = nullptr;
    const auto telling = [](const entry& e) {
        return 4 * e.what.dead + 2 * (e.what.link != fabric::none) + (e.what.proof > 0);
    };
    for (const auto& [peer, e] : entries_)
        if (!e.what.moved && e.what.proof >= least_proof && (!best || telling(e) > telling(*best)))
            best = &e;
    return best ? best->what.text : std::string();
}

// ---------------------------------------------------------------- looks

link_watch::link_watch(const group& g, const fabric_view& v)
    : g_(g), v_(v), port_(uint16_t(unsigned(getpid()) * 37u % ports)) {}
link_watch::~link_watch() = default;

// The same port each time, so that a way can be compared with what it was.
uint16_t link_watch::port_for(const watched& w) {
    way& is = ways_[w.peer];
    const uint16_t given = w.port == is.turned_down ? 0 : w.port;
    if (given != is.given) is.whole = {};
    is.given = given;
    return given ? given : uint16_t(first_port + (port_ + unsigned(w.peer) + is.shift) % ports);
}

void link_watch::look(std::span<const watched> peers) {
    if (prober_) return;
    const result<std::vector<endpoint>> self = resolve(g_.info(g_.rank()).address);
    if (!self.ok()) return;
    std::vector<path::tuple> tuples;
    probed_.clear();
    for (size_t i = 0; i < peers.size() && probed_.size() < most_peers; ++i) {
        const size_t others = peers.size() - std::min(peers.size(), always_peers);
        const size_t at = i < always_peers ? i : always_peers + (i - always_peers + turn_) % others;
        const watched& w = peers[at];
        const result<std::vector<endpoint>> far = resolve(g_.info(w.peer).address);
        if (!far.ok() || v_.where()[size_t(w.peer)] == v_.where()[size_t(g_.rank())] ||
            std::find(probed_.begin(), probed_.end(), w.peer) != probed_.end())
            continue;
        path::tuple t{path::protocol::tcp, self->front(), far->front()};
        t.from.set_port(port_for(w));
        tuples.push_back(std::move(t));
        probed_.push_back(w.peer);
    }
    turn_ += most_peers - always_peers;
    stepped_ns_ = now_ns();
    if (tuples.empty()) pace_.looked(stepped_ns_, 0, false);
    else prober_ = std::make_unique<path::prober>(std::move(tuples), how_to_probe());
}

void link_watch::step(uint64_t now_ns, uint64_t stalled_ms) {
    if (!prober_) return;
    const bool absent = now_ns > stepped_ns_ + absence_ns;
    stepped_ns_ = now_ns;
    if (!absent) {
        prober_->step();
        if (!prober_->done()) return;
        finish();
    }
    prober_.reset();
    pace_.looked(now_ns, stalled_ms, book_.doubtful());
}

void link_watch::finish() {
    const fabric::graph& g = v_.net();
    const auto host = [&](rank_t r) { return g.hosts()[v_.where()[size_t(r)]]; };
    for (size_t i = 0; i < probed_.size(); ++i) {
        const path::trace& now = prober_->traces()[i];
        const rank_t peer = probed_[i];
        way& w = ways_[peer];
        if (!now.why.ok()) {  // the port is taken: another one, whose way may be another one too
            if (w.given) w.turned_down = w.given;
            else ++w.shift;
            w.whole = {};
            continue;
        }
        std::optional<link_finding> f = judge_way(v_, host(g_.rank()), host(peer), now, w.whole);
        if (!f) {
            book_.fine(peer);
            if (now.reached) w.whole = now;
            continue;
        }
        const bool known = f->link != fabric::none;
        const std::string key =
            known ? g.text_of(std::min(f->link, g.edge(f->link).reverse)) : f->text;
        if (!book_.note(peer, key, *f)) continue;
        if (f->moved) w.whole = now;  // the next look finds it as it is
        found_.push_back(std::move(*f));
    }
}

bool link_watch::next(link_finding& f) {
    if (found_.empty()) return false;
    f = std::move(found_.front());
    found_.erase(found_.begin());
    return true;
}

void link_watch::forget() {
    prober_.reset();
    ways_.clear();
    book_.clear();
    found_.clear();
    pace_ = {};
}

}  // namespace ef
