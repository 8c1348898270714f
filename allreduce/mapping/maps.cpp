#include "allreduce/mapping/maps.hpp"

#include "allreduce/mapping/improve.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

namespace ef::mapping {

using fabric::graph;

namespace {

/// Core and extras as positions. `extras`: position that takes it in, and rank (or server).
rank_order ordered(std::vector<rank_t> core, std::vector<std::pair<rank_t, rank_t>> extras) {
    std::stable_sort(extras.begin(), extras.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    rank_order o;
    o.order = std::move(core);
    o.core = rank_t(o.order.size());
    for (const auto& [to, who] : extras) {
        o.fold.push_back(to);
        o.order.push_back(who);
    }
    o.index();
    return o;
}

rank_order of_servers(const halving_order& h) {
    std::vector<std::pair<rank_t, rank_t>> extras(h.extras.begin(), h.extras.end());
    return ordered({h.core.begin(), h.core.end()}, std::move(extras));
}

/// The ranks of a server first: a power of two of each are neighbours, what it has more folds into
/// them, and so do member by member the servers that are extras.
rank_order of_ranks(const halving_order& h, std::span<const unit> units, size_t each) {
    std::vector<rank_t> core;
    std::vector<std::pair<rank_t, rank_t>> extras;
    const auto fold = [&](uint32_t position, const unit& u, size_t from) {
        for (size_t m = from; m < u.members.size(); ++m)
            extras.emplace_back(rank_t(position * each + m % each), u.members[m]);
    };
    for (uint32_t k = 0; k < h.core.size(); ++k) {
        const unit& u = units[h.core[k]];
        core.insert(core.end(), u.members.begin(), u.members.begin() + long(each));
        fold(k, u, each);
    }
    for (const auto& [k, u] : h.extras) fold(k, units[u], 0);
    return ordered(std::move(core), std::move(extras));
}

// Up to so many servers orders are weighed on the links; it costs a path per server and round.
constexpr size_t most_weighed = 4096;

/// Each extra of a core position, after the first, costs as much as all of HDRM: 2 n/B.
bool one_extra_each(const halving_order& h) {
    return std::adjacent_find(h.extras.begin(), h.extras.end(), [](const auto& a, const auto& b) {
               return a.first == b.first;
           }) == h.extras.end();
}

/// HDRM's core, unless so much is left over for it that a larger core, with some shared links, takes
/// less time.
halving_order choose_halving(const graph& g, std::span<const unit> units,
                             std::span<const station> stations, std::span<const station> line) {
    halving_order hdrm;
    if (g.bigraph) hdrm = hdrm_core(g, units, stations);
    const bool largest = hdrm.core.size() == std::bit_floor(units.size());
    if (largest && one_extra_each(hdrm)) return hdrm;
    const halving_order plain = switch_core(line);
    if (!g.bigraph) return plain;
    if (units.size() > most_weighed)
        return !hdrm.core.empty() && one_extra_each(hdrm) ? hdrm : plain;

    const auto faster = [&](const halving_order& a, const halving_order& b) {
        return in_step_time(g, units, b) < in_step_time(g, units, a) ? b : a;
    };
    halving_order best = hdrm.core.empty() ? plain : faster(hdrm, plain);
    if (units.size() <= most_improved) best = faster(best, improved(g, units, plain));
    return best;
}

rank_order ring_of(std::vector<rank_t> order) {
    rank_order o;
    o.order = std::move(order);
    o.index();
    return o;
}

/// Every second server backwards, so that a hop between servers stays on one rail.
std::vector<rank_t> ring_of_ranks(std::span<const uint32_t> order, std::span<const unit> units) {
    std::vector<rank_t> out;
    bool forward = true;
    for (const uint32_t i : order) {
        const std::vector<rank_t>& m = units[i].members;
        if (forward) out.insert(out.end(), m.begin(), m.end());
        else out.insert(out.end(), m.rbegin(), m.rend());
        forward = !forward;
    }
    return out;
}

/// Planes are not linked to each other: does every hop stay on one, or inside a server?
bool leaves_its_plane(const graph& g, const placement& where, std::span<const unit> units,
                      std::span<const rank_t> ring) {
    if (!g.bigraph || g.bigraph->rails < 2) return false;
    std::vector<uint32_t> unit_of(where.size());
    for (uint32_t i = 0; i < units.size(); ++i)
        for (const rank_t r : units[i].members) unit_of[size_t(r)] = i;
    const auto rail = [&](rank_t r) { return g.at(g.hosts()[where[size_t(r)]]).rail; };
    for (size_t p = 0; p < ring.size(); ++p) {
        const rank_t a = ring[p], b = ring[(p + 1) % ring.size()];
        if (unit_of[size_t(a)] != unit_of[size_t(b)] && rail(a) != rail(b)) return true;
    }
    return false;
}

void add_rings(rank_maps& maps, const graph& g, const placement& where, std::span<const unit> units,
               std::span<const station> stations, std::span<const station> line) {
    std::vector<uint32_t> order = eulerian_units(g, units, stations);
    maps.ring_says = "Eulerian circuit of " + (g.bigraph ? text_of(*g.bigraph) : std::string());
    if (order.empty()) {
        for (const station& s : line) order.insert(order.end(), s.units.begin(), s.units.end());
        maps.ring_says = "switch by switch";
    }
    maps.server_ring = ring_of({order.begin(), order.end()});
    std::vector<rank_t> ranks = ring_of_ranks(order, units);
    if (leaves_its_plane(g, where, units, ranks))
        maps.ring_says += ", between servers only: a ring of all ranks would leave its plane";
    else maps.ring = ring_of(std::move(ranks));
}

bool usable(const graph& g, const placement& where, std::span<const int> host_of) {
    return !where.empty() && (host_of.empty() || host_of.size() == where.size()) &&
           std::all_of(where.begin(), where.end(),
                       [&](uint32_t h) { return h < g.hosts().size(); });
}

}  // namespace

rank_maps make_maps(const graph& g, const placement& where, std::span<const int> host_of) {
    rank_maps maps;
    if (!usable(g, where, host_of)) return maps;
    const std::vector<unit> units = units_of(g, where, host_of);
    size_t each = where.size();  // ranks on the emptiest server
    for (const unit& u : units) each = std::min(each, u.members.size());
    if (each == 0) return maps;  // a gap in host_of
    each = std::bit_floor(each);

    const std::vector<station> stations = stations_of(g, units);
    const std::vector<station> line = in_a_line(g, stations);
    const halving_order h = choose_halving(g, units, stations, line);
    maps.server_halving = of_servers(h);
    maps.halving = of_ranks(h, units, each);
    maps.halving_says = h.says;
    if (each > 1) maps.halving_says += fmt::format(", {} of a server first", each);
    if (const size_t extras = maps.halving.fold.size())
        maps.halving_says +=
            fmt::format(", {} extra rank{} folded in", extras, extras == 1 ? "" : "s");
    add_rings(maps, g, where, units, stations, line);
    return maps;
}

rank_order random_order(rank_t nranks, uint64_t seed) {
    const auto next = [&] {  // splitmix64 [Steele, Lea, Flood 2014]
        uint64_t z = seed += 0x9e37'79b9'7f4a'7c15;
        z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9;
        z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11eb;
        return z ^ (z >> 31);
    };
    rank_order o;
    o.order.resize(size_t(nranks));
    std::iota(o.order.begin(), o.order.end(), 0);
    for (size_t n = o.order.size(); n > 1; --n) std::swap(o.order[n - 1], o.order[next() % n]);
    o.core = rank_t(std::bit_floor(unsigned(nranks)));
    o.index();
    return o;
}

placement placed_by(const rank_order& o, const placement& where) {
    placement out;
    out.reserve(o.order.size());
    for (const rank_t r : o.order) out.push_back(where[size_t(r)]);
    return out;
}

}  // namespace ef::mapping
