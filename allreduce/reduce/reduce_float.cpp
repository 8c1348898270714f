// float32 and float64. Every NaN that comes out is the one quiet NaN 0x7fc0.. , because which
// payload survives a + b depends on the order of operands and the instruction set, and ranks must
// agree in every bit.
#include "allreduce/reduce/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "allreduce/reduce/reduce_float.cpp"
#include <hwy/foreach_target.h>

#include "allreduce/reduce/kernels.hpp"
#include "allreduce/reduce/loop-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ef {
namespace HWY_NAMESPACE {

template <class D>
EF_OP_INLINE hn::Vec<D> quiet_nan(D d) {
    using T = hn::TFromD<D>;
    const hn::RebindToUnsigned<D> du;
    using U = hn::TFromD<decltype(du)>;
    return hn::BitCast(
        d, hn::Set(du, static_cast<U>(sizeof(T) == 4 ? 0x7fc00000ull : 0x7ff8000000000000ull)));
}

struct float_sum {
    template <class D, class V>
    EF_OP_INLINE V operator()(D d, V a, V b) const {
        const V r = hn::Add(a, b);
        return hn::IfThenElse(hn::IsNaN(r), quiet_nan(d), r);
    }
};

struct float_prod {
    template <class D, class V>
    EF_OP_INLINE V operator()(D d, V a, V b) const {
        const V r = hn::Mul(a, b);
        return hn::IfThenElse(hn::IsNaN(r), quiet_nan(d), r);
    }
};

// Equal numbers differ in bits only as -0 and +0: or finds the -0, and the +0.
struct float_min {
    template <class D, class V>
    EF_OP_INLINE V operator()(D d, V a, V b) const {
        const V r = hn::IfThenElse(hn::Lt(a, b), a, b);
        const V z = hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), r);
        return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), quiet_nan(d), z);
    }
};

struct float_max {
    template <class D, class V>
    EF_OP_INLINE V operator()(D d, V a, V b) const {
        const V r = hn::IfThenElse(hn::Lt(a, b), b, a);
        const V z = hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), r);
        return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), quiet_nan(d), z);
    }
};

template <class T>
void average_float(void* x, size_t n, uint32_t nranks) noexcept {
    T* const p = static_cast<T*>(x);
    const T f = T(1) / static_cast<T>(nranks);
    const hn::ScalableTag<T> d;
    size_t i = 0;
    const auto vf = hn::Set(d, f);
    for (; i + hn::Lanes(d) <= n; i += hn::Lanes(d)) {
        const auto r = hn::Mul(hn::LoadU(d, p + i), vf);
        hn::StoreU(hn::IfThenElse(hn::IsNaN(r), quiet_nan(d), r), d, p + i);
    }
    const hn::CappedTag<T, 1> d1;
    for (; i < n; ++i) {
        const auto r = hn::Mul(hn::LoadU(d1, p + i), hn::Set(d1, f));
        hn::StoreU(hn::IfThenElse(hn::IsNaN(r), quiet_nan(d1), r), d1, p + i);
    }
}

template <class T>
void fill(kernels& k, ef_type_t type) {
    reduce_fn* const row = k.reduce[type];
    row[EF_SUM] = reduce<T, float_sum>;
    row[EF_PROD] = reduce<T, float_prod>;
    row[EF_MIN] = reduce<T, float_min>;
    row[EF_MAX] = reduce<T, float_max>;
    k.average[type] = average_float<T>;
}

void fill_floats(kernels& k) {
    k.target = HWY_TARGET;
    fill<float>(k, EF_FLOAT32);
    fill<double>(k, EF_FLOAT64);
}

}  // namespace HWY_NAMESPACE
}  // namespace ef
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ef {
HWY_EXPORT(fill_floats);
void load_floats(kernels& k) noexcept { HWY_DYNAMIC_DISPATCH(fill_floats)(k); }
int64_t compiled_targets() noexcept { return HWY_TARGETS; }
}  // namespace ef
#endif
