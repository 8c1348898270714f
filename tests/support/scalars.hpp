// scalars: one element at a time, the dullest way: what the vector kernels are compared with.
// float16 and bfloat16 are converted by arithmetic on their fields and rounded to nearest even.
#pragma once

#include <eflops/allreduce.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace ef::test {

struct half {
    static constexpr int mantissa = 10, bias = 15, top = 31;  // top: exponent of inf and NaN
    uint16_t bits;
};
struct brain {
    static constexpr int mantissa = 7, bias = 127, top = 255;
    uint16_t bits;
};

template <class T>
constexpr bool is_16bit = std::is_same_v<T, half> || std::is_same_v<T, brain>;
template <class T>
constexpr bool is_floating = std::is_floating_point_v<T> || is_16bit<T>;

template <class T>
float widen(T x) {
    const int sign = x.bits >> 15, exponent = (x.bits >> T::mantissa) & T::top;
    const int fraction = x.bits & ((1 << T::mantissa) - 1);
    float f;
    if (exponent == T::top)
        f = fraction ? std::numeric_limits<float>::quiet_NaN()
                     : std::numeric_limits<float>::infinity();
    else if (exponent == 0) f = std::ldexp(float(fraction), 1 - T::bias - T::mantissa);
    else f = std::ldexp(float(fraction + (1 << T::mantissa)), exponent - T::bias - T::mantissa);
    return sign ? -f : f;
}

template <class T>
T narrow(float f) {
    const uint16_t sign = uint16_t(std::signbit(f) ? 0x8000 : 0);
    const uint16_t infinity = uint16_t(T::top << T::mantissa);
    if (std::isnan(f)) return {uint16_t(sign | infinity | (1 << (T::mantissa - 1)))};
    const double a = std::fabs(double(f));
    if (std::isinf(f)) return {uint16_t(sign | infinity)};
    if (a == 0) return {sign};
    int exponent = std::ilogb(a);
    if (exponent < 1 - T::bias) exponent = 1 - T::bias;  // subnormal: a fixed step
    // A whole number of steps; ties to even by the default rounding mode. May carry into the
    // exponent, where adding does the right thing.
    const int64_t steps = int64_t(std::nearbyint(std::ldexp(a, T::mantissa - exponent)));
    const int64_t bits = int64_t(exponent + T::bias - 1) * (1 << T::mantissa) + steps;
    return {uint16_t(sign | (bits >= infinity ? infinity : uint16_t(bits)))};
}

/// NaN wins over numbers, and -0 < +0.
template <class F>
F pick(F a, F b, bool smaller) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
    if (a == b) return std::signbit(a) == smaller ? a : b;
    return (a < b) == smaller ? a : b;
}

template <class T>
T combine(ef_op_t op, T a, T b) {
    if constexpr (is_16bit<T>) {
        if (op == EF_MIN || op == EF_MAX) return narrow<T>(pick(widen(a), widen(b), op == EF_MIN));
        return narrow<T>(op == EF_PROD ? widen(a) * widen(b) : widen(a) + widen(b));
    } else if constexpr (std::is_floating_point_v<T>) {
        if (op == EF_MIN || op == EF_MAX) return pick(a, b, op == EF_MIN);
        return op == EF_PROD ? a * b : a + b;
    } else {
        using U = std::make_unsigned_t<T>;
        if (op == EF_MIN) return a < b ? a : b;
        if (op == EF_MAX) return a > b ? a : b;
        const uint64_t x = U(a), y = U(b);
        return T(U(op == EF_PROD ? x * y : x + y));
    }
}

template <class T>
T average(T sum, uint32_t nranks) {
    if constexpr (is_16bit<T>) return narrow<T>(widen(sum) * (1.0f / float(nranks)));
    else if constexpr (std::is_floating_point_v<T>) return sum * (T(1) / T(nranks));
    else if constexpr (std::is_signed_v<T>) return T(int64_t(sum) / int64_t(nranks));
    else return T(uint64_t(sum) / nranks);
}

template <class T>
double as_double(T x) {
    if constexpr (is_16bit<T>) return double(widen(x));
    else return double(x);
}

/// f.template operator()<T>() for the C++ type of `type`.
template <class F>
auto with_type(ef_type_t type, F&& f) {
    switch (type) {
    case EF_FLOAT32:
        return f.template operator()<float>();
    case EF_FLOAT64:
        return f.template operator()<double>();
    case EF_FLOAT16:
        return f.template operator()<half>();
    case EF_BFLOAT16:
        return f.template operator()<brain>();
    case EF_INT8:
        return f.template operator()<int8_t>();
    case EF_INT32:
        return f.template operator()<int32_t>();
    case EF_INT64:
        return f.template operator()<int64_t>();
    case EF_UINT8:
        return f.template operator()<uint8_t>();
    case EF_UINT32:
        return f.template operator()<uint32_t>();
    case EF_UINT64:
        break;
    }
    return f.template operator()<uint64_t>();
}

}  // namespace ef::test
