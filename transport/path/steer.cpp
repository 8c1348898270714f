#include "transport/path/steer.hpp"

#include "transport/base/clock.hpp"
#include "transport/base/log.hpp"
#include "transport/path/steer_links.hpp"
#include "transport/path/steer_wire.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace ef::path {
namespace {

std::string host_of(const group& g, rank_t r) {
    const result<host_port> at = parse_host_port(g.info(r).address);
    return at.ok() ? at->host : g.info(r).address;
}

result<endpoint> address_of(const group& g, rank_t r) {
    result<std::vector<endpoint>> a = resolve(g.info(r).address);
    if (!a.ok()) return a.why().in("address of " + g.name(r).text());
    return a->front();
}

// Ranks behind one address must not bind the same ports towards the same peers.
uint32_t place_on_address(const group& g) {
    const std::string mine = host_of(g, g.rank());
    uint32_t before = 0;
    for (rank_t r = 0; r < g.rank(); ++r) before += host_of(g, r) == mine;
    return before;
}

/// The candidates of one peer, by the way that they take.
struct candidates {
    found_flow found;
    std::vector<std::vector<uint16_t>> ports;  // by way
    std::vector<trace> traces;                 // by way: the first that went there
};

uint16_t candidate_port(const steer_options& o, uint32_t place, uint32_t i) noexcept {
    constexpr uint32_t last = 65535;
    const uint32_t span = last - o.first_port + 1;
    return uint16_t(o.first_port + (uint64_t(place) * o.candidates + i) % span);
}

void sort_in(candidates& c, uint16_t port, const trace& t, const group& g) {
    if (!t.reached) {
        if (c.found.ways.empty()) c.found.why = g.name(c.found.to).text() + ": " + t.text();
        return;
    }
    std::vector<std::string> routers;
    for (const hop& h : t.hops) routers.push_back(h.address);
    const auto known = std::find(c.found.ways.begin(), c.found.ways.end(), routers);
    const size_t at = size_t(known - c.found.ways.begin());
    if (known == c.found.ways.end()) {
        c.found.ways.push_back(std::move(routers));
        c.ports.emplace_back();
        c.traces.push_back(t);
        c.found.why.clear();
    }
    c.ports[at].push_back(port);
}

// While this rank probes it must answer those who probe it.
status run(prober& p, group& g) {
    while (!p.done()) {
        if (!g.failure().ok()) return g.failure();
        g.progress();
        if (!p.step()) p.wait(1);
    }
    return {};
}

result<std::vector<candidates>> probe_candidates(group& g, std::span<const peer_rounds> mine,
                                                 const steer_options& o) {
    std::vector<candidates> all;
    std::vector<tuple> tuples;
    struct origin {
        size_t flow;
        uint16_t port;
    };
    std::vector<origin> origins;
    const uint32_t place = place_on_address(g);
    const result<endpoint> self = address_of(g, g.rank());
    for (const peer_rounds& p : mine) {
        if (p.to == g.rank() || g.local(p.to)) continue;
        all.push_back({{p.to, p.rounds, {}, ""}, {}, {}});
        const result<endpoint> far = address_of(g, p.to);
        if (!self.ok() || !far.ok()) {
            all.back().found.why = (self.ok() ? far : self).why().text();
            continue;
        }
        for (uint32_t i = 0; i < o.candidates; ++i) {
            tuple t{protocol::tcp, *self, *far};
            t.from.set_port(candidate_port(o, place, i));
            origins.push_back({all.size() - 1, t.from.port()});
            tuples.push_back(std::move(t));
        }
    }
    prober p(std::move(tuples), o.probe);
    if (status s = run(p, g); !s.ok()) return s;
    for (size_t i = 0; i < origins.size(); ++i)
        sort_in(all[origins[i].flow], origins[i].port, p.traces()[i], g);
    return all;
}

steered_peer peer_of(const candidates& c, const flow_table& t, const assignment& a,
                     uint32_t given) {
    steered_peer s;
    s.to = c.found.to;
    s.ways = uint32_t(c.found.ways.size());
    const int32_t at = t.place[given];
    if (at < 0) {
        s.why = status(EF_TIMEOUT, c.found.why);
        return s;
    }
    const uint32_t w = a.way[size_t(at)];
    s.ports = c.ports[w];
    s.predicted = c.traces[w];
    return s;
}

void describe(const flow_table& t, const assignment& a, steering& s) {
    s.worst = a.worst;
    s.by_router = t.by_router;
    for (const meeting& m : a.meetings) {
        shared_link l{t.name[m.link], m.round, {}};
        for (const uint32_t f : m.flows) l.flows.push_back({t.flows[f].from, t.flows[f].to});
        s.shared.push_back(std::move(l));
    }
}

}  // namespace

std::string steered_peer::text() const {
    if (!why.ok()) return fmt::format("to rank {}: not steered: {}", to, why.text());
    std::string by;
    for (const hop& h : predicted.hops) by += " " + (h.address.empty() ? "(silent)" : h.address);
    return fmt::format("to rank {}: port {} by{}, one of {} way{}", to, ports.front(),
                       by.empty() ? " no router" : by, ways, ways == 1 ? "" : "s");
}

std::string shared_link::text() const {
    std::string t = fmt::format("link into {}, round {}:", link, round);
    for (const auto& [from, to] : flows) t += fmt::format(" {}->{}", from, to);
    return t;
}

const steered_peer* steering::to(rank_t r) const noexcept {
    for (const steered_peer& p : peers)
        if (p.to == r) return &p;
    return nullptr;
}

result<steering> steer(group& g, std::span<const peer_rounds> mine, const steer_options& o) {
    const uint64_t since = now_ns();
    result<std::vector<candidates>> seen = probe_candidates(g, mine, o);
    if (!seen.ok()) return seen.why().in("choosing paths");
    steering s;
    s.probe_ms = uint32_t((now_ns() - since) / 1'000'000);
    std::vector<found_flow> own;
    for (const candidates& c : *seen) own.push_back(c.found);
    result<std::vector<bytes>> records = exchange_records(g, write_found(own));
    if (!records.ok()) return records.why().in("choosing paths");
    std::vector<std::vector<found_flow>> found(records->size());
    std::vector<std::string> hosts;
    for (rank_t r = 0; r < g.nranks(); ++r) {
        if (!parse_found((*records)[size_t(r)], g.nranks(), found[size_t(r)]))
            return status(EF_MISMATCH, g.name(r).text() +
                                           " tells of its paths in a way that "
                                           "cannot be read");
        for (const found_flow& f : found[size_t(r)])
            if (f.ways.empty()) s.unreached.push_back(fmt::format("{}->{}: {}", r, f.to, f.why));
        hosts.push_back(host_of(g, r));
    }
    const flow_table t = make_flow_table(found, hosts, o.names);
    const assignment a = assign(t.flows);
    for (size_t i = 0; i < seen->size(); ++i)
        s.peers.push_back(peer_of((*seen)[i], t, a, t.first[size_t(g.rank())] + uint32_t(i)));
    describe(t, a, s);
    for (const steered_peer& p : s.peers)
        log(p.why.ok() ? EF_LOG_DEBUG : EF_LOG_WARN, "path: rank {} {}", g.rank(), p.text());
    if (g.rank() == 0)
        for (const shared_link& l : s.shared) log(EF_LOG_INFO, "path: shared: {}", l.text());
    return s;
}

}  // namespace ef::path
