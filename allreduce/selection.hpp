// selection: which plan a communicator runs. It joins what the group knows (who sits on which
// host), what was measured (calibration) and what was forced (configuration) to the planner of
// cost/.
//
// Every rank must come to the same choice, so all that it depends on is the same on all ranks: the
// model is rank 0's, spread when the communicator is made, and nothing here looks at the rank, the
// buffers or the clock.
#pragma once

#include "allreduce/algo/algorithm.hpp"
#include "allreduce/cost/planner.hpp"
#include "allreduce/fabric_view.hpp"
#include "transport/bootstrap/group.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ef {

class selection {
public:
    struct choice {
        const algorithm* algo = nullptr;
        std::string name;
        uint64_t chunk_bytes = 0;
        sync_policy sync = sync_policy::none;
    };

    /// Collective over `g` (the model is exchanged). Errors: an unknown forced algorithm, with the
    /// list of names.
    static result<std::shared_ptr<selection>> create(group& g, const config& c);

    /// For a vector of `bytes` (the whole one, as a plan counts it).
    result<choice> choose(ef_collective_t coll, int root, uint64_t bytes) const;
    plan build(const choice& c, ef_collective_t coll, int root, bool in_place) const;

    /// The candidates with their predicted times and the reason for the one that was taken.
    result<cost::decision> decide(ef_collective_t coll, int root, uint64_t bytes) const;

    std::string explain(const cost::decision& d, ef_collective_t coll, uint64_t bytes) const;
    /// What this rank moves for it.
    cost::traffic_count traffic(const cost::decision& d, ef_collective_t coll, int root,
                                uint64_t bytes, bool shared_memory) const;

    /// The fabric between the hosts; null if none is known.
    const fabric_view* view() const noexcept { return view_.get(); }
    /// fabric_view::know_ways, if there is a fabric. Only on all ranks alike.
    void know_ways(const choice& c, std::map<uint32_t, double> flows_by_round,
                   fabric::link_id fullest);
    /// Plan without these links from now on. Only between operations, and on all ranks alike.
    void leave_out(std::span<const fabric::link_id> links);
    /// "U0-L1, U1-L0"
    std::string text_of(std::span<const fabric::link_id> links) const;

    const cost::machine_model& model() const noexcept { return model_; }
    /// Only between operations, and on all ranks alike.
    void set_model(const cost::machine_model& m) noexcept;

private:
    sync_policy sync_for(const cost::decision& d, uint64_t bytes) const;
    plan_request request(ef_collective_t coll, int root, bool in_place) const;

    rank_t rank_ = 0, nranks_ = 1;
    std::vector<int> host_of_;  // by rank; every rank its own where shm is not used
    std::unique_ptr<fabric_view> view_;
    std::string sync_;  // auto, none, pair, barrier
    cost::machine_model model_;
    mutable std::mutex lock_;  // of planner_: ef_comm_plan may be called beside an operation
    mutable std::unique_ptr<cost::planner> planner_;
};

}  // namespace ef
