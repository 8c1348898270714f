#include "allreduce/cost/planner.hpp"

#include "allreduce/cost/fabric_price.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ef::cost {
namespace {

// Messages of an eager plan are copied when they are posted, by every transport: this is what all
// of them take.
constexpr uint64_t most_eager_bytes = 16 * 1024;

// As long as shared memory's longest message: fewer messages, and a chunk per block still fits the
// cache. Sockets need more to keep a connection busy through one system call.
constexpr uint64_t chunk_intra = 128 * 1024;
constexpr uint64_t chunk_inter = 256 * 1024;

bool leaves_host(const plan_request& r) {
    return std::any_of(r.host_of.begin(), r.host_of.end(),
                       [&](int h) { return h != r.host_of[0]; });
}

}  // namespace

const std::vector<planner::known>& planner::read(const plan_request& r) {
    auto [it, is_new] = read_.try_emplace({r.coll, r.root});
    if (!is_new) return it->second;
    for (const algorithm& a : algorithms()) {
        known k{&a, a.accepts(r), {}, {}};
        if (k.accepts) k.reading = profile_of(a, r);
        if (k.accepts && links_) k.links = links_(a, r);
        it->second.push_back(std::move(k));
    }
    return it->second;
}

result<decision> planner::decide(const plan_request& request, uint64_t bytes,
                                 const machine_model& m) {
    plan_request r = request;
    r.rank = 0;
    r.in_place = false;  // ranks may differ in it, so it must not count
    if (r.coll != EF_BROADCAST) r.root = 0;
    decision d;
    d.chunk_bytes = chunk_bytes_     ? (chunk_bytes_ + 63) / 64 * 64
                    : leaves_host(r) ? chunk_inter
                                     : chunk_intra;
    d.limit_ns = limit_ns(r, bytes, m);
    for (const known& k : read(r)) {
        candidate c{k.algo, 0, 0, nullptr, k.links};
        if (!k.accepts) c.refused = "does not serve this collective on these ranks";
        else if (k.links.refused) c.refused = k.links.refused;
        else if (k.reading.eager && bytes > most_eager_bytes)
            c.refused = "copies every message: for short vectors";
        if (!c.refused) {
            const price p = price_of(k.reading, r.nranks, ranks_per_host_, bytes, d.chunk_bytes, m);
            // The hosts' work and the links' run side by side.
            c.ns = std::max(p.ns, double(k.links.messages) * m.inter.alpha_ns +
                                      double(bytes) * k.links.ns_per_byte);
            c.rounds = p.rounds;
        }
        d.candidates.push_back(c);
    }
    const candidate* taken = nullptr;
    const algorithm* wanted = forced_.empty() ? nullptr : find_algorithm(forced_);
    for (const candidate& c : d.candidates) {
        if (c.refused) continue;
        if (c.algo == wanted) taken = &c;
        if (!wanted && (!taken || c.ns < taken->ns)) taken = &c;
    }
    // A forced algorithm that does not serve this call (a tree for a reduce_scatter, direct for a
    // long vector) gives way to the cheapest one: the force is a wish for all collectives of a job.
    if (!taken)
        for (const candidate& c : d.candidates)
            if (!c.refused && (!taken || c.ns < taken->ns)) taken = &c;
    // Flows that meet do not share a link as evenly as a price assumes.
    bool by_load = false;
    if (taken && !wanted && links_) {
        const double lowest = taken->ns;
        for (const candidate& c : d.candidates) {
            if (c.refused || c.ns > lowest * equal_prices) continue;
            if (std::pair(c.links.worst_load, c.ns) >=
                std::pair(taken->links.worst_load, taken->ns))
                continue;
            taken = &c;
            by_load = true;
        }
    }
    if (!taken) return status(EF_UNSUPPORTED, "no algorithm serves this collective on these ranks");
    d.algo = taken->algo;
    d.predicted_ns = taken->ns;
    d.rounds = taken->rounds;
    d.links = taken->links;
    if (wanted && taken->algo == wanted) d.reason = "it was asked for";
    else if (wanted)
        d.reason = fmt::format("{} was asked for, but does not serve this call", forced_);
    else if (by_load)
        d.reason = fmt::format(
            "fewest flows on a link among those within {:.0f} % of the lowest "
            "predicted time",
            (equal_prices - 1) * 100);
    else d.reason = "lowest predicted time";
    return d;
}

std::string explain(const decision& d, const plan_request& r, uint64_t bytes,
                    const machine_model& m, const std::function<std::string(uint32_t)>& link_name) {
    static constexpr const char* sources[] = {"built-in defaults", "measured in this run",
                                              "read from a file"};
    std::string t = fmt::format("{} bytes on {} ranks, model {}:\n", bytes, r.nranks,
                                sources[int(m.measured) % 3]);
    t += fmt::format(
        "  within a host: alpha {:.0f} ns, {:.0f} ns per message, {:.3f} + {:.3f} ns per byte "
        "(send + receive)\n",
        m.intra.alpha_ns, m.intra.cpu_ns, m.intra.send_ns_per_byte, m.intra.recv_ns_per_byte);
    t += fmt::format(
        "  between hosts: alpha {:.0f} ns, {:.0f} ns per message, {:.3f} + {:.3f} ns per byte\n",
        m.inter.alpha_ns, m.inter.cpu_ns, m.inter.send_ns_per_byte, m.inter.recv_ns_per_byte);
    t += fmt::format(
        "  reduction {:.3f} ns per byte, copy {:.3f} ns per byte, {:.0f} cores per host\n",
        m.gamma_ns_per_byte, m.copy_ns_per_byte, m.cores);
    t += fmt::format("{:<34} {:>12} {:>7}{}\n", "algorithm", "predicted us", "rounds",
                     link_name ? "  flows on the fullest link" : "");
    for (const candidate& c : d.candidates) {
        if (c.refused) {
            t += fmt::format("{:<34} {}\n", c.algo->name, c.refused);
            continue;
        }
        t += fmt::format("{:<34} {:>12.2f} {:>7}", c.algo->name, c.ns / 1e3, c.rounds);
        if (link_name && c.links.rounds)
            t += fmt::format("  {:g} on {}", c.links.worst_load, link_name(c.links.worst_link));
        t += c.algo == d.algo ? "  <- taken\n" : "\n";
    }
    t += fmt::format("taken: {}, chunk {} bytes, because: {}; limit {:.2f} us\n", d.algo->name,
                     d.chunk_bytes, d.reason, d.limit_ns / 1e3);
    return t;
}

}  // namespace ef::cost
