#include "allreduce/describe.hpp"

#include <fmt/format.h>

namespace ef {
namespace {

uint64_t whole_bytes(const comm& c, const comm::collective_call& call) {
    const bool per_rank = call.coll == EF_REDUCE_SCATTER || call.coll == EF_ALLGATHER;
    return call.count * ef_type_size(call.type) * (per_rank ? uint64_t(c.nranks()) : 1);
}

status acceptable(const comm::collective_call& call) {
    if (!ef_type_size(call.type)) return status(EF_INVALID, "type is none of ef_type_t");
    if (unsigned(call.coll) > EF_BARRIER)
        return status(EF_INVALID, "coll is none of ef_collective_t");
    return {};
}

}  // namespace

const char* describer::keep(std::string text) {
    std::lock_guard hold(lock_);
    return kept_.insert(std::move(text)).first->c_str();
}

status describer::plan(comm& c, const comm::collective_call& call, bool shared_memory,
                       ef_plan_info& out) {
    if (status s = acceptable(call); !s.ok()) return s.in("ef_comm_plan");
    const uint64_t bytes = whole_bytes(c, call);
    result<cost::decision> d = c.planner().decide(call.coll, 0, bytes);
    if (!d.ok()) return d.why().in("ef_comm_plan");
    const cost::traffic_count t = c.planner().traffic(*d, call.coll, 0, bytes, shared_memory);
    bool shm = false, tcp = false;
    for (rank_t r = 0; r < c.nranks(); ++r) {
        if (r == c.rank()) continue;
        (c.members().local(r) ? shm : tcp) = true;
    }
    out.algorithm = keep(std::string(d->algo->name));
    out.medium = shm && tcp ? "shm+tcp" : shm ? "shm" : tcp ? "tcp" : "self";
    out.rounds = d->rounds;
    out.transfers = t.transfers;
    out.chunk_bytes = d->chunk_bytes;
    out.predicted_us = d->predicted_ns / 1e3;
    out.limit_us = d->limit_ns / 1e3;
    out.bytes_sent = t.sent;
    out.bytes_read = t.read;
    out.bytes_written = t.written;
    return {};
}

result<std::string> describer::explain(comm& c, const comm::collective_call& call,
                                       bool shared_memory) {
    if (status s = acceptable(call); !s.ok()) return s.in("ef_comm_explain");
    const uint64_t bytes = whole_bytes(c, call);
    result<cost::decision> d = c.planner().decide(call.coll, 0, bytes);
    if (!d.ok()) return d.why().in("ef_comm_explain");
    const cost::traffic_count t = c.planner().traffic(*d, call.coll, 0, bytes, shared_memory);
    return c.planner().explain(*d, call.coll, bytes) +
           fmt::format(
               "rank {} sends {} messages of {} bytes in all; its cores read {} and write {} "
               "bytes\n",
               c.rank(), t.transfers, t.sent, t.read, t.written) +
           c.paths_text();
}

status describer::peer(comm& c, rank_t r, ef_peer_info& out) {
    const peer_info& p = c.members().info(r);
    out.pid = p.pid;
    out.host = keep(p.host);
    out.medium = keep(c.all_links().medium(r));
    return {};
}

}  // namespace ef
