// routes: which links a flow takes. Shortest paths over links that are up; where several are equal,
// a rule picks:
//
//   hash            ECMP: each switch hashes (its own seed, source host, destination host, subflow)
//                   and takes that next hop. Each flow keeps its path; nobody balances.
//   by_destination  static routes, as a subnet manager or an operator would set them. Up from the
//                   first switch and over lanes: index of the destination's port modulo the number
//                   of choices; further up: index of its switch (D-mod-K [Zahavi 2010], digit by
//                   digit). Between two switches of a BiGraph, lane = port_dst / S mod L, the lane
//                   rule of HDRM; a relay between switches of one side: (switch_dst + port_dst)
//                   mod S.
//   pinned          what pin() said for this flow; by hash where nothing was said, or where a link
//                   of that path has gone down since.
//
// Not thread safe: distances and next hops are computed when first needed and kept.
#pragma once

#include "affinity/fabric/graph.hpp"

#include <map>
#include <memory>
#include <vector>

namespace ef::fabric {

enum class balance : uint8_t { hash, by_destination, pinned };

struct route_rule {
    balance how = balance::hash;
    uint64_t seed = 1;
};

using path = std::vector<link_id>;

class routes {
public:
    /// `g` outlives it. After g.set_up() call refresh().
    routes(const graph& g, route_rule rule);
    ~routes();
    routes(routes&&) noexcept;

    const graph& net() const noexcept { return *g_; }
    const route_rule& rule() const noexcept { return rule_; }

    /// Append the directed links from host a to host b that `subflow` (0 ..: one of several
    /// connections of this pair) takes: the host's uplink first, the link down to b last; nothing
    /// for a == b. False, and `out` as it was, if b cannot be reached.
    bool append(node_id a, node_id b, uint32_t subflow, path& out) const;

    /// All shortest paths from a to b, in the order of link ids, at most `most`.
    std::vector<path> all(node_id a, node_id b, size_t most) const;

    /// Links on a shortest path; `none` if unreachable.
    uint32_t distance(node_id a, node_id b) const;

    /// For balance::pinned. `p` must be a path from a to b; an error names the first link that does
    /// not fit or is down.
    status pin(node_id a, node_id b, uint32_t subflow, path p);

    /// A new seed (hash), keeping what is known of distances.
    void reseed(uint64_t seed) noexcept { rule_.seed = seed; }
    /// Forget what depends on which links are up.
    void refresh();

private:
    struct tables;
    const graph* g_;
    route_rule rule_;
    std::unique_ptr<tables> tables_;
};

}  // namespace ef::fabric
