// What the programs measure: one row per kind, with the arithmetic of nccl-tests.
//
//   kind            bytes in the table    count                bus bandwidth / algorithm bandwidth
//   allreduce       count * element       elements             2 (n - 1) / n
//   reduce_scatter  n * count * element   elements received    (n - 1) / n
//   allgather       n * count * element   elements sent        (n - 1) / n
//   broadcast       count * element       elements             1
//   sendrecv        count * element       elements             1    (send to rank + 1, receive from
//   barrier         0                     0                    -     rank - 1, both at once)
#pragma once

#include <eflops/allreduce.h>

#include <cstdint>
#include <optional>

namespace ef::perf {

enum class kind { allreduce, reduce_scatter, allgather, broadcast, barrier, sendrecv };

struct collective {
    kind what;
    const char* name;     // "allreduce"
    const char* program;  // "ef_allreduce_perf"
    bool has_sizes;
    bool has_op;
    bool has_root;
    bool in_place;                           // can run in place
    std::optional<ef_collective_t> planned;  // how ef_comm_plan calls it
};

const collective& find_collective(kind what) noexcept;

/// Elements of a call, and the bytes that the table shows for it.
struct shape {
    size_t count = 0;  // as the call takes it
    size_t send_elements = 0;
    size_t recv_elements = 0;
    uint64_t bytes = 0;
};

/// The call that comes nearest to `bytes` from below, but of one element at least unless bytes is
/// 0.
shape shape_of(kind what, uint64_t bytes, size_t element, int nranks) noexcept;

/// Bus bandwidth / algorithm bandwidth. 0 for a barrier, which moves no data.
double bus_factor(kind what, int nranks) noexcept;

/// One call, ready to be made again and again.
struct call {
    kind what = kind::allreduce;
    const void* send = nullptr;
    void* recv = nullptr;
    size_t count = 0;
    ef_type_t type = EF_FLOAT32;
    ef_op_t op = EF_SUM;
    int root = 0;
    int rank = 0;
    int nranks = 1;
    ef_comm_t comm = nullptr;
};

ef_status_t make(const call& c) noexcept;

}  // namespace ef::perf
