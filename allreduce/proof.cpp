#include "allreduce/proof.hpp"

#include "allreduce/link_loads.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ef {
namespace {

constexpr double more_than_one = 1.0 + 1e-9;

/// Fullest first; between equals the earlier round, then the lower link.
bool fuller(const crowded_link& a, const crowded_link& b) {
    if (a.load != b.load) return a.load > b.load;
    return a.round != b.round ? a.round < b.round : a.link < b.link;
}

/// The crowded links of the round that `loads` holds; of each who meets there, found by laying the
/// flows once more.
void note_crowded(const link_loads& loads, const flow_round& r, size_t keep,
                  std::vector<crowded_link>& worst) {
    std::vector<crowded_link> here;
    for (const fabric::link_id l : loads.touched())
        if (loads.flows(l) > more_than_one) here.push_back({l, r.round, loads.flows(l), {}});
    if (here.empty()) return;
    std::sort(here.begin(), here.end(), fuller);
    if (here.size() > keep) here.resize(keep);
    // Only those that can still come among the first `keep`.
    if (worst.size() == keep)
        std::erase_if(here, [&](const crowded_link& c) { return !fuller(c, worst.back()); });
    worst.insert(worst.end(), here.begin(), here.end());
    std::sort(worst.begin(), worst.end(), fuller);
    if (worst.size() > keep) worst.resize(keep);
}

void find_pairs(std::span<const flow_round> flows, link_loads& loads,
                std::vector<crowded_link>& worst) {
    std::vector<std::pair<fabric::link_id, crowded_link*>> wanted;
    for (const flow_round& r : flows) {
        wanted.clear();
        for (crowded_link& c : worst)
            if (c.round == r.round) wanted.emplace_back(c.link, &c);
        if (wanted.empty()) continue;
        for (const flow& f : r.flows) {
            for (const fabric::link_id l : loads.path_of(f))
                for (const auto& [link, c] : wanted) {
                    if (link != l) continue;
                    const std::pair pair(f.from, f.to);
                    if (c->pairs.empty() || c->pairs.back() != pair) c->pairs.push_back(pair);
                }
        }
    }
}

}  // namespace

load_report load_of(std::span<const flow_round> flows, const fabric::routes& routes,
                    const mapping::placement& where, uint32_t subflows, size_t keep) {
    load_report out;
    link_loads loads(routes, where, subflows);
    out.bytes_on_link.assign(routes.net().links().size(), 0);
    for (const flow_round& r : flows) {
        loads.clear();
        for (const flow& f : r.flows)
            if (!loads.lay(f) && out.unreachable.ok()) out.unreachable = loads.no_path(f);
        double most = 0;
        for (const fabric::link_id l : loads.touched()) {
            most = std::max(most, loads.flows(l));
            out.bytes_on_link[l] += loads.parts(l) * r.repeat;
        }
        if (!loads.touched().empty()) out.rounds += r.repeat;
        out.by_round.resize(size_t(r.round) + r.repeat, 0);
        std::fill_n(out.by_round.begin() + r.round, r.repeat, most);
        out.most = std::max(out.most, most);
        note_crowded(loads, r, keep, out.worst);
    }
    find_pairs(flows, loads, out.worst);
    return out;
}

std::string text_of(const load_report& r, const fabric::graph& g) {
    if (!r.unreachable.ok()) return std::string(r.unreachable.text());
    if (r.rounds == 0) return "congestion-free: nothing leaves a host";
    if (r.congestion_free())
        return fmt::format(
            "congestion-free: at most 1 flow per link in {}",
            r.rounds == 1 ? std::string("1 round") : fmt::format("each of {} rounds", r.rounds));
    constexpr size_t pairs_shown = 8;
    std::string out = fmt::format("congested: up to {:.4g} flows per link", r.most);
    for (const crowded_link& c : r.worst) {
        out += fmt::format("\n  round {}: {} carries {:.4g} flows:", c.round, g.text_of(c.link),
                           c.load);
        for (size_t i = 0; i < c.pairs.size() && i < pairs_shown; ++i)
            out += fmt::format("{} {} -> {}", i ? "," : "", c.pairs[i].first, c.pairs[i].second);
        if (c.pairs.size() > pairs_shown)
            out += fmt::format(" and {} more", c.pairs.size() - pairs_shown);
    }
    return out;
}

}  // namespace ef
