#include "allreduce/mapping/arrange.hpp"

#include "allreduce/mapping/hdrm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace ef::mapping {

using fabric::bigraph_shape;

namespace {

std::vector<const station*> side_of(std::span<const station> stations, uint8_t side) {
    std::vector<const station*> out;
    for (const station& s : stations)
        if (s.side == side) out.push_back(&s);
    return out;
}

size_t with_at_least(const std::vector<const station*>& side, size_t units) {
    return size_t(std::count_if(side.begin(), side.end(),
                                [&](const station* s) { return s->units.size() >= units; }));
}

/// The n with most units, by id.
std::vector<const station*> fullest(std::vector<const station*> side, size_t n) {
    std::stable_sort(side.begin(), side.end(), [](const station* a, const station* b) {
        return a->units.size() > b->units.size();
    });
    side.resize(n);
    std::sort(side.begin(), side.end(),
              [](const station* a, const station* b) { return a->at < b->at; });
    return side;
}

struct extent {
    uint32_t switches = 0, hosts = 0;  // per side, per switch
    uint32_t units() const { return 2 * switches * hosts; }
};

extent largest_core(const std::vector<const station*>& u, const std::vector<const station*>& l) {
    extent best;
    for (uint32_t h = 1;; h *= 2) {
        const size_t n = std::min(with_at_least(u, h), with_at_least(l, h));
        if (n == 0) return best;
        const extent e{uint32_t(std::bit_floor(n)), h};
        if (e.units() > best.units()) best = e;
    }
}

/// Which unit of a switch stands where a full BiGraph has port 0 .. h-1: one whose port is on the
/// lane that the flows of that place count on, port / switches mod L, as long as there is one.
std::vector<uint32_t> by_place(const bigraph_shape& shape, std::span<const unit> units,
                               const station& s, const std::vector<uint32_t>& lanes) {
    std::vector<uint32_t> out(lanes.size(), fabric::none);
    std::vector<bool> taken(s.units.size(), false);
    for (const bool any : {false, true}) {
        size_t from = 0;  // all before are taken, if any will do
        for (size_t k = 0; k < out.size(); ++k) {
            if (out[k] != fabric::none) continue;
            for (size_t i = from; i < s.units.size(); ++i) {
                const uint32_t lane = units[s.units[i]].port / shape.switches % shape.lanes;
                if (taken[i] || (!any && lane != lanes[k])) continue;
                taken[i] = true;
                out[k] = s.units[i];
                break;
            }
            while (from < taken.size() && taken[from]) ++from;
        }
    }
    return out;
}

/// Gives each unit that is not of the core to a core unit.
class folder {
public:
    folder(const bigraph_shape& shape, halving_order& out, size_t nunits)
        : lanes_(shape.lanes), out_(out), extras_of_(out.core.size(), 0), in_core_(nunits, false) {
        for (const uint32_t u : out.core) in_core_[u] = true;
    }

    /// Core positions that sit on a switch.
    void add_home(const station& s, std::vector<uint32_t> positions) {
        homes_.push_back({&s, std::move(positions), 0});
    }

    void inside_switches() {
        for (home& h : homes_)
            for (const uint32_t u : h.on->units)
                if (!in_core_[u]) give(h, u);
    }

    void across(const station& from) {
        std::vector<uint32_t> flows(homes_.size(), 0);  // over each link from here
        for (const uint32_t u : from.units) {
            size_t best = homes_.size();
            for (size_t i = 0; i < homes_.size(); ++i)
                if (homes_[i].on->side != from.side &&
                    (best == homes_.size() || cost(i, flows) < cost(best, flows)))
                    best = i;
            ++flows[best];
            give(homes_[best], u);
        }
    }

    bool is_home(const station& s) const {
        return std::any_of(homes_.begin(), homes_.end(), [&](const home& h) { return h.on == &s; });
    }

private:
    struct home {
        const station* on;
        std::vector<uint32_t> positions;
        uint32_t extras;
    };

    /// Extras that a core unit has before this one, plus flows that share its link.
    uint64_t cost(size_t i, const std::vector<uint32_t>& flows) const {
        return homes_[i].extras / homes_[i].positions.size() + flows[i] / lanes_;
    }

    void give(home& h, uint32_t unit) {
        const uint32_t to = *std::min_element(
            h.positions.begin(), h.positions.end(),
            [&](uint32_t a, uint32_t b) { return extras_of_[a] < extras_of_[b]; });
        ++extras_of_[to];
        ++h.extras;
        out_.extras.emplace_back(to, unit);
    }

    uint32_t lanes_;
    halving_order& out_;
    std::vector<uint32_t> extras_of_;
    std::vector<bool> in_core_;
    std::vector<home> homes_;
};

}  // namespace

std::string text_of(const bigraph_shape& s) {
    return fmt::format("BiGraph S={} H={} L={}{}", s.switches, s.hosts, s.lanes,
                       s.rails > 1 ? fmt::format(" rails={}", s.rails) : "");
}

halving_order hdrm_core(const fabric::graph& g, std::span<const unit> units,
                        std::span<const station> stations) {
    halving_order out;
    const bigraph_shape& shape = *g.bigraph;
    const std::vector<const station*> sides[] = {side_of(stations, 0), side_of(stations, 1)};
    const extent e = largest_core(sides[0], sides[1]);
    if (e.units() == 0) return out;
    const std::vector<const station*> chosen[] = {fullest(sides[0], e.switches),
                                                  fullest(sides[1], e.switches)};
    uint32_t together = 1;  // o
    while (e.hosts / together > uint64_t(e.switches) * shape.lanes) together *= 2;
    const uint32_t groups = e.hosts / together;

    std::vector<uint32_t> lanes(e.hosts);
    for (uint32_t k = 0; k < e.hosts; ++k) lanes[k] = k % groups / e.switches % shape.lanes;
    std::vector<std::vector<uint32_t>> at[2], positions[2];
    for (const int side : {0, 1})
        for (const station* s : chosen[side]) {
            at[side].push_back(by_place(shape, units, *s, lanes));
            positions[side].emplace_back();
        }
    for (uint32_t p = 0; p < e.units(); ++p) {
        const bigraph_place place = hdrm_place(p / together, e.switches);
        out.core.push_back(at[place.side][place.sw][p % together * groups + place.port]);
        positions[place.side][place.sw].push_back(p);
    }

    folder fold(shape, out, units.size());
    for (const int side : {0, 1})
        for (size_t i = 0; i < e.switches; ++i)
            fold.add_home(*chosen[side][i], std::move(positions[side][i]));
    fold.inside_switches();
    for (const station& s : stations)
        if (!fold.is_home(s)) fold.across(s);
    std::stable_sort(out.extras.begin(), out.extras.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });

    const bool whole = e.switches == shape.switches && e.hosts == shape.hosts;
    out.says = whole ? "HDRM on " + text_of(shape)
                     : fmt::format("HDRM on S={} H={} of {}", e.switches, e.hosts, text_of(shape));
    if (together > 1) out.says += fmt::format(", {} of a switch first", together);
    return out;
}

halving_order switch_core(std::span<const station> line) {
    halving_order out;
    std::vector<uint32_t> all;
    for (const station& s : line) all.insert(all.end(), s.units.begin(), s.units.end());
    const size_t core = std::bit_floor(all.size()), extras = all.size() - core;
    const size_t each = core / line.size();
    const bool even =
        each * line.size() == core && std::all_of(line.begin(), line.end(), [&](const station& s) {
            return s.units.size() >= each && s.units.size() <= 2 * each;
        });
    if (even) {
        for (const station& s : line)
            for (size_t i = 0; i < s.units.size(); ++i) {
                if (i < each) out.core.push_back(s.units[i]);
                else out.extras.emplace_back(out.core.size() - each + (i - each), s.units[i]);
            }
    } else {
        for (size_t i = 0; i < all.size(); ++i) {
            if (i < 2 * extras && i % 2) out.extras.emplace_back(out.core.size() - 1, all[i]);
            else out.core.push_back(all[i]);
        }
    }
    out.says = "switch by switch";
    return out;
}

std::vector<uint32_t> eulerian_units(const fabric::graph& g, std::span<const unit> units,
                                     std::span<const station> stations) {
    if (!g.bigraph) return {};
    const std::vector<const station*> sides[] = {side_of(stations, 0), side_of(stations, 1)};
    const size_t S = sides[0].size(), H = S ? sides[0][0]->units.size() : 0;
    if (S == 0 || S != sides[1].size() || with_at_least(sides[0], H) != S ||
        with_at_least(sides[1], H) != S || units.size() != 2 * S * H)
        return {};
    std::vector<uint32_t> lanes(H);
    for (uint32_t k = 0; k < H; ++k) lanes[k] = k / uint32_t(S) % g.bigraph->lanes;
    std::vector<uint32_t> at;  // by host of the BiGraph of these switches
    for (const auto& side : sides)
        for (const station* s : side) {
            const std::vector<uint32_t> here = by_place(*g.bigraph, units, *s, lanes);
            at.insert(at.end(), here.begin(), here.end());
        }
    std::vector<uint32_t> order = eulerian_order({uint32_t(S), uint32_t(H), g.bigraph->lanes, 1});
    for (uint32_t& u : order) u = at[u];
    return order;
}

}  // namespace ef::mapping
