// The loop around an operator on vectors, compiled once per instruction set (no include guard in
// the usual sense: Highway includes it again for each).
//
// No element outside [0, n) is touched and every input is read before an output could overwrite
// it: the last, overlapping vector is computed first and stored last, so dst may be a or b.
#if defined(EF_REDUCE_LOOP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef EF_REDUCE_LOOP_INL
#undef EF_REDUCE_LOOP_INL
#else
#define EF_REDUCE_LOOP_INL
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace ef {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class U>
HWY_INLINE uint64_t load_word(const uint8_t* p) {
    U u;
    memcpy(&u, p, sizeof u);
    return u;
}

template <class U>
HWY_INLINE void store_word(uint8_t* p, uint64_t v) {
    const U u = static_cast<U>(v);
    memcpy(p, &u, sizeof u);
}

// 1 <= bytes <= 8, in two overlapping words at most.
HWY_INLINE uint64_t load_up_to_8(const uint8_t* p, size_t bytes) {
    if (bytes == 8) return load_word<uint64_t>(p);
    if (bytes >= 4)
        return load_word<uint32_t>(p) | load_word<uint32_t>(p + bytes - 4) << (8 * (bytes - 4));
    if (bytes >= 2)
        return load_word<uint16_t>(p) | load_word<uint16_t>(p + bytes - 2) << (8 * (bytes - 2));
    return *p;
}

HWY_INLINE void store_up_to_8(uint8_t* p, uint64_t v, size_t bytes) {
    if (bytes == 8) {
        store_word<uint64_t>(p, v);
    } else if (bytes >= 4) {
        store_word<uint32_t>(p, v);
        store_word<uint32_t>(p + bytes - 4, v >> (8 * (bytes - 4)));
    } else if (bytes >= 2) {
        store_word<uint16_t>(p, v);
        store_word<uint16_t>(p + bytes - 2, v >> (8 * (bytes - 2)));
    } else {
        *p = static_cast<uint8_t>(v);
    }
}

// 1 <= bytes < 16, zeros above. Through registers: a wide load of narrow stores would stall.
template <class D>
HWY_INLINE hn::Vec<D> load_small(D d, const uint8_t* p, size_t bytes) {
    const hn::Repartition<uint64_t, D> d64;
    const uint64_t lo = load_up_to_8(p, bytes < 8 ? bytes : 8);
    const uint64_t hi = bytes > 8 ? load_up_to_8(p + 8, bytes - 8) : 0;
    return hn::BitCast(d, hn::InterleaveLower(d64, hn::Set(d64, lo), hn::Set(d64, hi)));
}

template <class D, class V>
HWY_INLINE void store_small(D, V v, uint8_t* p, size_t bytes) {
    const hn::Repartition<uint64_t, D> d64;
    alignas(16) uint64_t w[2];
    hn::Store(hn::BitCast(d64, v), d64, w);
    store_up_to_8(p, w[0], bytes < 8 ? bytes : 8);
    if (bytes > 8) store_up_to_8(p + 8, w[1], bytes - 8);
}

// n >= Lanes(d).
template <class D, class T, class Op>
HWY_INLINE void vectors(D d, T* dst, const T* a, const T* b, size_t n, Op op) {
    const size_t lanes = hn::Lanes(d), last = n - lanes;
    const auto tail = op(d, hn::LoadU(d, a + last), hn::LoadU(d, b + last));
    size_t i = 0;
    for (; i + 2 * lanes <= last; i += 2 * lanes) {
        const auto r0 = op(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i));
        const auto r1 = op(d, hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes));
        hn::StoreU(r0, d, dst + i);
        hn::StoreU(r1, d, dst + i + lanes);
    }
    for (; i < last; i += lanes)
        hn::StoreU(op(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, dst + i);
    hn::StoreU(tail, d, dst + last);
}

template <class T, class Op>
void reduce(void* dst, const void* a, const void* b, size_t n) noexcept {
    const hn::ScalableTag<T> d;
    const hn::FixedTag<T, 16 / sizeof(T)> d16;
    const size_t bytes = n * sizeof(T);
    if (bytes < 16) {
        if (n == 0) return;
        const auto r = Op()(d16, load_small(d16, static_cast<const uint8_t*>(a), bytes),
                            load_small(d16, static_cast<const uint8_t*>(b), bytes));
        store_small(d16, r, static_cast<uint8_t*>(dst), bytes);
    } else if (n < hn::Lanes(d)) {
        vectors(d16, static_cast<T*>(dst), static_cast<const T*>(a), static_cast<const T*>(b), n,
                Op());
    } else {
        vectors(d, static_cast<T*>(dst), static_cast<const T*>(a), static_cast<const T*>(b), n,
                Op());
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace ef
HWY_AFTER_NAMESPACE();
#endif
