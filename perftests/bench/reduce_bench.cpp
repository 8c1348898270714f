// Reduction kernels beside the copy limit: bytes/s count what a copy of the result would move (one
// read and one write per element of the result), so the two can be compared line by line; a sum
// reads one operand more.
//
//   4 KiB: the first cache; 256 KiB: the second; 64 MiB: memory.
#include "allreduce/reduce/reduce.hpp"

#include <benchmark/benchmark.h>

#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int64_t sizes[] = {4 << 10, 256 << 10, 64 << 20};

struct named_type {
    const char* name;
    ef_type_t type;
};
constexpr named_type types[] = {{"float32", EF_FLOAT32}, {"float64", EF_FLOAT64},
                                {"float16", EF_FLOAT16}, {"bfloat16", EF_BFLOAT16},
                                {"int8", EF_INT8},       {"int32", EF_INT32},
                                {"int64", EF_INT64},     {"uint8", EF_UINT8},
                                {"uint32", EF_UINT32},   {"uint64", EF_UINT64}};

void copy_limit(benchmark::State& state) {
    const size_t bytes = size_t(state.range(0));
    std::vector<char> from(bytes, 1), to(bytes, 2);
    for (auto _ : state) {
        memcpy(to.data(), from.data(), bytes);
        benchmark::DoNotOptimize(to.data());
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(2 * int64_t(bytes) * state.iterations());
}

void sum(benchmark::State& state, ef_type_t type) {
    const size_t bytes = size_t(state.range(0)), count = bytes / ef_type_size(type);
    const ef::reduce_fn f = ef::find_reduce(type, EF_SUM);
    std::vector<char> a(bytes), b(bytes), d(bytes);
    for (auto _ : state) {
        f(d.data(), a.data(), b.data(), count);
        benchmark::DoNotOptimize(d.data());
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(2 * int64_t(bytes) * state.iterations());
}

// What an allreduce of one element pays for the call.
void one_element(benchmark::State& state) {
    const ef::reduce_fn f = ef::find_reduce(EF_FLOAT32, EF_SUM);
    float a = 1, b = 2, d = 0;
    for (auto _ : state) {
        f(&d, &a, &b, 1);
        benchmark::DoNotOptimize(d);
    }
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::AddCustomContext("kernels", ef::reduce_target());
    benchmark::RegisterBenchmark("sum/float32/one", one_element);
    for (int64_t bytes : sizes) {
        benchmark::RegisterBenchmark("copy", copy_limit)->Arg(bytes);
        for (const named_type& t : types)
            benchmark::RegisterBenchmark((std::string("sum/") + t.name).c_str(), sum, t.type)
                ->Arg(bytes);
    }
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
}
