// map: the order of the ranks as a file for a launcher, so that rank p sits on position p: an
// existing job gets the fabric's order without a change.
#include "perftests/common/exit_code.hpp"
#include "tools/plan/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

namespace ef::planning {
namespace {

/// By rank: which of its server's ranks it is, in the order of rails.
std::vector<size_t> slots(const job& j) {
    std::map<std::string, std::vector<rank_t>> on;
    for (rank_t r = 0; r < j.nranks(); ++r) on[j.server(r)].push_back(r);
    std::vector<size_t> slot(size_t(j.nranks()));
    for (auto& [server, ranks] : on) {
        std::stable_sort(ranks.begin(), ranks.end(),
                         [&](rank_t a, rank_t b) { return j.host(a).rail < j.host(b).rail; });
        for (size_t i = 0; i < ranks.size(); ++i) slot[size_t(ranks[i])] = i;
    }
    return slot;
}

std::string line_of(const options& o, const job& j, rank_t r, size_t slot) {
    if (o.launcher == "openmpi") return fmt::format("rank {}={} slot={}", r, j.server(r), slot);
    if (o.launcher == "mpich") return fmt::format("{}:1", j.server(r));
    if (o.launcher == "srun") return j.server(r);
    return j.host(r).name;
}

std::string how_to_use(const options& o, const job& j) {
    if (o.launcher == "openmpi") return fmt::format("mpirun -n {} --rankfile FILE", j.nranks());
    if (o.launcher == "mpich") return fmt::format("mpiexec.hydra -n {} -f FILE", j.nranks());
    if (o.launcher == "srun")
        return fmt::format("SLURM_HOSTFILE=FILE srun -n {} --distribution=arbitrary", j.nranks());
    return "ef_plan ... --place FILE";
}

/// A launcher's file cannot quote: a name with blanks would be read as two words.
void check_names(const job& j) {
    for (rank_t r = 0; r < j.nranks(); ++r)
        for (const std::string& name : {j.server(r), j.host(r).name})
            if (name.find_first_of(" \t\r\n#=:") != std::string::npos)
                throw perf::failure(
                    perf::exit_failed,
                    fmt::format("rank {}: the name \"{}\" cannot stand in a launcher's file", r,
                                name));
}

}  // namespace

int map_ranks(const options& o) {
    options ordered = o;
    ordered.who.order = o.plan.algorithm == "ring" ? "ring" : "hdrm";
    const auto j = make_job(ordered);
    check_names(*j);
    const std::vector<size_t> slot = slots(*j);
    if (o.json) {
        json out = json_head(o), ranks = json::array();
        out["order"] = j->order_says;
        for (rank_t r = 0; r < j->nranks(); ++r)
            ranks.push_back(
                {{"rank", r},
                 {"host", j->host(r).name},
                 {"server", j->server(r)},
                 {"rail", j->host(r).rail},
                 {"slot", slot[size_t(r)]},
                 {"switch",
                  j->net.at(j->net.switch_of(j->net.hosts()[j->where[size_t(r)]])).name}});
        out["ranks"] = ranks;
        print_json(out);
        return perf::exit_good;
    }
    for (rank_t r = 0; r < j->nranks(); ++r) fmt::print("{}\n", line_of(o, *j, r, slot[size_t(r)]));
    fmt::print(stderr, "ef_plan: {} ranks, {}; use: {}\n", j->nranks(), j->order_says,
               how_to_use(o, *j));
    return perf::exit_good;
}

}  // namespace ef::planning
