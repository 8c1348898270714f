// One table per process, filled on first use from the best instruction set of the machine: what
// find_reduce returns is called without a further dispatch.
#include <hwy/targets.h>

#include <cstring>

#include "allreduce/reduce/kernels.hpp"

namespace ef {
namespace {

const kernels& best() noexcept {
    static const kernels k = load_kernels();
    return k;
}

// A C caller may hand in any number, and C++ forbids to look at an enum beyond its range.
template <class Enum>
unsigned number(const Enum& e) noexcept {
    static_assert(sizeof e == sizeof(unsigned));
    unsigned n;
    memcpy(&n, &e, sizeof n);
    return n;
}

}  // namespace

kernels load_kernels() noexcept {
    kernels k;
    load_floats(k);
    load_halves(k);
    load_integers(k);
    return k;
}

reduce_fn find_reduce(ef_type_t type, ef_op_t op) noexcept {
    const unsigned t = number(type), given = number(op);
    const unsigned o = given == EF_AVG ? unsigned{EF_SUM} : given;  // the division comes last
    return t < reduce_types && o < reduce_ops ? best().reduce[t][o] : nullptr;
}

average_fn find_average(ef_type_t type) noexcept {
    const unsigned t = number(type);
    return t < reduce_types ? best().average[t] : nullptr;
}

const char* reduce_target() noexcept { return hwy::TargetName(best().target); }

}  // namespace ef
