#include "allreduce/fault/judge.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ef {
namespace {

std::string name_of(const fabric::graph& g, fabric::node_id n, const std::string& address) {
    return address.empty() ? g.at(n).name : fmt::format("{} ({})", g.at(n).name, address);
}

// The links into the routers that answered, in order; complete only if each answer is known.
struct seen_way {
    fabric::path links;
    bool complete = false;
    size_t routers = 0;
};

seen_way way_of(const fabric_view& v, const path::trace& t) {
    seen_way w;
    w.routers = t.hops.size();
    for (const path::hop& h : t.hops) {
        const fabric::link_id l = v.link_into(h.address);
        if (l == fabric::none) return w;
        w.links.push_back(l);
    }
    w.complete = true;
    return w;
}

// The way as it was when it was whole.
seen_way way_before(const fabric_view& v, fabric::node_id a, fabric::node_id b,
                    const path::trace& before) {
    if (before.reached) return way_of(v, before);
    seen_way w;
    if (!v.net().bigraph) return w;
    const std::vector<fabric::path> all = v.ways().all(a, b, 2);
    if (all.size() != 1 || all[0].empty()) return w;
    w.links.assign(all[0].begin(), all[0].end() - 1);  // into routers
    w.routers = w.links.size();
    w.complete = true;
    return w;
}

// Links on shortest ways from a to b that leave `at`, by what the file says to be up.
std::vector<fabric::link_id> next_links(const fabric_view& v, fabric::node_id a, fabric::node_id b,
                                        fabric::node_id at) {
    std::vector<fabric::link_id> out;
    for (const fabric::path& p : v.ways().all(a, b, 256))
        for (fabric::link_id l : p)
            if (v.net().edge(l).from == at && std::find(out.begin(), out.end(), l) == out.end())
                out.push_back(l);
    return out;
}

std::optional<link_finding> judge_whole(const fabric_view& v, fabric::node_id b,
                                        const seen_way& now, const seen_way& old) {
    const fabric::graph& g = v.net();
    if (!old.complete || now.routers < old.routers || now.links == old.links) return {};
    if (now.routers == old.routers) {
        if (!now.complete) return {};
        link_finding f{fabric::none, false, true, 2, {}};
        f.text = fmt::format("the way to {} has moved to other switches", g.at(b).name);
        return f;
    }
    for (size_t i = 0; i < std::min(now.links.size(), old.links.size()); ++i) {
        if (now.links[i] == old.links[i]) continue;
        link_finding f{old.links[i], false, false, 2, {}};
        f.text = fmt::format(
            "link {} is not used any more: the way to {} goes round it, by {} routers instead of "
            "{}",
            g.text_of(old.links[i]), g.at(b).name, now.routers, old.routers);
        return f;
    }
    return {};
}

// The link behind the last router that answered: the one that was taken before, or the only one
// that can be.
fabric::link_id link_behind(const fabric_view& v, fabric::node_id a, fabric::node_id b,
                            fabric::link_id last, const seen_way& old) {
    const fabric::graph& g = v.net();
    if (old.complete) {
        const auto at = std::find(old.links.begin(), old.links.end(), last);
        if (last == fabric::none && !old.links.empty()) return old.links.front();
        if (last != fabric::none && at != old.links.end())
            return at + 1 == old.links.end() ? g.edge(g.uplink(b)).reverse : *(at + 1);
    }
    const fabric::node_id here = last == fabric::none ? a : g.edge(last).to;
    const std::vector<fabric::link_id> next = next_links(v, a, b, here);
    return next.size() == 1 ? next.front() : fabric::none;
}

}  // namespace

std::optional<link_finding> judge_way(const fabric_view& v, fabric::node_id a, fabric::node_id b,
                                      const path::trace& now, const path::trace& before) {
    if (!now.why.ok()) return {};
    const fabric::graph& g = v.net();
    const seen_way old = way_before(v, a, b, before);
    if (now.reached) return judge_whole(v, b, way_of(v, now), old);

    // Who refuses may be nearer than the probe was meant to go, and others may have been silent:
    // only where the last answer came from counts.
    const std::string address = now.hops.empty() ? std::string() : now.hops.back().address;
    const fabric::link_id last = v.link_into(address);
    link_finding f{fabric::none, true, false, uint8_t(now.refusal.empty() ? 1 : 2), {}};
    if (!address.empty() && last == fabric::none) {
        f.text = fmt::format("the way to {} ends behind {}", g.at(b).name, address);
        return f;
    }
    const fabric::node_id here = last == fabric::none ? a : g.edge(last).to;
    const std::string at = name_of(g, here, address);
    f.link = link_behind(v, a, b, last, old);
    if (f.link == fabric::none) {
        f.text = fmt::format("the way to {} ends behind {}", g.at(b).name, at);
        return f;
    }
    const fabric::link& e = g.edge(f.link);
    if (now.refusal.empty() && (e.to == b || e.from == a)) f.proof = 0;
    const std::string says = now.refusal.empty() ? (last == fabric::none ? "sends" : "answers")
                                                 : "says \"" + now.refusal + "\"";
    f.text = fmt::format("link {} is down: on the way to {}, {} {} and {} does not answer",
                         g.text_of(f.link), g.at(b).name, at, says, name_of(g, e.to, e.to_address));
    return f;
}

}  // namespace ef
