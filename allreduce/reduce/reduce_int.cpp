// Integers. Sums and products wrap, so one kernel serves both signs.
#include "allreduce/reduce/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "allreduce/reduce/reduce_int.cpp"
#include <hwy/foreach_target.h>

#include <type_traits>

#include "allreduce/reduce/kernels.hpp"
#include "allreduce/reduce/loop-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ef {
namespace HWY_NAMESPACE {

struct int_sum {
    template <class D, class V>
    EF_OP_INLINE V operator()(D, V a, V b) const {
        return hn::Add(a, b);
    }
};
struct int_min {
    template <class D, class V>
    EF_OP_INLINE V operator()(D, V a, V b) const {
        return hn::Min(a, b);
    }
};
struct int_max {
    template <class D, class V>
    EF_OP_INLINE V operator()(D, V a, V b) const {
        return hn::Max(a, b);
    }
};

// Few instruction sets multiply bytes or 64-bit lanes: both are made of the next best width.
struct int_prod {
    template <class D, class V>
    EF_OP_INLINE V operator()(D d, V a, V b) const {
        if constexpr (sizeof(hn::TFromD<D>) == 4) {
            return hn::Mul(a, b);
        } else if constexpr (sizeof(hn::TFromD<D>) == 1) {
            const hn::Repartition<uint16_t, D> d16;
            const auto x = hn::BitCast(d16, a), y = hn::BitCast(d16, b);
            const auto even = hn::And(hn::Mul(x, y), hn::Set(d16, uint16_t{0xff}));
            const auto odd = hn::ShiftLeft<8>(hn::Mul(hn::ShiftRight<8>(x), hn::ShiftRight<8>(y)));
            return hn::BitCast(d, hn::Or(even, odd));
        } else {
            // (ah 2^32 + al)(bh 2^32 + bl) = al bl + (ah bl + al bh) 2^32  (mod 2^64)
            const hn::Repartition<uint32_t, D> d32;
            const auto x = hn::BitCast(d32, a), y = hn::BitCast(d32, b);
            const auto cross = hn::BitCast(d, hn::Mul(x, hn::Shuffle2301(y)));
            const auto high = hn::Add(hn::ShiftLeft<32>(cross),
                                      hn::And(cross, hn::Set(d, 0xffffffff00000000ull)));
            return hn::Add(hn::MulEven(x, y), high);
        }
    }
};

// Truncates toward zero. int64_t holds every narrower value and nranks, so no sign is lost.
template <class T>
void average_int(void* x, size_t n, uint32_t nranks) noexcept {
    using wide = std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>;
    T* const p = static_cast<T*>(x);
    const wide by = nranks;
    for (size_t i = 0; i < n; ++i) p[i] = static_cast<T>(static_cast<wide>(p[i]) / by);
}

template <class T>
void fill(kernels& k, ef_type_t type) {
    using U = std::make_unsigned_t<T>;
    reduce_fn* const row = k.reduce[type];
    row[EF_SUM] = reduce<U, int_sum>;
    row[EF_PROD] = reduce<U, int_prod>;
    row[EF_MIN] = reduce<T, int_min>;
    row[EF_MAX] = reduce<T, int_max>;
    k.average[type] = average_int<T>;
}

void fill_integers(kernels& k) {
    fill<int8_t>(k, EF_INT8);
    fill<int32_t>(k, EF_INT32);
    fill<int64_t>(k, EF_INT64);
    fill<uint8_t>(k, EF_UINT8);
    fill<uint32_t>(k, EF_UINT32);
    fill<uint64_t>(k, EF_UINT64);
}

}  // namespace HWY_NAMESPACE
}  // namespace ef
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ef {
HWY_EXPORT(fill_integers);
void load_integers(kernels& k) noexcept { HWY_DYNAMIC_DISPATCH(fill_integers)(k); }
}  // namespace ef
#endif
