#include "perftests/common/collective.hpp"

#include <algorithm>

namespace ef::perf {
namespace {

// In the order of `kind`.
constexpr collective table[] = {
    {kind::allreduce, "allreduce", "ef_allreduce_perf", true, true, false, true, EF_ALLREDUCE},
    {kind::reduce_scatter, "reduce_scatter", "ef_reduce_scatter_perf", true, true, false, true,
     EF_REDUCE_SCATTER},
    {kind::allgather, "allgather", "ef_allgather_perf", true, false, false, true, EF_ALLGATHER},
    {kind::broadcast, "broadcast", "ef_broadcast_perf", true, false, true, true, EF_BROADCAST},
    {kind::barrier, "barrier", "ef_barrier_perf", false, false, false, false, EF_BARRIER},
    {kind::sendrecv, "sendrecv", "ef_sendrecv_perf", true, false, false, false, std::nullopt},
};

/// A ring step: every rank sends to the next one and receives from the one before.
ef_status_t sendrecv(const call& c) noexcept {
    const int next = (c.rank + 1) % c.nranks;
    const int before = (c.rank + c.nranks - 1) % c.nranks;
    ef_request_t in = nullptr;
    ef_request_t out = nullptr;
    if (ef_status_t s = ef_irecv(c.recv, c.count, c.type, before, c.comm, &in); s != EF_OK)
        return s;
    const ef_status_t sent = ef_isend(c.send, c.count, c.type, next, c.comm, &out);
    if (sent != EF_OK) {
        // A receive that nobody answers would hold its buffer: take the communicator down, as the
        // program ends anyway.
        ef_comm_abort(c.comm);
        ef_wait(&in);
        return sent;
    }
    const ef_status_t received = ef_wait(&in);
    const ef_status_t done = ef_wait(&out);
    return received != EF_OK ? received : done;
}

}  // namespace

const collective& find_collective(kind what) noexcept { return table[size_t(what)]; }

shape shape_of(kind what, uint64_t bytes, size_t element, int nranks) noexcept {
    const bool shared_out = what == kind::reduce_scatter || what == kind::allgather;
    const size_t parts = shared_out ? size_t(nranks) : 1;
    shape s;
    if (what == kind::barrier) return s;
    s.count = bytes == 0 ? 0 : std::max<size_t>(1, bytes / element / parts);
    s.send_elements = what == kind::reduce_scatter ? s.count * parts : s.count;
    s.recv_elements = what == kind::allgather ? s.count * parts : s.count;
    s.bytes = uint64_t(s.count) * parts * element;
    return s;
}

double bus_factor(kind what, int nranks) noexcept {
    const double n = nranks;
    switch (what) {
    case kind::allreduce:
        return 2 * (n - 1) / n;
    case kind::reduce_scatter:
    case kind::allgather:
        return (n - 1) / n;
    case kind::broadcast:
    case kind::sendrecv:
        return 1;
    case kind::barrier:
        return 0;
    }
    return 0;
}

ef_status_t make(const call& c) noexcept {
    switch (c.what) {
    case kind::allreduce:
        return ef_allreduce(c.send, c.recv, c.count, c.type, c.op, c.comm);
    case kind::reduce_scatter:
        return ef_reduce_scatter(c.send, c.recv, c.count, c.type, c.op, c.comm);
    case kind::allgather:
        return ef_allgather(c.send, c.recv, c.count, c.type, c.comm);
    case kind::broadcast:
        return ef_broadcast(c.send, c.recv, c.count, c.type, c.root, c.comm);
    case kind::barrier:
        return ef_barrier(c.comm);
    case kind::sendrecv:
        return sendrecv(c);
    }
    return EF_INVALID;
}

}  // namespace ef::perf
