// One table per process, filled on first use from the best instruction set of the machine: what
// find_reduce returns is called without a further dispatch.
#include <hwy/targets.h>

#include "allreduce/reduce/kernels.hpp"

namespace ef {
namespace {

const kernels& best() noexcept {
    static const kernels k = load_kernels();
    return k;
}

bool known(ef_type_t type) noexcept { return static_cast<unsigned>(type) < reduce_types; }

}  // namespace

kernels load_kernels() noexcept {
    kernels k;
    load_floats(k);
    load_halves(k);
    load_integers(k);
    return k;
}

reduce_fn find_reduce(ef_type_t type, ef_op_t op) noexcept {
    const ef_op_t adds = op == EF_AVG ? EF_SUM : op;
    if (!known(type) || static_cast<unsigned>(adds) >= reduce_ops) return nullptr;
    return best().reduce[type][adds];
}

average_fn find_average(ef_type_t type) noexcept {
    return known(type) ? best().average[type] : nullptr;
}

const char* reduce_target() noexcept { return hwy::TargetName(best().target); }

}  // namespace ef
