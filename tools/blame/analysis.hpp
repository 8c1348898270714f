// analysis: who is to blame for a hang, from the flight records of a communicator's ranks.
//
// A rank waits for those peers whose messages have not come or have not been taken. Followed from
// rank to rank, these edges end at whoever does not answer:
//
//      0 ---> 1 ---> 3        3 left no record: stopped, dead, or not in a call
//             ^               3 called another operation, or came long after the others
//      2 -----+               or they end nowhere: a cycle of ranks that wait for each other
//
// In this order of evidence: different calls at the same number explain everything that comes after
// them; then a rank that is silent; then one that is behind or was late; then a cycle.
#pragma once

#include "tools/blame/records.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace ef::blame {

struct culprit {
    std::string kind;  // mismatch, no_record, behind, late, cycle
    std::vector<int64_t> ranks;
    std::string text;
};

struct verdict {
    std::string communicator;
    std::vector<peer> peers;
    std::vector<int64_t> recorded;  // ranks
    std::vector<culprit> culprits;
    std::vector<int64_t> chain;      // from a rank that waits to the first culprit
    std::vector<std::string> links;  // what each of the chain waits for from the next
    bool hang = false;               // something was pending
};

class analysis {
public:
    /// Records of one communicator, at most one per rank.
    explicit analysis(std::vector<const record*> records) {
        peers_ = records.front()->peers;
        v_.communicator = records.front()->communicator;
        for (const record* r : records) {
            by_rank_[r->rank] = r;
            v_.recorded.push_back(r->rank);
            v_.hang |= r->pending();
            for (const waiting& w : r->waits)
                if (w.peer != r->rank) waits_[r->rank].insert(w.peer);
        }
        std::sort(v_.recorded.begin(), v_.recorded.end());
        v_.peers = peers_;
    }

    verdict run() {
        if (!v_.hang) return v_;
        find_mismatch();
        find_silent();
        if (v_.culprits.empty()) find_behind();
        if (v_.culprits.empty()) find_late();
        if (v_.culprits.empty()) find_cycle();
        if (!v_.culprits.empty()) find_chain();
        return v_;
    }

    std::string name(int64_t r) const {
        const peer& p = peers_[size_t(r)];
        return fmt::format("rank {} ({}, pid {})", r, p.host, p.pid);
    }

private:
    static std::string list(const std::vector<int64_t>& ranks) {
        return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
    }

    /// Ranks that wait for `target`, directly or through others, without it.
    std::vector<int64_t> who_waits_for(int64_t target) const {
        std::set<int64_t> found{target};
        for (bool more = true; more;) {
            more = false;
            for (const auto& [r, peers] : waits_)
                for (int64_t p : peers)
                    if (found.count(p) && found.insert(r).second) more = true;
        }
        found.erase(target);
        return {found.begin(), found.end()};
    }

    // The ranks at the lowest pending number disagree: the smaller group is to blame, both are
    // named.
    void find_mismatch() {
        std::map<uint64_t, std::map<std::string, std::vector<int64_t>>> calls;
        for (const auto& [rank, r] : by_rank_)
            if (const operation* o = r->pending_collective())
                calls[o->number][o->text()].push_back(rank);
        for (const auto& [number, by_text] : calls) {
            if (by_text.size() < 2) continue;
            const auto fewer = [](const auto& a, const auto& b) {
                return a.second.size() < b.second.size();
            };
            const auto odd = std::min_element(by_text.begin(), by_text.end(), fewer);
            std::string others;
            for (const auto& [text, ranks] : by_text)
                if (text != odd->first)
                    others += fmt::format("{}{} called {}", others.empty() ? "" : "; ", list(ranks),
                                          text);
            std::string who;
            for (int64_t r : odd->second) who += (who.empty() ? "" : ", ") + name(r);
            v_.culprits.push_back({"mismatch", odd->second,
                                   fmt::format("{} called {}, but {}", who, odd->first, others)});
            return;
        }
    }

    void find_silent() {
        for (int64_t r = 0; r < int64_t(peers_.size()); ++r) {
            if (by_rank_.count(r)) continue;
            const std::vector<int64_t> waiters = who_waits_for(r);
            if (waiters.empty()) continue;
            v_.culprits.push_back(
                {"no_record",
                 {r},
                 fmt::format(
                     "{} left no record: it is stopped or dead, or was in no call; {} wait{} "
                     "for it",
                     name(r), list(waiters), waiters.size() == 1 ? "s" : "")});
        }
    }

    // Ranks that have not called what the others are in.
    void find_behind() {
        uint64_t newest = 0;
        std::string newest_text;
        for (const auto& [rank, r] : by_rank_)
            if (const operation* o = r->pending_collective(); o && o->number >= newest) {
                newest = o->number;
                newest_text = fmt::format("{} #{}", o->what, o->number);
            }
        for (const auto& [rank, r] : by_rank_) {
            const operation* now = r->pending_collective();
            const operation* last = r->last_finished_collective();
            if (now ? now->number >= newest : (last ? last->number : 0) >= newest) continue;
            if (who_waits_for(rank).empty()) continue;
            std::string text = fmt::format("{} is still before {}", name(rank), newest_text);
            if (now) {
                text += fmt::format("; it is in {} #{}", now->what, now->number);
                // Then it waits itself, and is to blame only if that leads nowhere.
                if (waits_.count(rank) && !waits_.at(rank).empty()) continue;
            } else if (last) {
                text += fmt::format(
                    "; it finished #{} {:.1f} s before its record was written and "
                    "has not called again",
                    last->number, double(last->ended_ms_ago) / 1000);
            } else {
                text += "; it has called nothing";
            }
            v_.culprits.push_back({"behind", {rank}, text});
        }
    }

    // A rank that called only when another had already given up. Clocks of hosts differ: a second.
    void find_late() {
        int64_t first_written = INT64_MAX;
        for (const auto& [rank, r] : by_rank_)
            first_written = std::min(first_written, r->written_unix_ms);
        for (const auto& [rank, r] : by_rank_) {
            const operation* o = r->pending_collective();
            if (!o || who_waits_for(rank).empty()) continue;
            const int64_t late_ms = r->written_unix_ms - o->began_ms_ago - first_written;
            if (late_ms < 1000) continue;
            v_.culprits.push_back(
                {"late",
                 {rank},
                 fmt::format("{} called {} #{} {:.1f} s after the first rank had given up",
                             name(rank), o->what, o->number, double(late_ms) / 1000)});
        }
    }

    void find_cycle() {
        for (const auto& [start, peers] : waits_) {
            std::vector<int64_t> path{start};
            for (int64_t next = start; !waits_[next].empty();) {
                next = *waits_[next].begin();
                const auto seen = std::find(path.begin(), path.end(), next);
                if (seen == path.end()) {
                    path.push_back(next);
                    continue;
                }
                const std::vector<int64_t> ring(seen, path.end());
                std::string text = "ranks wait for each other: ";
                for (int64_t r : ring)
                    text += fmt::format("{} in {} for {}; ", name(r), in_what(r),
                                        fmt::format("rank {}", *waits_[r].begin()));
                text.resize(text.size() - 2);
                v_.culprits.push_back({"cycle", ring, text});
                return;
            }
        }
    }

    std::string in_what(int64_t rank) const {
        const auto it = by_rank_.find(rank);
        if (it == by_rank_.end()) return "?";
        for (const operation& o : it->second->operations)
            if (o.pending) return fmt::format("{} #{}", o.what, o.number);
        return "no call";
    }

    // The longest of the shortest ways to the first culprit shows most of what happened.
    void find_chain() {
        const int64_t target = v_.culprits.front().ranks.front();
        std::map<int64_t, int64_t> next;  // towards the target
        std::vector<int64_t> order{target};
        for (size_t i = 0; i < order.size(); ++i)
            for (const auto& [r, peers] : waits_)
                if (r != target && peers.count(order[i]) && next.emplace(r, order[i]).second)
                    order.push_back(r);
        if (order.size() == 1) return;
        for (int64_t r = order.back(); r != target; r = next.at(r)) {
            v_.chain.push_back(r);
            v_.links.push_back(link(r, next.at(r)));
        }
        v_.chain.push_back(target);
    }

    std::string link(int64_t from, int64_t to) const {
        const record& r = *by_rank_.at(from);
        for (const waiting& w : r.waits)
            if (w.peer == to)
                return fmt::format("{}: waits for rank {} to {} ({} of {} bytes, round {}, {})",
                                   in_what(from), to, w.taking ? "take" : "send", w.bytes_done,
                                   w.bytes, w.round, w.medium);
        return {};
    }

    std::vector<peer> peers_;
    std::map<int64_t, const record*> by_rank_;
    std::map<int64_t, std::set<int64_t>> waits_;
    verdict v_;
};

/// One verdict per communicator. Records belong together if their ranks are the same processes; a
/// process numbers its communicators on its own, so among several of the same ranks the first of
/// each rank go together, then the second, and so on.
inline std::vector<verdict> analyse(const std::vector<record>& records) {
    std::vector<std::vector<const record*>> groups;
    std::vector<const record*> sorted;
    for (const record& r : records) sorted.push_back(&r);
    std::stable_sort(sorted.begin(), sorted.end(), [](const record* a, const record* b) {
        return std::pair(a->communicator.size(), a->communicator) <
               std::pair(b->communicator.size(), b->communicator);
    });
    for (const record* r : sorted) {
        const auto fits = [&](const std::vector<const record*>& g) {
            return g.front()->peers == r->peers &&
                   std::none_of(g.begin(), g.end(),
                                [&](const record* o) { return o->rank == r->rank; });
        };
        const auto g = std::find_if(groups.begin(), groups.end(), fits);
        if (g != groups.end()) g->push_back(r);
        else groups.push_back({r});
    }
    std::vector<verdict> all;
    for (auto& g : groups) all.push_back(analysis(g).run());
    return all;
}

}  // namespace ef::blame
