#include "allreduce/selection.hpp"

#include "transport/bootstrap/identity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

namespace ef {
namespace {

// As the kernel says ("32768K"); the C library's answer is that of the whole socket, of which a
// virtual machine may have only a part.
// 0: unknown.
double last_cache_bytes() {
    std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
    double kib = 0;
    char unit = 0;
    return file >> kib >> unit && unit == 'K' ? kib * 1024 : 0;
}

}  // namespace

result<std::shared_ptr<selection>> selection::create(group& g, const config& c) {
    auto s = std::make_shared<selection>();
    s->rank_ = g.rank();
    s->nranks_ = g.nranks();
    const std::string forced = c.algorithm == "auto" ? std::string() : c.algorithm;
    if (!forced.empty() && !find_algorithm(forced)) {
        std::string all;
        for (const algorithm& a : algorithms())
            all += fmt::format("{}{}", all.empty() ? "" : ", ", a.name);
        return status(EF_INVALID,
                      fmt::format("algorithm {}: not known, give auto or one of {}", forced, all));
    }

    std::map<std::string, int> hosts, ranks_on;
    int ranks_per_host = 1;
    int least_cores = cores_of_host(g, 0);
    for (rank_t r = 0; r < g.nranks(); ++r) {
        // Where shared memory is switched off, a rank is as far from its neighbour as from anybody.
        const bool shares = c.transport == "auto" || c.transport == "shm";
        const std::string id = shares ? g.info(r).host_id : fmt::format("rank {}", r);
        s->host_of_.push_back(hosts.emplace(id, int(hosts.size())).first->second);
        ranks_per_host = std::max(ranks_per_host, ++ranks_on[g.info(r).host_id]);
        if (ranks_on[g.info(r).host_id] == 1)
            least_cores = std::min(least_cores, cores_of_host(g, r));
    }
    s->model_.cores = std::max(1, least_cores);
    if (const double bytes = last_cache_bytes(); bytes > 0) s->model_.cache_bytes = bytes;
    result<std::unique_ptr<fabric_view>> view = fabric_view::create(g, c, s->host_of_);
    if (!view.ok()) return view.why();
    s->view_ = std::move(*view);
    s->sync_ = c.sync;
    cost::link_pricer links;
    if (s->view_)
        links = [v = s->view_.get()](const algorithm& a, const plan_request& r) {
            return v->price(a, r);
        };
    s->planner_ = std::make_unique<cost::planner>(ranks_per_host, forced, uint64_t(c.chunk_bytes),
                                                  std::move(links));
    return s;
}

void selection::leave_out(std::span<const fabric::link_id> links) {
    std::lock_guard hold(lock_);
    view_->leave_out(links);
    planner_->forget();
}

void selection::know_ways(const choice& c, std::map<uint32_t, double> flows_by_round,
                          fabric::link_id fullest) {
    if (!view_) return;
    std::lock_guard hold(lock_);
    view_->know_ways(*c.algo, std::move(flows_by_round), fullest);
    planner_->forget();
}

std::string selection::text_of(std::span<const fabric::link_id> links) const {
    std::string t;
    for (fabric::link_id l : links)
        if (l < view_->net().links().size()) t += (t.empty() ? "" : ", ") + view_->net().text_of(l);
    return t.empty() ? "no link, and choose paths anew" : t;
}

void selection::set_model(const cost::machine_model& m) noexcept {
    const double cores = model_.cores;  // of this communicator's hosts
    model_ = m;
    model_.cores = cores;
}

plan_request selection::request(ef_collective_t coll, int root, bool in_place) const {
    plan_request r;
    r.coll = coll == EF_BARRIER ? EF_ALLREDUCE : coll;
    r.rank = rank_;
    r.nranks = nranks_;
    r.root = root;
    r.in_place = in_place;
    r.host_of = host_of_;
    if (view_) r.maps = &view_->maps();
    return r;
}

// Rounds are kept apart where flows that meet would cost more than the handshake: a rank that runs
// ahead costs up to a third of the time on the links [fluid simulation of halving-doubling with
// skew], the handshake two latencies a round. On a ring everybody waits for both neighbours in every
// round, and a handshake adds up their delays (16 hosts, 100 Mbit/s: 1.32 against 1.15 of the ideal).
sync_policy selection::sync_for(const cost::decision& d, uint64_t bytes) const {
    if (sync_ == "pair") return sync_policy::pair;
    if (sync_ == "barrier") return sync_policy::barrier;
    if (!view_ || sync_ == "none") return sync_policy::none;
    if (!d.links.in_pairs) return sync_policy::none;
    constexpr double at_stake = 0.1;
    const double on_links = double(bytes) * d.links.ns_per_byte,
                 handshakes = 2.0 * d.links.rounds * model_.inter.alpha_ns;
    return on_links * at_stake > handshakes ? sync_policy::pair : sync_policy::none;
}

result<cost::decision> selection::decide(ef_collective_t coll, int root, uint64_t bytes) const {
    std::lock_guard hold(lock_);
    return planner_->decide(request(coll, root, false), bytes, model_);
}

result<selection::choice> selection::choose(ef_collective_t coll, int root, uint64_t bytes) const {
    result<cost::decision> d = decide(coll, root, bytes);
    if (!d.ok()) return d.why();
    return choice{d->algo, std::string(d->algo->name), d->chunk_bytes, sync_for(*d, bytes)};
}

plan selection::build(const choice& c, ef_collective_t coll, int root, bool in_place) const {
    plan_request r = request(coll, root, in_place);
    r.sync = c.sync;
    plan p = c.algo->build(r);
    p.sync = c.sync;
    if (c.sync ==
        sync_policy::barrier)  // all ranks count the same rounds, also those without moves
        for (r.rank = 0; r.rank < nranks_; ++r.rank)
            p.all_rounds = std::max(p.all_rounds, c.algo->build(r).all_rounds);
    return p;
}

std::string selection::explain(const cost::decision& d, ef_collective_t coll,
                               uint64_t bytes) const {
    std::lock_guard hold(lock_);  // links may be left out meanwhile
    static constexpr const char* words[] = {"as the bytes come", "by a handshake of each pair",
                                            "by a barrier of all ranks"};
    if (!view_) return cost::explain(d, request(coll, 0, false), bytes, model_);
    const rank_maps& maps = view_->maps();
    return fmt::format("fabric {}: hdrm is {}; eulerian_ring is {}\n", view_->net().name,
                       maps.halving_says.empty() ? "not possible" : maps.halving_says,
                       maps.ring_says.empty() ? "not possible" : maps.ring_says) +
           (view_->left_out().empty() ? std::string()
                                      : fmt::format("left out: {}\n", text_of(view_->left_out()))) +
           cost::explain(d, request(coll, 0, false), bytes, model_,
                         [&](uint32_t l) { return view_->net().text_of(l); }) +
           fmt::format("rounds follow each other {}\n", words[int(sync_for(d, bytes)) % 3]);
}

cost::traffic_count selection::traffic(const cost::decision& d, ef_collective_t coll, int root,
                                       uint64_t bytes, bool shared_memory) const {
    return cost::count_traffic(d.algo->build(request(coll, root, false)), host_of_, bytes,
                               shared_memory);
}

}  // namespace ef
