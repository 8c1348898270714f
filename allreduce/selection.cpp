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
        const std::string id = c.transport == "tcp" ? fmt::format("rank {}", r) : g.info(r).host_id;
        s->host_of_.push_back(hosts.emplace(id, int(hosts.size())).first->second);
        ranks_per_host = std::max(ranks_per_host, ++ranks_on[g.info(r).host_id]);
        if (ranks_on[g.info(r).host_id] == 1)
            least_cores = std::min(least_cores, cores_of_host(g, r));
    }
    s->model_.cores = std::max(1, least_cores);
    if (const double bytes = last_cache_bytes(); bytes > 0) s->model_.cache_bytes = bytes;
    s->planner_ = std::make_unique<cost::planner>(ranks_per_host, forced, uint64_t(c.chunk_bytes));
    return s;
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
    return r;
}

result<cost::decision> selection::decide(ef_collective_t coll, int root, uint64_t bytes) const {
    std::lock_guard hold(lock_);
    return planner_->decide(request(coll, root, false), bytes, model_);
}

result<selection::choice> selection::choose(ef_collective_t coll, int root, uint64_t bytes) const {
    result<cost::decision> d = decide(coll, root, bytes);
    if (!d.ok()) return d.why();
    return choice{d->algo, std::string(d->algo->name), d->chunk_bytes};
}

plan selection::build(const choice& c, ef_collective_t coll, int root, bool in_place) const {
    return c.algo->build(request(coll, root, in_place));
}

std::string selection::explain(const cost::decision& d, ef_collective_t coll,
                               uint64_t bytes) const {
    return cost::explain(d, request(coll, 0, false), bytes, model_);
}

cost::traffic_count selection::traffic(const cost::decision& d, ef_collective_t coll, int root,
                                       uint64_t bytes, bool shared_memory) const {
    return cost::count_traffic(d.algo->build(request(coll, root, false)), host_of_, bytes,
                               shared_memory);
}

}  // namespace ef
