#include "allreduce/fabric_view.hpp"

#include "affinity/fabric/load.hpp"
#include "allreduce/cost/fabric_price.hpp"
#include "allreduce/mapping/place.hpp"
#include "transport/base/bytes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

namespace ef {
namespace {

using fingerprint = std::array<std::byte, 8>;

constexpr fingerprint unread{};  // it has a fabric that it cannot read
const fingerprint unset = [] {
    fingerprint f;
    f.fill(std::byte(0xff));
    return f;
}();

// FNV-1a over all that routes and placement look at.
fingerprint fingerprint_of(const fabric::graph& g) {
    uint64_t h = 0xcbf29ce484222325;
    const auto add = [&](std::string_view text) {
        for (char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    };
    for (const fabric::node& n : g.nodes())
        add(fmt::format("{} {} {} {} {} {};", n.name, int(n.kind), n.side, n.server, n.address,
                        n.rail));
    for (const fabric::link& l : g.links())
        add(fmt::format("{} {} {} {};", l.from, l.to, l.gbps, l.up));
    if (g.bigraph) add(fmt::format("{} {}", g.bigraph->switches, g.bigraph->lanes));
    const le<uint64_t> w = h == 0 || ~h == 0 ? 1 : h;
    fingerprint f;
    memcpy(f.data(), &w, sizeof(w));
    return f;
}

std::vector<mapping::rank_identity> identities(const group& g) {
    std::vector<mapping::rank_identity> ranks;
    for (rank_t r = 0; r < g.nranks(); ++r) {
        const peer_info& p = g.info(r);
        ranks.push_back({p.host, p.host_id, mapping::ip_of(p.address)});
    }
    return ranks;
}

// OK if all ranks have read the same; otherwise who has not is named, on all ranks alike.
status agree(group& g, const fingerprint& mine, const status& why) {
    result<std::vector<std::byte>> all = g.exchange(mine);
    if (!all.ok()) return all.why();
    const auto of = [&](rank_t r) {
        fingerprint f;
        memcpy(f.data(), all->data() + size_t(r) * f.size(), f.size());
        return f;
    };
    for (rank_t r = 0; r < g.nranks(); ++r)
        if (of(r) == unread)
            return r == g.rank()
                       ? why
                       : status(EF_INVALID,
                                fmt::format("{} cannot read its EFLOPS_FABRIC", g.name(r).text()));
    for (rank_t r = 1; r < g.nranks(); ++r)
        if (of(r) != of(0))
            return status(EF_MISMATCH, fmt::format("{} and {} have different EFLOPS_FABRIC",
                                                   g.name(0).text(), g.name(r).text()));
    return {};
}

// Whether rank 0 hears, in most rounds in which it sends, from the same ranks.
bool exchanges(const algorithm& a, const plan_request& like) {
    plan_request r = like;
    r.rank = 0;
    const plan p = a.build(r);
    std::map<uint32_t, std::pair<std::set<rank_t>, std::set<rank_t>>> rounds;
    for (const move& m : p.moves)
        if (m.peer >= 0)
            (m.kind == move_kind::send ? rounds[m.round].first : rounds[m.round].second)
                .insert(m.peer);
    const auto both = std::count_if(rounds.begin(), rounds.end(), [](const auto& t) {
        return t.second.first == t.second.second;
    });
    return 2 * size_t(both) > rounds.size();
}

}  // namespace

result<std::unique_ptr<fabric_view>> fabric_view::create(group& g, const config& c,
                                                         std::span<const int> host_of) {
    fabric::graph net;
    fingerprint mine = unset;
    status why;
    if (!c.fabric.empty()) {
        result<fabric::graph> read = fabric::load_fabric(c.fabric);
        if (!read.ok()) why = read.why().in("EFLOPS_FABRIC");
        mine = read.ok() ? fingerprint_of(*read) : unread;
        if (read.ok()) net = std::move(*read);
    }
    if (status s = agree(g, mine, why); !s.ok()) return s;
    if (mine == unset) return std::unique_ptr<fabric_view>();
    std::unique_ptr<fabric_view> v(new fabric_view);
    v->net_ = std::move(net);
    for (fabric::link_id l = 0; l < v->net_.links().size(); ++l)
        if (const std::string& at = v->net_.edge(l).to_address; !at.empty()) v->into_[at] = l;
    result<mapping::placement> where = mapping::place(v->net_, identities(g));
    if (!where.ok()) return where.why().in("EFLOPS_FABRIC");
    v->where_ = std::move(*where);
    // Steered flows meet as little as lanes allow, which is what static routes stand for here.
    const bool chosen = c.steer == "on";
    v->ways_ = std::make_unique<fabric::routes>(
        v->net_,
        fabric::route_rule{chosen ? fabric::balance::by_destination : fabric::balance::hash, 1});
    v->maps_ = mapping::make_maps(v->net_, v->where_, host_of);
    return v;
}

fabric::link_id fabric_view::link_into(const std::string& address) const noexcept {
    const auto it = into_.find(address);
    return it == into_.end() ? fabric::none : it->second;
}

cost::link_price fabric_view::price(const algorithm& a, const plan_request& like) const {
    const cost::fabric_reading r = cost::read_on_fabric(a, like, *ways_, where_);
    cost::link_price p;
    p.in_pairs = exchanges(a, like);
    p.refused = r.refused;
    p.rounds = r.steps.rounds;
    p.messages = r.steps.messages;
    p.worst_load = r.steps.worst_load;
    p.worst_link = r.steps.worst_link;
    if (&a == known_ && like.coll == EF_ALLREDUCE && !p.refused) {
        price_known(p, a, like);
        return p;
    }
    for (const auto& set : r.steps.sets) p.ns_per_byte += set.rounds * set.us_per_byte * 1e3;
    return p;
}

// Rounds of the same flows are one for those who look for meetings: the first stands for all.
void fabric_view::price_known(cost::link_price& p, const algorithm& a,
                              const plan_request& like) const {
    std::map<std::vector<std::pair<rank_t, rank_t>>, double> meet;
    p.worst_load = 1;
    if (known_fullest_ != fabric::none) p.worst_link = known_fullest_;
    for (const flow_round& t : flows_of(a, like)) {
        std::vector<std::pair<rank_t, rank_t>> pairs;
        double slowest = 0;
        for (const flow& f : t.flows) {
            const fabric::node_id from = net_.hosts()[where_[size_t(f.from)]],
                                  to = net_.hosts()[where_[size_t(f.to)]];
            if (from == to) continue;
            pairs.push_back({f.from, f.to});
            slowest = std::max(slowest, f.part * 8 / net_.edge(net_.uplink(from)).gbps);
        }
        const auto it = known_flows_.find(t.round);
        const double flows = it == known_flows_.end() ? 1 : it->second;
        double& load = meet.emplace(std::move(pairs), flows).first->second;
        p.ns_per_byte += t.repeat * slowest * load;
        p.worst_load = std::max(p.worst_load, load);
    }
}

void fabric_view::know_ways(const algorithm& a, std::map<uint32_t, double> flows_by_round,
                            fabric::link_id fullest) {
    known_ = &a;
    known_fullest_ = fullest;
    known_flows_ = std::move(flows_by_round);
}

void fabric_view::leave_out(std::span<const fabric::link_id> links) {
    for (fabric::link_id l : links) {
        if (l >= net_.links().size()) continue;
        net_.set_up(l, false);
        left_out_.push_back(l);
    }
    ways_->refresh();
    known_ = nullptr;
}

}  // namespace ef
