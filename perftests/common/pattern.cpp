#include "perftests/common/pattern.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace ef::perf {
namespace {

/// The two 16 bit floating types, as their bits.
struct half {
    uint16_t bits;
};
struct bfloat {
    uint16_t bits;
};

/// Up to here every non-negative integer has an exact value. (32 bits and more: as far as we need.)
uint32_t exact_limit(ef_type_t type) noexcept {
    switch (type) {
    case EF_BFLOAT16:
        return 1u << 8;
    case EF_FLOAT16:
        return 1u << 11;
    case EF_INT8:
        return 127;
    case EF_UINT8:
        return 255;
    default:
        return 1u << 22;
    }
}

uint32_t hash(uint64_t i, uint32_t salt) noexcept {
    uint64_t h = (i + salt * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    h ^= h >> 29;
    h *= 0x94d049bb133111ebu;
    return uint32_t(h >> 32);
}

/// h mapped evenly to [0, n).
uint32_t below(uint32_t h, uint32_t n) noexcept { return uint32_t((uint64_t(h) * n) >> 32); }

/// v in type T, v being an integer that T holds exactly.
template <class T>
T as(uint32_t v) noexcept {
    if constexpr (std::is_same_v<T, bfloat>) {
        return {uint16_t(std::bit_cast<uint32_t>(float(v)) >> 16)};
    } else if constexpr (std::is_same_v<T, half>) {
        // binary16: 5 bits of exponent with bias 15, 10 of fraction; no subnormals among integers.
        if (v == 0) return {0};
        const uint32_t e = uint32_t(std::bit_width(v)) - 1;
        const uint32_t fraction = e <= 10 ? v << (10 - e) : v >> (e - 10);
        return {uint16_t(((e + 15) << 10) | (fraction & 0x3ff))};
    } else {
        return T(v);
    }
}

/// Bits, because -0, NaN and 0 are different results.
template <class T>
bool same(T a, T b) noexcept {
    return std::memcmp(&a, &b, sizeof a) == 0;
}

/// An average multiplies the exact sum by the rounded 1/n: one unit in the last place is allowed
/// where the type is too fine to hide it.
template <class T>
bool near(T a, T b) noexcept {
    if constexpr (std::is_floating_point_v<T>) return a == b || std::nextafter(a, b) == b;
    else return same(a, b);
}

template <class F>
auto with_type(ef_type_t type, F&& f) {
    switch (type) {
    case EF_FLOAT32:
        return f(float());
    case EF_FLOAT64:
        return f(double());
    case EF_FLOAT16:
        return f(half());
    case EF_BFLOAT16:
        return f(bfloat());
    case EF_INT8:
        return f(int8_t());
    case EF_INT32:
        return f(int32_t());
    case EF_INT64:
        return f(int64_t());
    case EF_UINT8:
        return f(uint8_t());
    case EF_UINT32:
        return f(uint32_t());
    case EF_UINT64:
        break;
    }
    return f(uint64_t());
}

bool reduces(kind what) noexcept { return what == kind::allreduce || what == kind::reduce_scatter; }

}  // namespace

pattern::pattern(kind what, ef_type_t type, ef_op_t op, int nranks, int root,
                 uint32_t salt) noexcept
    : what_(what), type_(type), op_(op), nranks_(uint32_t(nranks)), root_(root), salt_(salt) {
    const uint32_t limit = exact_limit(type);
    const uint32_t n = nranks_;
    if (!reduces(what)) {
        a_values_ = limit;
    } else if (op == EF_PROD) {
        k_values_ = std::min(n, 6u) + 1;  // 2^6 fits the narrowest type
    } else if (op == EF_AVG) {
        exact_ = n <= limit;  // sum = n (a + 1) <= limit
        a_values_ = std::max(1u, limit / n);
        k_values_ = n / 2 + 1;
    } else {
        a_values_ = std::max(1u, limit / n);  // n (a_values - 1) + n <= limit
        k_values_ = std::min(n, limit) + 1;   // more ranks than limit: a = 0, k <= limit
    }
}

uint32_t pattern::input(int rank, uint64_t i, uint32_t x) const noexcept {
    const uint32_t h = hash(i, salt_);
    if (!reduces(what_)) return below(hash(i, salt_ + 1 + uint32_t(rank)), a_values_);
    const uint32_t k = below(h * 0x9e3779b1u, k_values_);
    if (op_ == EF_PROD) return x < k ? 2 : 1;
    const uint32_t a = below(h, a_values_);
    if (op_ == EF_AVG) return a + (x < k ? 2 : x >= nranks_ - k ? 0 : 1);
    return a + (x < k ? 1 : 0);
}

uint32_t pattern::reduced(uint64_t i) const noexcept {
    const uint32_t h = hash(i, salt_);
    const uint32_t k = below(h * 0x9e3779b1u, k_values_);
    const uint32_t a = below(h, a_values_);
    switch (op_) {
    case EF_SUM:
        return nranks_ * a + k;
    case EF_PROD:
        return 1u << k;
    case EF_MIN:
        return a + (k == nranks_ ? 1 : 0);
    case EF_MAX:
        return a + (k > 0 ? 1 : 0);
    case EF_AVG:
        return a + 1;
    }
    return 0;
}

template <class T>
void pattern::fill_as(T* out, size_t n, int rank) const noexcept {
    uint32_t x = uint32_t(rank) % nranks_;
    for (size_t i = 0; i < n; ++i) {
        out[i] = as<T>(input(rank, i, x));
        if (++x == nranks_) x = 0;
    }
}

template <class T>
uint64_t pattern::wrong_as(const T* in, const shape& s, int rank) const noexcept {
    uint64_t wrong = 0;
    if (reduces(what_)) {
        // Element j of block `rank` is element rank * count + j of the vector.
        const uint64_t first = what_ == kind::reduce_scatter ? uint64_t(rank) * s.count : 0;
        for (size_t i = 0; i < s.recv_elements; ++i) {
            const T right = as<T>(reduced(first + i));
            wrong += op_ == EF_AVG ? !near(in[i], right) : !same(in[i], right);
        }
        return wrong;
    }
    const int before = int((uint32_t(rank) + nranks_ - 1) % nranks_);
    for (size_t i = 0; i < s.recv_elements; ++i) {
        const int source = what_ == kind::broadcast  ? root_
                           : what_ == kind::sendrecv ? before
                                                     : int(i / s.count);
        const uint64_t at = what_ == kind::allgather ? i % s.count : i;
        wrong += !same(in[i], as<T>(input(source, at, 0)));
    }
    return wrong;
}

void pattern::fill(void* send, const shape& s, int rank) const noexcept {
    with_type(type_, [&](auto zero) {
        fill_as(static_cast<decltype(zero)*>(send), s.send_elements, rank);
        return 0;
    });
}

void pattern::poison(void* recv, const shape& s) const noexcept {
    // All ones is a NaN or a number beyond what any input leads to.
    std::memset(recv, 0xff, s.recv_elements * ef_type_size(type_));
}

uint64_t pattern::count_wrong(const void* recv, const shape& s, int rank) const noexcept {
    return with_type(type_, [&](auto zero) {
        return wrong_as(static_cast<const decltype(zero)*>(recv), s, rank);
    });
}

}  // namespace ef::perf
