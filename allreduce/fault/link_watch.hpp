// link_watch: looks at the ways that this rank's data takes and says which link of the fabric has
// failed. Probes are those of transport/path: they ask the routers, need no privilege, and go to the
// peer's listener from a port of their own, so they take the data's way where the fabric has one
// (BiGraph, opposite sides), and one of its ways where it has several; where ways are chosen, the
// port is one that led along the chosen way.
//
// A finding counts when two looks in a row have made it: one may have met a full queue.
//
// Moved by step(), never blocks. One thread at a time.
#pragma once

#include "allreduce/fault/judge.hpp"

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace ef {

/// When to look: every 2 s while data moves; after 0.2 s where a finding waits to be made again, or
/// where nothing moves, and then less and less often as long as the network shows no fault.
class look_pace {
public:
    bool due(uint64_t now_ns, uint64_t stalled_ms) const noexcept;
    void looked(uint64_t now_ns, uint64_t stalled_ms, bool doubtful) noexcept;

private:
    uint64_t at_ns_ = 0;  // the last look's end; 0: none yet
    unsigned fruitless_ = 0;
    bool doubtful_ = false;
};

/// Findings by the peer that was on the way. Remembers no more than what is wrong now.
class finding_book {
public:
    /// A look has shown this; less sure than what is known of this way already, it is not heard.
    /// True: it counts now, and has not been told yet. `key`: the same for
    /// all findings that are to be told only once.
    bool note(rank_t peer, const std::string& key, link_finding f);
    /// A look has shown nothing.
    void fine(rank_t peer);
    void clear();

    /// Has a finding been made once and not twice?
    bool doubtful() const noexcept;
    /// What is wrong at present, the most telling one of at least this proof, also if it does not
    /// count yet; empty: nothing.
    std::string text(uint8_t least_proof) const;

private:
    struct entry {
        std::string key;
        unsigned times = 0;  // in a row; counts up to 2
        link_finding what;
    };
    bool found_by_others(const std::string& key) const;

    std::map<rank_t, entry> entries_;
    std::set<std::string> told_;
};

class link_watch {
public:
    /// Whom this rank sends to or hears from now. `port`: a source port whose way is that of the
    /// data and that no connection has; 0: any.
    struct watched {
        rank_t peer;
        uint16_t port;
    };

    link_watch(const group& g, const fabric_view& v);
    ~link_watch();

    /// Is a look to begin? `stalled_ms`: since when nothing has moved.
    bool due(uint64_t now_ns, uint64_t stalled_ms) const noexcept {
        return !prober_ && pace_.due(now_ns, stalled_ms);
    }
    /// Begin one; nothing happens if one is under way. Of many peers the first are always looked
    /// at, the others in turns.
    void look(std::span<const watched> peers);
    /// Move the one that is under way.
    void step(uint64_t now_ns, uint64_t stalled_ms);

    /// A finding that counts: told once for each link, and again if it has been healthy in between.
    /// False: none.
    bool next(link_finding& f);
    /// What is wrong at present, for the text of a timeout; empty: nothing is known to be.
    std::string text(uint8_t least_proof) const { return book_.text(least_proof); }

    /// The network or the plans have changed: what was seen is no measure any more. Ends a look.
    void forget();

private:
    struct way {
        uint16_t given = 0, turned_down = 0;  // ports
        uint16_t shift = 0;                   // of a port that is not given, where it is taken
        path::trace whole;                    // when it was last whole
    };
    uint16_t port_for(const watched& w);
    void finish();

    const group& g_;
    const fabric_view& v_;
    look_pace pace_;
    finding_book book_;
    std::unique_ptr<path::prober> prober_;
    std::vector<rank_t> probed_;
    std::map<rank_t, way> ways_;
    std::vector<link_finding> found_;
    uint64_t stepped_ns_ = 0;
    size_t turn_ = 0;
    uint16_t port_;
};

}  // namespace ef
