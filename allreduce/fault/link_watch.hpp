// link_watch: looks at the ways that this rank's data takes and says which link of the fabric has
// failed. Probes are those of transport/path: they ask the routers, need no privilege, and go to the
// peer's listener from a port of their own, so they take the data's way where the fabric has one
// (BiGraph, opposite sides), and one of its ways where it has several.
//
// A way that ends before its destination names the link behind the last router that answered; one
// that has become longer names the link at which it leaves the old one: the network has gone round
// it. A finding counts when it has been made twice.
//
// Moved by step(), never blocks. One thread at a time.
#pragma once

#include "allreduce/fabric_view.hpp"
#include "transport/path/probe.hpp"

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ef {

struct link_finding {
    fabric::link_id link = fabric::none;  // `none`: not one that the fabric file knows by address
    bool dead = false;                    // nothing gets through; else there is a longer way
    bool moved = false;                   // there is another way of the same length
    std::string text;  // "link U0-L1 is down: on the way to ..., U0 (10.0.0.0) answers and ..."
};

/// What `now` says of the way from host a to host b, which was `before` when it was last whole
/// (empty: never seen). Nothing if it is as it should be, or if that cannot be told. Pure.
std::optional<link_finding> judge_way(const fabric_view& v, fabric::node_id a, fabric::node_id b,
                                      const path::trace& now, const path::trace& before);

class link_watch {
public:
    link_watch(const group& g, const fabric_view& v);
    ~link_watch();

    /// `peers`: whom this rank sends to or hears from now. `stalled_ms`: since when nothing has
    /// moved. Looks at the ways to them every few seconds, and more often when nothing moves.
    void step(uint64_t now_ns, std::span<const rank_t> peers, uint64_t stalled_ms);

    /// A finding that was made twice, once for each link. False: none.
    bool next(link_finding& f);
    /// The last one, for the text of a timeout; empty if there is none.
    const std::string& last() const noexcept { return last_; }

private:
    void begin(std::span<const rank_t> peers);
    void finish();

    const group& g_;
    const fabric_view& v_;
    std::unique_ptr<path::prober> prober_;
    std::vector<rank_t> probed_;
    std::map<rank_t, path::trace> whole_;   // the way when it was last whole
    std::map<std::string, unsigned> made_;  // findings by text, how often
    std::vector<link_finding> found_;
    std::string last_;
    uint64_t due_ns_ = 0;
    uint16_t port_;
};

}  // namespace ef
