// describe: what ef_comm_plan, ef_comm_explain and ef_comm_peer say. Keeps the strings that it has
// handed out.
#pragma once

#include "allreduce/comm.hpp"

#include <mutex>
#include <set>
#include <string>

namespace ef {

class describer {
public:
    status plan(comm& c, const comm::collective_call& call, bool shared_memory, ef_plan_info& out);
    result<std::string> explain(comm& c, const comm::collective_call& call, bool shared_memory);
    status peer(comm& c, rank_t r, ef_peer_info& out);

private:
    const char* keep(std::string text);

    std::mutex lock_;
    std::set<std::string> kept_;  // nodes do not move
};

}  // namespace ef
