// Inputs whose results are known without communicating. Every value is a small integer, chosen so
// that all partial sums and products are exact in the type at hand: whatever order an algorithm
// adds in, there is one right answer, and one wrong bit is found.
//
// Ranks are ordered differently for each element: x = (rank + i) mod n. With a(i), k(i) from a hash
// of i and of `salt` (one per checked call, so that a stale result is found too):
//
//   sum, min, max   a + 1 on the k ranks with x < k, a on the others     n a + k;  a + (k == n);
//                                                                        a + (k > 0)
//   avg             a + 2 on x < k, a on x >= n - k, else a + 1          a + 1
//   prod            2 on the k ranks with x < k, 1 on the others         2^k
//   moved data      a hash of (source rank, i)                           the same
#pragma once

#include "perftests/common/collective.hpp"

#include <cstdint>

namespace ef::perf {

class pattern {
public:
    pattern(kind what, ef_type_t type, ef_op_t op, int nranks, int root, uint32_t salt) noexcept;

    /// False where this many ranks leave no exact numbers in this type (an 8 bit sum over 128 ranks
    /// and more): such a case cannot be checked.
    bool exact() const noexcept { return exact_; }

    /// Fill `rank`'s send buffer (send_elements of the shape).
    void fill(void* send, const shape& s, int rank) const noexcept;
    /// Fill a receive buffer with what is no result.
    void poison(void* recv, const shape& s) const noexcept;
    /// Elements of `rank`'s receive buffer that differ from the known result.
    uint64_t count_wrong(const void* recv, const shape& s, int rank) const noexcept;

private:
    template <class T>
    void fill_as(T* out, size_t n, int rank) const noexcept;
    template <class T>
    uint64_t wrong_as(const T* in, const shape& s, int rank) const noexcept;

    /// Small integer that `rank` contributes to element i, x = (rank + i) mod nranks.
    uint32_t input(int rank, uint64_t i, uint32_t x) const noexcept;
    /// The result of element i of a reduction.
    uint32_t reduced(uint64_t i) const noexcept;

    kind what_;
    ef_type_t type_;
    ef_op_t op_;
    uint32_t nranks_;
    int root_;
    uint32_t salt_;
    bool exact_ = true;
    uint32_t a_values_ = 1;  // a < a_values_
    uint32_t k_values_ = 1;  // k < k_values_
};

}  // namespace ef::perf
