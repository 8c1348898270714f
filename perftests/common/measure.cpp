#include "perftests/common/measure.hpp"

#include "perftests/common/exit_code.hpp"
#include "perftests/common/stats.hpp"
#include "transport/base/clock.hpp"

#include <algorithm>
#include <cmath>

namespace ef::perf {
namespace {

constexpr double warmup_ns = 20e6;
constexpr double short_call_ns = 10e3;     // below: a clock read per call would show
constexpr unsigned windows_in_bound = 40;  // how many windows should fit the time for a row
constexpr unsigned windows_of_count = 20;  // how many windows -n is cut into
constexpr uint64_t least_windows = 3;      // even when the bound has passed

double largest(std::span<const double> all, size_t stride, size_t at) {
    double m = 0;
    for (size_t i = at; i < all.size(); i += stride) m = std::max(m, all[i]);
    return m;
}

/// The largest of all ranks' x: what they agree on.
double agree(const call& c, double x) { return largest(gather(c.comm, c.nranks, {&x, 1}), 1, 0); }

}  // namespace

std::vector<double> gather(ef_comm_t comm, int nranks, std::span<const double> mine) {
    std::vector<double> all(mine.size() * size_t(nranks));
    must(ef_allgather(mine.data(), all.data(), mine.size(), EF_FLOAT64, comm),
         "exchange of statistics");
    return all;
}

double meter::window(const call& c, uint64_t n, bool each) {
    const uint64_t start = now_ns();
    uint64_t last = start;
    for (uint64_t i = 0; i < n; ++i) {
        if (const ef_status_t s = make(c); s != EF_OK) must(s, find_collective(c.what).name);
        if (!each) continue;
        const uint64_t now = now_ns();
        times_->add(now - last);
        last = now;
    }
    return double((each ? last : now_ns()) - start);
}

meter::schedule meter::warm_up(const call& c, const effort_options& effort) {
    double per_call_ns = agree(c, window(c, 1, false));
    // The first call of a size builds plans and touches pages: it says little about the next.
    const double by_time = std::clamp(warmup_ns / std::max(per_call_ns, 1.0), 1.0, 1000.0);
    const uint64_t more = effort.warmup.value_or(uint64_t(by_time));
    if (more > 0) per_call_ns = agree(c, window(c, more, false) / double(more));
    per_call_ns = std::max(per_call_ns, 1.0);
    schedule s;
    s.alternate = per_call_ns < short_call_ns;
    const double row_ns = 1e9 * (effort.duration_s > 0 ? effort.duration_s : effort.bound_s);
    s.per_window = effort.iterations > 0
                       ? (effort.iterations + windows_of_count - 1) / windows_of_count
                       : uint64_t(std::max(1.0, row_ns / windows_in_bound / per_call_ns));
    return s;
}

measurement meter::run(const call& c, const effort_options& effort,
                       const std::function<void(double)>& tick) {
    times_->clear();
    const schedule plan = warm_up(c, effort);
    stop_rule rule(effort.precision_percent);
    double plain_ns = 0;
    uint64_t plain_calls = 0, calls = 0;
    double spent_s = 0;
    const uint64_t start = now_ns();
    for (uint64_t w = 0;; ++w) {
        const bool each = !plan.alternate || w % 2 == 1;
        const bool plain = !plan.alternate || !each;
        uint64_t n = plan.per_window;
        if (effort.iterations > 0) n = std::min(n, effort.iterations - calls);
        const double ns = window(c, n, each);
        calls += n;
        if (plain) plain_ns += ns, plain_calls += n;

        const double mine[] = {ns / double(n), double(now_ns() - start) / 1e9};
        const std::vector<double> all = gather(c.comm, c.nranks, mine);
        if (plain) rule.add(largest(all, 2, 0));
        spent_s = largest(all, 2, 1);
        tick(spent_s);
        // Percentiles need a window of their own.
        if (plan.alternate && w == 0 && effort.iterations == 0) continue;
        if (effort.iterations > 0) {
            if (calls >= effort.iterations) break;
        } else if (effort.duration_s > 0) {
            if (spent_s >= effort.duration_s) break;
        } else if (rule.settled() ||
                   (spent_s >= effort.bound_s && rule.windows() >= least_windows)) {
            break;
        }
    }
    measurement m = combine(c, plain_ns / double(plain_calls));
    m.iterations = calls;
    m.windows = rule.windows();
    m.half_width_percent = rule.half_width_percent();
    m.settled = rule.settled();
    return m;
}

measurement meter::combine(const call& c, double mean_ns) {
    const double none = mean_ns;  // -n 1 of a short call has a mean and no more
    const bool any = times_->count() > 0;
    const double mine[] = {mean_ns, any ? times_->percentile(50) : none,
                           any ? times_->percentile(99) : none, any ? double(times_->min()) : none,
                           any ? double(times_->max()) : none};
    const std::vector<double> all = gather(c.comm, c.nranks, mine);
    measurement m;
    m.avg_us = largest(all, 5, 0) / 1e3;
    m.p50_us = largest(all, 5, 1) / 1e3;
    m.p99_us = largest(all, 5, 2) / 1e3;
    m.min_us = largest(all, 5, 3) / 1e3;
    m.max_us = largest(all, 5, 4) / 1e3;
    for (int r = 1; r < c.nranks; ++r)
        if (all[size_t(r) * 5] > all[size_t(m.slowest_rank) * 5]) m.slowest_rank = r;
    return m;
}

}  // namespace ef::perf
