#include "affinity/fabric/routes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace ef::fabric {
namespace {

constexpr uint16_t far = 0xffff;  // no way

// The finalizer of splitmix64 [Steele, Lea, Flood 2014], between any two words.
uint64_t mix(uint64_t h, uint64_t v) noexcept {
    h = (h ^ v) + 0x9e3779b97f4a7c15;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
    h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
    return h ^ (h >> 31);
}

}  // namespace

// By destination switch, made when first asked for: how far every switch is from it, and where in
// `pool` the next hops of each begin (their number, then the links).
struct routes::tables {
    struct destination {
        std::vector<uint16_t> distance;
        std::vector<uint32_t> hops;
    };
    std::vector<uint32_t> index_of;  // by node: which switch it is, dense
    std::vector<uint32_t> in_side;   // by switch: its place among those of its side of a BiGraph
    std::vector<std::unique_ptr<destination>> to;
    std::vector<link_id> pool;
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
    }

    const destination& of(const graph& g, node_id sw) {
        std::unique_ptr<destination>& d = to[index_of[sw]];
        if (d) return *d;
        d = std::make_unique<destination>();
        d->distance.assign(to.size(), far);
        d->hops.assign(to.size(), none);
        std::vector<node_id> queue{sw};
        d->distance[index_of[sw]] = 0;
        for (size_t at = 0; at < queue.size(); ++at) {
            const uint16_t next = uint16_t(d->distance[index_of[queue[at]]] + 1);
            for (link_id l : g.out(queue[at])) {
                const link& e = g.edge(l);
                if (!e.up || index_of[e.to] == none) continue;
                uint16_t& there = d->distance[index_of[e.to]];
                if (there != far) continue;
                there = next;
                queue.push_back(e.to);
            }
        }
        return *d;
    }

    std::span<const link_id> hops(const graph& g, node_id from, node_id sw) {
        destination& d = const_cast<destination&>(of(g, sw));
        uint32_t& first = d.hops[index_of[from]];
        if (first == none) {
            first = uint32_t(pool.size());
            pool.push_back(0);
            const uint16_t here = d.distance[index_of[from]];
            for (link_id l : g.out(from)) {
                const link& e = g.edge(l);
                if (e.up && index_of[e.to] != none && here != far && here != 0 &&
                    d.distance[index_of[e.to]] == here - 1)
                    pool.push_back(l);
            }
            pool[first] = uint32_t(pool.size()) - first - 1;
        }
        return {pool.data() + first + 1, pool[first]};
    }

    // D-mod-K, its digits being the destination's port and then its switch; see routes.hpp.
    size_t by_destination(const graph& g, std::span<const link_id> hops, node_id b, node_id sw,
                          unsigned hop) const {
        const uint32_t port = g.at(b).port;
        const bool lanes_only = g.edge(hops.front()).to == g.edge(hops.back()).to;
        if (!g.bigraph) {
            return (lanes_only || hop == 0 ? port : in_side[index_of[sw]]) % hops.size();
        }
        const size_t lane = port / g.bigraph->switches;
        if (lanes_only) return lane % hops.size();
        const size_t lanes = std::max(1u, g.bigraph->lanes), relays = hops.size() / lanes;
        if (relays * lanes != hops.size()) return (in_side[index_of[sw]] + port) % hops.size();
        return (in_side[index_of[sw]] + port) % relays * lanes + lane % lanes;
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
    const size_t before = out.size();
    const link_id up = g_->uplink(a), down = g_->edge(g_->uplink(b)).reverse;
    if (!g_->edge(up).up || !g_->edge(down).up) return false;
    const node_id last = g_->edge(down).from;
    out.push_back(up);
    unsigned hop = 0;
    for (node_id at = g_->edge(up).to; at != last; ++hop) {
        const std::span<const link_id> hops = t.hops(*g_, at, last);
        if (hops.empty()) {
            out.resize(before);
            return false;
        }
        size_t pick = 0;
        if (hops.size() > 1)
            pick = rule_.how == balance::by_destination
                       ? t.by_destination(*g_, hops, b, last, hop)
                       : mix(mix(mix(mix(rule_.seed, at), a), b), subflow) % hops.size();
        out.push_back(hops[pick]);
        at = g_->edge(hops[pick]).to;
    }
    out.push_back(down);
    return true;
}

std::vector<path> routes::all(node_id a, node_id b, size_t most) const {
    std::vector<path> found;
    const link_id up = g_->uplink(a), down = g_->edge(g_->uplink(b)).reverse;
    if (a == b || !g_->edge(up).up || !g_->edge(down).up) return found;
    const node_id last = g_->edge(down).from;
    path way{up};
    // One frame per switch on the way: which of its next hops is being followed.
    std::vector<size_t> turn{0};
    while (!turn.empty() && found.size() < most) {
        const node_id at = g_->edge(way.back()).to;
        if (at == last) {
            found.push_back(way);
            found.back().push_back(down);
        }
        const std::vector<link_id> hops = [&] {
            const auto h = at == last ? std::span<const link_id>() : tables_->hops(*g_, at, last);
            return std::vector<link_id>(h.begin(), h.end());
        }();
        if (turn.back() < hops.size()) {
            way.push_back(hops[turn.back()++]);
            turn.push_back(0);
        } else {
            way.pop_back();
            turn.pop_back();
        }
    }
    std::sort(found.begin(), found.end());
    return found;
}

uint32_t routes::distance(node_id a, node_id b) const {
    if (a == b) return 0;
    const link& up = g_->edge(g_->uplink(a));
    const link& down = g_->edge(g_->uplink(b));
    if (!up.up || !down.up) return none;
    const uint16_t d = tables_->of(*g_, down.to).distance[tables_->index_of[up.to]];
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
        at = g_->edge(l).to;
    }
    if (at != b || p.empty())
        return status(EF_INVALID, fmt::format("a path from {} to {} ends at {}", g_->at(a).name,
                                              g_->at(b).name, g_->at(at).name));
    tables_->pinned[{a, b, subflow}] = std::move(p);
    return {};
}

}  // namespace ef::fabric
