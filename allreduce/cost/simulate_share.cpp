#include "allreduce/cost/simulate_share.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace ef::cost {

using fabric::link_id;

fair_share::fair_share(const fabric::graph& g, double efficiency) {
    links_.resize(g.links().size());
    constexpr double bytes_per_us = 1000.0 / 8;  // of 1 Gb/s
    for (link_id l = 0; l < links_.size(); ++l)
        links_[l].capacity = g.edge(l).gbps * bytes_per_us * efficiency;
}

void fair_share::touch(link_id l) {
    link& k = links_[l];
    if (k.touched) return;
    k.touched = true;
    k.was_full = full(k.used, k.capacity);
    touched_.push_back(l);
}

fair_share::stream_id fair_share::begin(double now, std::span<const link_id> path, double bytes) {
    stream_id s;
    if (free_.empty()) {
        s = stream_id(streams_.size());
        streams_.emplace_back();
    } else {
        s = free_.back();
        free_.pop_back();
    }
    streams_[s] = {path, bytes, 0, now, 0, false};
    for (const link_id l : path) {
        touch(l);
        links_[l].on.push_back(s);
    }
    came_.push_back(s);
    return s;
}

void fair_share::end(stream_id s) {
    stream& t = streams_[s];
    for (const link_id l : t.path) {
        touch(l);
        link& k = links_[l];
        k.used = std::max(0.0, k.used - t.rate);
        *std::find(k.on.begin(), k.on.end(), s) = k.on.back();
        k.on.pop_back();
    }
    t.path = {};
    t.rate = 0;
    free_.push_back(s);
}

void fair_share::join(stream_id s) {
    stream& t = streams_[s];
    if (t.in) return;
    t.in = true;
    solving_.push_back(s);
    for (const link_id l : t.path) touch(l);
}

/// With a link that was full all streams on it.
void fair_share::close() {
    for (; closed_ < touched_.size(); ++closed_) {
        const link& k = links_[touched_[closed_]];
        if (!k.was_full) continue;
        for (const stream_id s : k.on) join(s);
    }
}

/// Progressive filling of solving_ beside the others: the link with the least room for each stream
/// stops all that pass it. Room for each only grows on the other links while that goes on, so what the
/// heap says of a link is at most what it has.
void fair_share::fill() {
    heap_.clear();
    for (const link_id l : touched_) {
        link& k = links_[l];
        k.open = 0;
        k.others = 0;
        for (const stream_id s : k.on) {
            if (streams_[s].in) ++k.open;
            else k.others += streams_[s].rate;
        }
        k.room = std::max(0.0, k.capacity - k.others);
        if (k.open) heap_.emplace_back(k.room / k.open, l);
    }
    for (const stream_id s : solving_) streams_[s].next = -1;
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
    while (!heap_.empty()) {
        std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
        const auto [said, l] = heap_.back();
        const link& k = links_[l];
        const double each = k.open ? k.room / k.open : 0;
        if (k.open && each > said * (1 + 1e-12)) {
            heap_.back().first = each;
            std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
            continue;
        }
        heap_.pop_back();
        if (k.open) stop_all(k, each);
    }
}

void fair_share::stop_all(const link& k, double rate) {
    for (const stream_id s : k.on) {
        stream& t = streams_[s];
        if (!t.in || t.next >= 0) continue;
        t.next = rate;
        for (const link_id m : t.path) {
            links_[m].room = std::max(0.0, links_[m].room - rate);
            --links_[m].open;
        }
    }
}

/// Links that are full now and have streams outside: they join. False if there are none.
bool fair_share::grow() {
    const size_t before = solving_.size();
    for (size_t i = 0; i < touched_.size(); ++i) {
        const link_id l = touched_[i];
        if (links_[l].others <= 0 || !full(links_[l].capacity - links_[l].room, links_[l].capacity))
            continue;
        for (const stream_id s : links_[l].on) join(s);
    }
    close();
    return solving_.size() > before;
}

void fair_share::commit(double now) {
    for (const stream_id s : solving_) {
        stream& t = streams_[s];
        t.in = false;
        const bool same = std::abs(t.next - t.rate) <= 1e-12 * t.next;
        if (same) continue;
        t.left = std::max(0.0, t.left - t.rate * (now - t.since));
        t.since = now;
        t.rate = t.next;
        changed_.push_back(s);
    }
    for (const link_id l : touched_) {
        link& k = links_[l];
        k.touched = false;
        k.used = 0;
        for (const stream_id s : k.on) k.used += streams_[s].rate;
    }
    touched_.clear();
    solving_.clear();
    came_.clear();
    closed_ = 0;
}

std::span<const fair_share::stream_id> fair_share::settle(double now) {
    changed_.clear();
    // What came and went since then has no path.
    for (const stream_id s : came_)
        if (!streams_[s].path.empty()) join(s);
    close();
    if (!solving_.empty()) do
            fill();
        while (grow());
    commit(now);
    return changed_;
}

}  // namespace ef::cost
