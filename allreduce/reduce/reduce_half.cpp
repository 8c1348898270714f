// float16 and bfloat16: widened to float32, added or multiplied, rounded to nearest even once. The
// conversions are integer arithmetic (F16C where it is certain to exist), not Highway's, whose
// rounding and treatment of infinities differ between instruction sets and versions. NaNs come out
// as one quiet NaN, as in reduce_float.cpp.
#include "allreduce/reduce/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "allreduce/reduce/reduce_half.cpp"
#include <hwy/foreach_target.h>

#include "allreduce/reduce/kernels.hpp"
#include "allreduce/reduce/loop-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ef {
namespace HWY_NAMESPACE {

// Each 32-bit lane holds two halves; even() and odd() widen one of them in place, join() rounds
// both back, so no lane moves.
struct bfloat16 {
    static constexpr int16_t infinity = 0x7f80, quiet_nan = 0x7fc0;

    template <class DF, class V>
    static EF_OP_INLINE hn::Vec<DF> even(DF df, V v) {
        return hn::BitCast(df, hn::ShiftLeft<16>(v));
    }
    template <class DF, class V>
    static EF_OP_INLINE hn::Vec<DF> odd(DF df, V v) {
        const hn::RebindToUnsigned<DF> d;
        return hn::BitCast(df, hn::And(v, hn::Set(d, 0xffff0000u)));
    }
    // The rounded half in the low 16 bits, zeros above.
    template <class DF, class V>
    static EF_OP_INLINE hn::Vec<hn::RebindToUnsigned<DF>> narrow(DF, V f) {
        const hn::RebindToUnsigned<DF> d;
        const auto u = hn::BitCast(d, f);
        const auto lsb = hn::And(hn::ShiftRight<16>(u), hn::Set(d, 1u));
        const auto r = hn::ShiftRight<16>(hn::Add(u, hn::Add(lsb, hn::Set(d, 0x7fffu))));
        return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(f)), hn::Set(d, 0x7fc0u), r);
    }
};

struct float16 {
    static constexpr int16_t infinity = 0x7c00, quiet_nan = 0x7e00;

    template <class DF, class V>
    static EF_OP_INLINE hn::Vec<DF> widen(DF df, V h) {  // h: the half in the low 16 bits
        const hn::RebindToUnsigned<DF> d;
        const auto exponent = hn::Set(d, 0x7c00u << 13);
        const auto magnitude = hn::ShiftLeft<13>(hn::And(h, hn::Set(d, 0x7fffu)));
        const auto e = hn::And(magnitude, exponent);
        const auto normal = hn::Add(magnitude, hn::Set(d, (127u - 15) << 23));
        const auto special = hn::Add(normal, hn::Set(d, (128u - 16) << 23));
        // A subnormal becomes 2^-14 * 1.m, less 2^-14: exact.
        const auto low = hn::Set(d, 113u << 23);
        const auto subnormal =
            hn::BitCast(d, hn::Sub(hn::BitCast(df, hn::Or(magnitude, low)), hn::BitCast(df, low)));
        auto r = hn::IfThenElse(hn::Eq(e, exponent), special, normal);
        r = hn::IfThenElse(hn::Eq(e, hn::Zero(d)), subnormal, r);
        return hn::BitCast(df, hn::Or(r, hn::ShiftLeft<16>(hn::And(h, hn::Set(d, 0x8000u)))));
    }
    template <class DF, class V>
    static EF_OP_INLINE hn::Vec<DF> even(DF df, V v) {
        return widen(df, v);
    }
    template <class DF, class V>
    static EF_OP_INLINE hn::Vec<DF> odd(DF df, V v) {
        return widen(df, hn::ShiftRight<16>(v));
    }
    template <class DF, class V>
    static EF_OP_INLINE hn::Vec<hn::RebindToUnsigned<DF>> narrow(DF df, V f) {
        const hn::RebindToUnsigned<DF> d;
        const hn::RebindToSigned<DF> di;  // magnitudes are positive: signed compares are cheaper
        const auto u = hn::BitCast(d, f);
        const auto m = hn::And(u, hn::Set(d, 0x7fffffffu));
        const auto mi = hn::BitCast(di, m);
        const auto lsb = hn::And(hn::ShiftRight<13>(m), hn::Set(d, 1u));
        const auto bias = hn::Set(d, 0xfffu - ((127u - 15) << 23));
        const auto normal = hn::ShiftRight<13>(hn::Add(m, hn::Add(lsb, bias)));
        // The adder rounds a subnormal: 2^-1 has the unit 2^-24 in its last place.
        const auto half = hn::Set(d, 126u << 23);
        const auto subnormal =
            hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(df, m), hn::BitCast(df, half))), half);
        const auto below = [&](int32_t x) HWY_ATTR { return hn::Lt(mi, hn::Set(di, x)); };
        auto r = hn::IfThenElse(hn::RebindMask(d, below(113 << 23)), subnormal, normal);
        r = hn::IfThenElse(hn::RebindMask(d, below(143 << 23)), r, hn::Set(d, 0x7c00u));
        r = hn::Or(r, hn::ShiftRight<16>(hn::AndNot(hn::Set(d, 0x7fffffffu), u)));
        return hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(f)), hn::Set(d, 0x7e00u), r);
    }
};

struct add {
    template <class V>
    EF_OP_INLINE V operator()(V a, V b) const {
        return hn::Add(a, b);
    }
};
struct multiply {
    template <class V>
    EF_OP_INLINE V operator()(V a, V b) const {
        return hn::Mul(a, b);
    }
};

template <class Half, class D, class VF>
EF_OP_INLINE hn::Vec<D> join(D d, VF even, VF odd) {
    const hn::Repartition<float, D> df;
    return hn::BitCast(d, hn::Or(Half::narrow(df, even), hn::ShiftLeft<16>(Half::narrow(df, odd))));
}

template <class Half, class Op>
struct widened {
    template <class D, class V>
    EF_OP_INLINE V operator()(D d, V a, V b) const {
        const hn::Repartition<uint32_t, D> d32;
        const hn::Repartition<float, D> df;
        const auto a32 = hn::BitCast(d32, a), b32 = hn::BitCast(d32, b);
        return join<Half>(d, Op()(Half::even(df, a32), Half::even(df, b32)),
                          Op()(Half::odd(df, a32), Half::odd(df, b32)));
    }
};

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
// F16C rounds as above.
template <class Op>
struct widened<float16, Op> {
    template <class D, class V>
    EF_OP_INLINE V operator()(D d, V a, V b) const {
        const hn::Half<D> dh;
        return hn::Combine(d, part(dh, hn::UpperHalf(dh, a), hn::UpperHalf(dh, b)),
                           part(dh, hn::LowerHalf(dh, a), hn::LowerHalf(dh, b)));
    }
    template <class DH, class V>
    static EF_OP_INLINE V part(DH dh, V a, V b) {
        const hn::Rebind<hwy::float16_t, DH> d16;
        const hn::Rebind<float, DH> df;
        const auto r =
            Op()(hn::PromoteTo(df, hn::BitCast(d16, a)), hn::PromoteTo(df, hn::BitCast(d16, b)));
        const hn::RebindToUnsigned<decltype(df)> d32;
        const auto nan = hn::BitCast(df, hn::Set(d32, 0x7fc00000u));
        return hn::BitCast(dh, hn::DemoteTo(d16, hn::IfThenElse(hn::IsNaN(r), nan, r)));
    }
};
#endif

// Sign and magnitude as a two's complement number: the order of the halves, with -0 < +0.
template <class D, class V>
EF_OP_INLINE V ordered(D d, V v) {
    return hn::Xor(v, hn::And(hn::ShiftRight<15>(v), hn::Set(d, int16_t{0x7fff})));
}

template <class Half, bool Max>
struct extreme {
    template <class D, class V>
    EF_OP_INLINE V operator()(D d, V a, V b) const {
        const hn::RebindToSigned<D> di;
        const auto x = hn::BitCast(di, a), y = hn::BitCast(di, b);
        const auto kx = ordered(di, x), ky = ordered(di, y);
        const auto r = ordered(di, Max ? hn::Max(kx, ky) : hn::Min(kx, ky));
        const auto magnitude = hn::Set(di, int16_t{0x7fff});
        const auto top = hn::Max(hn::And(x, magnitude), hn::And(y, magnitude));
        return hn::BitCast(d, hn::IfThenElse(hn::Gt(top, hn::Set(di, Half::infinity)),
                                             hn::Set(di, Half::quiet_nan), r));
    }
};

// The factor is a float32, which a half cannot hold: not a reduce<> with a constant.
template <class Half>
void average_half(void* x, size_t n, uint32_t nranks) noexcept {
    const hn::FixedTag<uint16_t, 8> d;
    const hn::Repartition<uint32_t, decltype(d)> d32;
    const hn::Repartition<float, decltype(d)> df;
    const auto f = hn::Set(df, 1.0f / static_cast<float>(nranks));
    uint8_t* p = static_cast<uint8_t*>(x);
    for (size_t left = 2 * n; left > 0;) {
        const size_t bytes = left < 16 ? left : 16;
        const auto v =
            hn::BitCast(d32, bytes == 16 ? hn::LoadU(d, reinterpret_cast<const uint16_t*>(p))
                                         : load_small(d, p, bytes));
        const auto r = join<Half>(d, hn::Mul(Half::even(df, v), f), hn::Mul(Half::odd(df, v), f));
        if (bytes == 16) hn::StoreU(r, d, reinterpret_cast<uint16_t*>(p));
        else store_small(d, r, p, bytes);
        p += bytes;
        left -= bytes;
    }
}

template <class Half>
void fill(kernels& k, ef_type_t type) {
    reduce_fn* const row = k.reduce[type];
    row[EF_SUM] = reduce<uint16_t, widened<Half, add>>;
    row[EF_PROD] = reduce<uint16_t, widened<Half, multiply>>;
    row[EF_MIN] = reduce<uint16_t, extreme<Half, false>>;
    row[EF_MAX] = reduce<uint16_t, extreme<Half, true>>;
    k.average[type] = average_half<Half>;
}

void fill_halves(kernels& k) {
    fill<float16>(k, EF_FLOAT16);
    fill<bfloat16>(k, EF_BFLOAT16);
}

}  // namespace HWY_NAMESPACE
}  // namespace ef
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ef {
HWY_EXPORT(fill_halves);
void load_halves(kernels& k) noexcept { HWY_DYNAMIC_DISPATCH(fill_halves)(k); }
}  // namespace ef
#endif
