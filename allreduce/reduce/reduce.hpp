// Reduction kernels: element by element, vectorised for the machine that runs them (Highway's
// run-time dispatch). float16 and bfloat16 are added in float32 and rounded to nearest even once
// per call. Integers wrap. Every NaN result is the same positive quiet NaN, whatever NaNs went in,
// so that a op b and b op a are the same bits, on every instruction set.
#pragma once

#include <eflops/allreduce.h>

#include <cstddef>
#include <cstdint>

namespace ef {

/// dst[i] = a[i] op b[i] for i < n. dst may be a or b exactly; no other overlap. Pointers are
/// aligned to the element only. min and max: NaN wins over numbers. -0 < +0.
using reduce_fn = void (*)(void* dst, const void* a, const void* b, size_t n) noexcept;

/// The kernel for `type` and `op` (EF_AVG adds: the division comes last, see find_average). Null
/// for a bad pair.
reduce_fn find_reduce(ef_type_t type, ef_op_t op) noexcept;

/// x[i] /= nranks: floating types are multiplied by float(1)/nranks in float32 (float64 in
/// float64), integers truncate.
using average_fn = void (*)(void* x, size_t n, uint32_t nranks) noexcept;
average_fn find_average(ef_type_t type) noexcept;

/// The instruction set the kernels run on ("AVX3", "AVX2", "SSE4", "NEON").
const char* reduce_target() noexcept;

}  // namespace ef
