// What must work at scale, each in a process of its own, so that its peak memory is its own:
//
//   prove/65536   HDRM free of congestion on a BiGraph of 65,536 endpoints, every rank's plan read
//   price/8192    every algorithm of the registry at 8,192 endpoints, one per server
//   price_8/8192  the same with eight ranks on each server, eight rails
//
// Each within 10 s of one core and 1 GiB, which the counters show. What is wrong or beyond either limit
// is an error of the benchmark, and the exit status 1.
#include "allreduce/cost/fabric_price.hpp"

#include <benchmark/benchmark.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <numeric>
#include <string>
#include <vector>

namespace {

using namespace ef;

constexpr double most_seconds = 10, most_mib = 1024;
bool failed = false;

struct job {
    fabric::graph g;
    mapping::placement where;
    std::vector<int> host_of;
    rank_maps maps;

    explicit job(const fabric::bigraph_shape& s)
        : g(fabric::make_bigraph(s, 100)), where(g.hosts().size()), host_of(where.size()) {
        std::iota(where.begin(), where.end(), 0);
        // Hosts are numbered rail by rail; ranks server by server.
        const uint32_t servers = uint32_t(where.size()) / s.rails;
        for (uint32_t r = 0; r < where.size(); ++r) {
            where[r] = r % s.rails * servers + r / s.rails;
            host_of[r] = int(r / s.rails);
        }
        maps = mapping::make_maps(g, where, host_of);
    }
    plan_request request() const {
        plan_request r;
        r.nranks = rank_t(where.size());
        r.maps = &maps;
        r.host_of = host_of;
        return r;
    }
    fabric::routes routes() const { return {g, {fabric::balance::by_destination, 1}}; }
};

bool prove(const fabric::bigraph_shape& s) {
    const job j(s);
    const plan_request like = j.request();
    const algorithm& a = *find_algorithm("hdrm");
    const auto build = [&](rank_t r) {
        plan_request mine = like;
        mine.rank = r;
        return a.build(mine);
    };
    return load_of(flows_read(like.nranks, build), j.routes(), j.where).congestion_free();
}

bool price(const fabric::bigraph_shape& s) {
    const job j(s);
    const auto readings = cost::read_on_fabric(j.request(), j.routes(), j.where);
    int priced = 0;
    for (const uint64_t bytes : {uint64_t(8), uint64_t(1) << 20, uint64_t(1) << 30})
        for (const cost::fabric_candidate& c : cost::price_on_fabric(readings, bytes, {}))
            priced += !c.refused && c.us > 0;
    return priced > 3 * 5;
}

void in_own_process(benchmark::State& state, bool (*what)(const fabric::bigraph_shape&),
                    fabric::bigraph_shape shape) {
    double mib = 0, seconds = 0;
    for (auto _ : state) {
        const auto begin = std::chrono::steady_clock::now();
        const pid_t child = fork();
        if (child == 0) _exit(what(shape) ? 0 : 1);
        int status = 0;
        rusage used{};
        if (child < 0 || wait4(child, &status, 0, &used) != child || status != 0) {
            failed = true;
            return state.SkipWithError("it failed or is not so");
        }
        state.SetIterationTime(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
        const auto s = [](const timeval& t) { return double(t.tv_sec) + double(t.tv_usec) * 1e-6; };
        seconds = s(used.ru_utime) + s(used.ru_stime);
        mib = double(used.ru_maxrss) / 1024;
    }
    state.counters["peak_MiB"] = mib;
    state.counters["cpu_s"] = seconds;
    if (seconds <= most_seconds && mib <= most_mib) return;
    failed = true;
    state.SkipWithError("more than 10 s or 1 GiB");
}

}  // namespace

int main(int argc, char** argv) {
    const auto add = [](const char* name, auto what, fabric::bigraph_shape shape) {
        benchmark::RegisterBenchmark(name, in_own_process, what, shape)
            ->Iterations(1)
            ->UseManualTime()
            ->Unit(benchmark::kMillisecond);
    };
    add("prove/65536", prove, {128, 256, 2, 1});
    add("price/8192", price, {64, 64, 1, 1});
    add("price_8/8192", price, {16, 32, 2, 8});
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return failed ? 1 : 0;
}
