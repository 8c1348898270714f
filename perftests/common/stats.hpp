// The stop rule: how sure is a mean? Window means are taken as independent samples; Student's t
// gives the half-width of the 95 % confidence interval of their mean.
#pragma once

#include <cstdint>

namespace ef::perf {

/// Mean and variance of a stream (Welford 1962), no samples kept.
class running_mean {
public:
    void add(double x) noexcept {
        ++n_;
        const double d = x - mean_;
        mean_ += d / double(n_);
        sum2_ += d * (x - mean_);
    }
    uint64_t count() const noexcept { return n_; }
    double mean() const noexcept { return mean_; }
    /// Of the sample; 0 below two values.
    double variance() const noexcept { return n_ < 2 ? 0 : sum2_ / double(n_ - 1); }

private:
    uint64_t n_ = 0;
    double mean_ = 0;
    double sum2_ = 0;
};

/// The 97.5 % quantile of Student's t with `freedom` degrees, to 0.5 %. freedom >= 1.
double student_t975(uint64_t freedom) noexcept;

class stop_rule {
public:
    /// Settled when the half-width is at most `percent` of the mean, after `least` windows or more.
    explicit stop_rule(double percent, uint64_t least = 8) noexcept
        : percent_(percent), least_(least) {}

    void add(double window_mean) noexcept { windows_.add(window_mean); }
    uint64_t windows() const noexcept { return windows_.count(); }
    /// In percent of the mean; infinite below two windows.
    double half_width_percent() const noexcept;
    bool settled() const noexcept {
        return windows_.count() >= least_ && half_width_percent() <= percent_;
    }

private:
    double percent_;
    uint64_t least_;
    running_mean windows_;
};

}  // namespace ef::perf
