#include "affinity/fabric/routes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_map>

namespace ef::fabric {
namespace {

constexpr uint16_t far = 0xffff;  // no way, or none of fewer switches

// The finalizer of splitmix64 [Steele, Lea, Flood 2014], between any two words.
uint64_t mix(uint64_t h, uint64_t v) noexcept {
    h = (h ^ v) + 0x9e3779b97f4a7c15;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
    h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
    return h ^ (h >> 31);
}

}  // namespace

// What is known of the links that are up, packed for append(). By destination switch, made when
// first asked for: how far every switch is from it, and where in `pool` its next hops begin (their
// number first). Equal lists are kept once: on a BiGraph the way from U0 to U1 begins as that to
// any other U does.
struct routes::tables {
    struct neighbour {
        link_id link;
        uint32_t to;  // index of a switch
        bool operator==(const neighbour&) const = default;
    };
    struct access {
        link_id up = none, down = none;  // none: the cable is down
        uint32_t sw = none;              // index of its switch
        uint32_t port = none;
    };
    struct destination {
        std::vector<uint16_t> distance;
        std::vector<uint32_t> hops;
    };
    std::vector<uint32_t> index_of;  // by node: which switch it is, dense
    std::vector<access> host;        // by node
    std::vector<uint32_t> in_side;   // by switch: its place among those of its side of a BiGraph
    std::vector<uint32_t> begin;     // by switch: where its neighbours begin
    std::vector<neighbour> next;     // of each switch, by neighbour and lane
    std::vector<std::unique_ptr<destination>> to;
    std::vector<neighbour> pool;
    std::unordered_multimap<uint64_t, uint32_t> lists;  // by hash of a list: where it begins
    std::map<std::tuple<node_id, node_id, uint32_t>, path> pinned;

    explicit tables(const graph& g) : index_of(g.nodes().size(), none) {
        uint32_t seen[2] = {};
        for (uint32_t i = 0; i < g.switches().size(); ++i) {
            const node_id n = g.switches()[i];
            index_of[n] = i;
            const uint32_t place = seen[g.at(n).side & 1]++;
            in_side.push_back(g.bigraph ? place % g.bigraph->switches : i);
        }
        to.resize(g.switches().size());
        host.resize(g.nodes().size());
        for (node_id h : g.hosts()) {
            if (g.out(h).empty()) continue;
            const link& e = g.edge(g.uplink(h));
            if (e.up && index_of[e.to] != none)
                host[h] = {g.uplink(h), e.reverse, index_of[e.to], g.at(h).port};
        }
        for (node_id n : g.switches()) {
            begin.push_back(uint32_t(next.size()));
            for (link_id l : g.out(n))
                if (g.edge(l).up && index_of[g.edge(l).to] != none)
                    next.push_back({l, index_of[g.edge(l).to]});
            std::sort(next.begin() + begin.back(), next.end(), [&](neighbour a, neighbour b) {
                return std::tuple(a.to, g.edge(a.link).lane) <
                       std::tuple(b.to, g.edge(b.link).lane);
            });
        }
        begin.push_back(uint32_t(next.size()));
    }

    std::span<const neighbour> neighbours(uint32_t sw) const {
        return {next.data() + begin[sw], begin[sw + 1] - begin[sw]};
    }

    // Breadth first from the destination: both directions of a cable are up or down together.
    destination& towards(uint32_t last) {
        std::unique_ptr<destination>& d = to[last];
        if (d) return *d;
        d = std::make_unique<destination>();
        d->distance.assign(to.size(), far);
        d->hops.assign(to.size(), none);
        std::vector<uint32_t> queue{last};
        d->distance[last] = 0;
        for (size_t at = 0; at < queue.size(); ++at) {
            const uint16_t one_more = uint16_t(d->distance[queue[at]] + 1);
            if (one_more == far) break;
            for (const neighbour& n : neighbours(queue[at])) {
                if (d->distance[n.to] != far) continue;
                d->distance[n.to] = one_more;
                queue.push_back(n.to);
            }
        }
        return *d;
    }

    // Links out of switch `from` on shortest ways to switch `last`, by neighbour and lane. What is
    // returned holds until the next call.
    std::span<const neighbour> hops(uint32_t from, uint32_t last) {
        destination& d = towards(last);
        if (d.hops[from] == none) d.hops[from] = make_hops(d, from);
        const neighbour* first = pool.data() + d.hops[from];
        return {first + 1, first->to};
    }

    uint32_t make_hops(const destination& d, uint32_t sw) {
        const uint32_t first = uint32_t(pool.size());
        const uint16_t here = d.distance[sw];
        uint64_t hash = 0;
        pool.push_back({none, 0});
        if (here != far && here != 0)
            for (const neighbour& n : neighbours(sw))
                if (d.distance[n.to] == here - 1) {
                    pool.push_back(n);
                    hash = mix(hash, n.link);
                }
        pool[first].to = uint32_t(pool.size() - first - 1);
        const auto [same, end] = lists.equal_range(hash);
        for (auto it = same; it != end; ++it)
            if (std::equal(pool.begin() + first, pool.end(), pool.begin() + it->second)) {
                pool.resize(first);
                return it->second;
            }
        lists.emplace(hash, first);
        return first;
    }

    // D-mod-K, its digits being the destination's port and then its switch; see routes.hpp.
    size_t by_destination(const graph& g, std::span<const neighbour> hops, const access& b,
                          unsigned hop) const {
        const uint32_t port = b.port, sw = in_side[b.sw];
        const bool lanes_only = hops.front().to == hops.back().to;
        if (!g.bigraph) return (lanes_only || hop == 0 ? port : sw) % hops.size();
        const size_t lane = port / g.bigraph->switches;
        if (lanes_only) return lane % hops.size();
        const size_t lanes = std::max(1u, g.bigraph->lanes), relays = hops.size() / lanes;
        if (relays * lanes != hops.size()) return (sw + port) % hops.size();  // a lane is down
        return (sw + port) % relays * lanes + lane % lanes;
    }
};

routes::routes(const graph& g, route_rule rule)
    : g_(&g), rule_(rule), tables_(std::make_unique<tables>(g)) {}
routes::~routes() = default;
routes::routes(routes&&) noexcept = default;

void routes::refresh() {
    auto fresh = std::make_unique<tables>(*g_);
    fresh->pinned = std::move(tables_->pinned);
    tables_ = std::move(fresh);
}

bool routes::append(node_id a, node_id b, uint32_t subflow, path& out) const {
    if (a == b) return true;
    tables& t = *tables_;
    if (rule_.how == balance::pinned) {
        const auto it = t.pinned.find({a, b, subflow});
        if (it != t.pinned.end() && std::all_of(it->second.begin(), it->second.end(),
                                                [&](link_id l) { return g_->edge(l).up; })) {
            out.insert(out.end(), it->second.begin(), it->second.end());
            return true;
        }
    }
    const tables::access from = t.host[a], last = t.host[b];
    if (from.up == none || last.up == none) return false;
    const size_t before = out.size();
    out.push_back(from.up);
    unsigned hop = 0;
    for (uint32_t at = from.sw; at != last.sw; ++hop) {
        const std::span<const tables::neighbour> hops = t.hops(at, last.sw);
        if (hops.empty()) {
            out.resize(before);
            return false;
        }
        size_t pick = 0;
        if (hops.size() > 1)
            pick = rule_.how == balance::by_destination
                       ? t.by_destination(*g_, hops, last, hop)
                       : mix(mix(mix(mix(rule_.seed, g_->switches()[at]), a), b), subflow) %
                             hops.size();
        out.push_back(hops[pick].link);
        at = hops[pick].to;
    }
    out.push_back(last.down);
    return true;
}

std::vector<path> routes::all(node_id a, node_id b, size_t most) const {
    std::vector<path> found;
    const tables::access from = tables_->host[a], last = tables_->host[b];
    if (a == b || from.up == none || last.up == none) return found;
    // One level per switch on the way: its next hops, and which of them is being followed.
    struct level {
        std::vector<tables::neighbour> hops;
        size_t turn = 0;
    };
    path way{from.up};
    std::vector<level> levels;
    const auto enter = [&](uint32_t at) {
        levels.emplace_back();
        if (at == last.sw) {
            found.push_back(way);
            found.back().push_back(last.down);
            return;
        }
        std::vector<tables::neighbour>& hops = levels.back().hops;
        const auto known = tables_->hops(at, last.sw);
        hops.assign(known.begin(), known.end());
        std::sort(hops.begin(), hops.end(),
                  [](const auto& x, const auto& y) { return x.link < y.link; });
    };
    if (most > 0) enter(from.sw);
    while (!levels.empty() && found.size() < most) {
        level& now = levels.back();
        if (now.turn < now.hops.size()) {
            const tables::neighbour n = now.hops[now.turn++];
            way.push_back(n.link);
            enter(n.to);
        } else {
            way.pop_back();
            levels.pop_back();
        }
    }
    return found;
}

uint32_t routes::distance(node_id a, node_id b) const {
    if (a == b) return 0;
    const tables::access from = tables_->host[a], last = tables_->host[b];
    if (from.up == none || last.up == none) return none;
    const uint16_t d = tables_->towards(last.sw).distance[from.sw];
    return d == far ? none : uint32_t(d) + 2;
}

status routes::pin(node_id a, node_id b, uint32_t subflow, path p) {
    node_id at = a;
    for (link_id l : p) {
        const auto wrong = [&](const char* what) {
            return status(
                EF_INVALID,
                fmt::format("a path from {} to {}: link {} {}", g_->at(a).name, g_->at(b).name,
                            l < g_->links().size() ? g_->text_of(l) : std::to_string(l), what));
        };
        if (l >= g_->links().size()) return wrong("does not exist");
        if (g_->edge(l).from != at) return wrong("does not begin where the one before ends");
        if (!g_->edge(l).up) return wrong("is down");
        if (at != a && tables_->index_of[at] == none) return wrong("begins at a host");
        at = g_->edge(l).to;
    }
    if (at != b || p.empty())
        return status(EF_INVALID, fmt::format("a path from {} to {} ends at {}", g_->at(a).name,
                                              g_->at(b).name, g_->at(at).name));
    tables_->pinned[{a, b, subflow}] = std::move(p);
    return {};
}

}  // namespace ef::fabric
