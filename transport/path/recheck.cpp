// Chosen paths looked at again: which have moved, which end, and where.
#include "transport/base/log.hpp"
#include "transport/path/steer.hpp"
#include "transport/path/steer_wire.hpp"

#include <fmt/core.h>

namespace ef::path {
namespace {

// What the same probes said then and say now. A router that is silent now and was not is no proof of
// anything while the destination still answers.
void judge(const trace& then, checked_path& p, const std::string& destination) {
    const trace& now = p.now;
    if (!now.why.ok()) {
        p.state = path_state::unknown;
        return;
    }
    if (now.reached) {
        bool same = now.hops.size() == then.hops.size();
        for (size_t i = 0; same && i < now.hops.size(); ++i)
            same = now.hops[i] == then.hops[i] || now.hops[i].address.empty() ||
                   then.hops[i].address.empty();
        p.state = same ? path_state::same : path_state::moved;
        return;
    }
    p.state = path_state::dead;
    const size_t seen = now.hops.size();
    p.last_seen = seen ? now.hops.back().address : "";
    // Where the old path went on from here, if it came by here.
    const bool on_old =
        seen == 0 || (seen <= then.hops.size() && then.hops[seen - 1].address == p.last_seen);
    size_t next = seen;
    while (next < then.hops.size() && then.hops[next].address.empty()) ++next;
    p.next_silent = on_old && next < then.hops.size() ? then.hops[next].address : destination;
}

}  // namespace

std::string checked_path::text() const {
    const std::string flow = fmt::format("{}->{}", from, to);
    switch (state) {
    case path_state::same:
        return flow + " takes the same path";
    case path_state::moved:
        return flow + " takes another path" +
               (now.hops.empty() ? std::string() : ": " + now.text());
    case path_state::dead:
        return fmt::format("{} is dead behind {}, before {}", flow,
                           last_seen.empty() ? "the host itself" : last_seen, next_silent);
    case path_state::unknown:
        break;
    }
    return flow + " could not be probed" +
           (now.why.ok() ? std::string() : ": " + std::string(now.why.text()));
}

std::vector<checked_path> recheck_own(group& g, const steering& s, const steer_options& o) {
    std::vector<checked_path> checked;
    std::vector<tuple> tuples;
    std::vector<const steered_peer*> peers;
    const result<std::vector<endpoint>> self = resolve(g.info(g.rank()).address);
    for (const steered_peer& p : s.peers) {
        if (p.ports.empty()) continue;
        const result<std::vector<endpoint>> far = resolve(g.info(p.to).address);
        if (!self.ok() || !far.ok()) continue;
        tuple t{protocol::tcp, self->front(), far->front()};
        t.from.set_port(p.ports.front());
        tuples.push_back(std::move(t));
        peers.push_back(&p);
    }
    std::vector<std::string> destinations;
    for (const tuple& t : tuples) destinations.push_back(t.to.host());
    prober p(std::move(tuples), o.probe);
    while (!p.done() && g.failure().ok()) {
        g.progress();
        if (!p.step()) p.wait(1);
    }
    for (size_t i = 0; i < peers.size(); ++i) {
        checked_path c;
        c.from = g.rank();
        c.to = peers[i]->to;
        c.now = p.traces()[i];
        judge(peers[i]->predicted, c, destinations[i]);
        checked.push_back(std::move(c));
    }
    return checked;
}

result<std::vector<checked_path>> recheck(group& g, const steering& s, const steer_options& o) {
    std::vector<checked_path> own = recheck_own(g, s, o), changed, all;
    for (const checked_path& p : own)
        if (p.state != path_state::same) changed.push_back(p);
    result<std::vector<bytes>> records = exchange_records(g, write_checked(changed));
    if (!records.ok()) return records.why().in("looking at paths again");
    for (rank_t r = 0; r < g.nranks(); ++r) {
        if (r == g.rank()) {
            all.insert(all.end(), changed.begin(), changed.end());
            continue;
        }
        if (!parse_checked((*records)[size_t(r)], g.nranks(), all))
            return status(EF_MISMATCH, g.name(r).text() +
                                           " tells of its paths in a way that "
                                           "cannot be read");
    }
    for (const checked_path& p : changed) log(EF_LOG_WARN, "path: {}", p.text());
    return all;
}

}  // namespace ef::path
