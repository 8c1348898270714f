// One row: time calls back to back on all ranks until their mean is known well enough.
//
//   first call   its time, agreed by all ranks, decides the lengths of warm-up and windows
//   warm-up      untimed
//   windows      calls back to back, no barrier between them; after each window the ranks exchange
//                their means and all come to the same decision from the same numbers: go on, or
//                stop
//
// Where a call is so short that looking at the clock would show, every other window looks only at
// its two ends (mean), and the others at every call (percentiles). Otherwise all do both.
//
// The time of a row is the largest of the ranks' means, as nccl-tests reports it; so are the
// percentiles: each is the largest over ranks. Memory is constant however long it runs.
#pragma once

#include "perftests/common/collective.hpp"
#include "perftests/common/histogram.hpp"
#include "perftests/common/options.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace ef::perf {

struct measurement {
    uint64_t iterations = 0;  // timed calls
    uint64_t windows = 0;     // whose means the stop rule saw
    double avg_us = 0;
    double p50_us = 0;
    double p99_us = 0;
    double min_us = 0;
    double max_us = 0;
    double half_width_percent = 0;  // 95 % confidence of the mean over windows
    bool settled = false;
    int slowest_rank = 0;  // whose mean is largest
};

/// All ranks' `mine`, nranks * mine.size() numbers in order of rank. Collective.
std::vector<double> gather(ef_comm_t comm, int nranks, std::span<const double> mine);

/// Collective; same arguments on every rank but for buffers and rank. `tick` is called between
/// windows with the seconds spent on this row. Throws `failure`.
class meter {
public:
    meter() : times_(std::make_unique<histogram>()) {}
    measurement run(const call& c, const effort_options& effort,
                    const std::function<void(double)>& tick);

private:
    struct schedule {
        uint64_t per_window = 1;
        bool alternate = false;
    };
    schedule warm_up(const call& c, const effort_options& effort);
    /// Wall time in ns of n calls; each one's goes to the histogram if `each`.
    double window(const call& c, uint64_t n, bool each);
    measurement combine(const call& c, double mean_ns);

    std::unique_ptr<histogram> times_;
};

}  // namespace ef::perf
