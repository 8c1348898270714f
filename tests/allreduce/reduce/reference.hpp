// The dullest reduction that can be right: one element at a time, halves by their definition as
// numbers rather than by bit tricks. Elements travel as the bits of a uint64_t.
#pragma once

#include <eflops/allreduce.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace reference {

template <class To, class From>
To bits(From v) {
    To t{};
    memcpy(&t, &v, sizeof t < sizeof v ? sizeof t : sizeof v);
    return t;
}

inline float half_value(uint16_t h) {
    const int e = (h >> 10) & 31, m = h & 1023;
    const double v = e == 31  ? (m ? NAN : INFINITY)
                     : e == 0 ? std::ldexp(m, -24)
                              : std::ldexp(1024 + m, e - 25);
    return static_cast<float>(h & 0x8000 ? -v : v);
}

inline uint16_t half_of(float f) {
    if (std::isnan(f)) return 0x7e00;
    const uint16_t sign = std::signbit(f) ? 0x8000 : 0;
    const double x = std::fabs(static_cast<double>(f));
    if (x >= 65520) return sign | 0x7c00;  // half way from the largest number to 2^16
    int e = -14;
    while (e < 15 && x >= std::ldexp(1, e + 1)) ++e;
    // Units of the last place; nearbyint rounds to even. A carry moves into the exponent by itself.
    const int q = static_cast<int>(std::nearbyint(std::ldexp(x, 10 - e)));
    return static_cast<uint16_t>(sign | (((e + 14) << 10) + q));
}

inline float bfloat_value(uint16_t h) { return bits<float>(static_cast<uint32_t>(h) << 16); }

inline uint16_t bfloat_of(float f) {
    if (std::isnan(f)) return 0x7fc0;
    const uint16_t toward_zero = static_cast<uint16_t>(bits<uint32_t>(f) >> 16);
    if (std::isinf(f)) return toward_zero;
    const uint16_t away = static_cast<uint16_t>(toward_zero + 1);
    const double x = std::fabs(static_cast<double>(f));
    const double lo = std::fabs(static_cast<double>(bfloat_value(toward_zero)));
    const double end = std::fabs(static_cast<double>(bfloat_value(away)));
    const double hi = std::isinf(end) ? std::ldexp(1, 128) : end;
    if (x - lo != hi - x) return x - lo < hi - x ? toward_zero : away;
    return toward_zero & 1 ? away : toward_zero;
}

template <class F>
F float_op(F a, F b, ef_op_t op) {
    if (std::isnan(a) || std::isnan(b)) return NAN;
    if (op == EF_SUM) return a + b;
    if (op == EF_PROD) return a * b;
    const bool a_first = a < b || (a == b && std::signbit(a));
    return a_first == (op == EF_MIN) ? a : b;
}

template <class T>
uint64_t int_op(uint64_t x, uint64_t y, ef_op_t op) {
    if (op == EF_SUM) return x + y;
    if (op == EF_PROD) return x * y;
    const T a = static_cast<T>(x), b = static_cast<T>(y);
    return static_cast<uint64_t>(op == EF_MIN ? (a < b ? a : b) : (a < b ? b : a));
}

inline uint64_t float_bits(float f) { return std::isnan(f) ? 0x7fc00000u : bits<uint32_t>(f); }
inline uint64_t double_bits(double f) {
    return std::isnan(f) ? 0x7ff8000000000000u : bits<uint64_t>(f);
}

inline size_t size_of(ef_type_t t) {
    switch (t) {
    case EF_INT8:
    case EF_UINT8:
        return 1;
    case EF_FLOAT16:
    case EF_BFLOAT16:
        return 2;
    case EF_FLOAT32:
    case EF_INT32:
    case EF_UINT32:
        return 4;
    default:
        return 8;
    }
}

inline uint64_t mask(ef_type_t t) { return ~uint64_t{0} >> (64 - 8 * size_of(t)); }

inline uint64_t reduce(uint64_t a, uint64_t b, ef_type_t t, ef_op_t op) {
    const auto h = [](uint64_t v) { return static_cast<uint16_t>(v); };
    switch (t) {
    case EF_FLOAT32:
        return float_bits(float_op(bits<float>(static_cast<uint32_t>(a)),
                                   bits<float>(static_cast<uint32_t>(b)), op));
    case EF_FLOAT64:
        return double_bits(float_op(bits<double>(a), bits<double>(b), op));
    case EF_FLOAT16:
        return half_of(float_op(half_value(h(a)), half_value(h(b)), op));
    case EF_BFLOAT16:
        return bfloat_of(float_op(bfloat_value(h(a)), bfloat_value(h(b)), op));
    case EF_INT8:
        return int_op<int8_t>(a, b, op) & mask(t);
    case EF_INT32:
        return int_op<int32_t>(a, b, op) & mask(t);
    case EF_INT64:
        return int_op<int64_t>(a, b, op);
    case EF_UINT8:
        return int_op<uint8_t>(a, b, op) & mask(t);
    case EF_UINT32:
        return int_op<uint32_t>(a, b, op) & mask(t);
    case EF_UINT64:
        return int_op<uint64_t>(a, b, op);
    }
    return 0;
}

inline uint64_t average(uint64_t v, ef_type_t t, uint32_t nranks) {
    const float f = 1.0f / static_cast<float>(nranks);
    const int64_t n = nranks;
    const auto h = static_cast<uint16_t>(v);
    switch (t) {
    case EF_FLOAT32:
        return float_bits(bits<float>(static_cast<uint32_t>(v)) * f);
    case EF_FLOAT64:
        return double_bits(bits<double>(v) * (1.0 / nranks));
    case EF_FLOAT16:
        return half_of(half_value(h) * f);
    case EF_BFLOAT16:
        return bfloat_of(bfloat_value(h) * f);
    case EF_INT8:
        return static_cast<uint64_t>(static_cast<int8_t>(v) / n) & mask(t);
    case EF_INT32:
        return static_cast<uint64_t>(static_cast<int32_t>(v) / n) & mask(t);
    case EF_INT64:
        return static_cast<uint64_t>(static_cast<int64_t>(v) / n);
    case EF_UINT8:
    case EF_UINT32:
    case EF_UINT64:
        return v / nranks;
    }
    return 0;
}

}  // namespace reference
