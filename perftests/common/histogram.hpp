// A histogram of times in constant memory: log-linear, 128 cells per power of two, so a cell is
// never wider than 1/128 of its value and a percentile is right to 0.8 %, from 1 ns to 500 years.
// Adding costs a shift and an increment, and no allocation.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>

namespace ef::perf {

class histogram {
public:
    void add(uint64_t ns) noexcept {
        ++cell_[index(ns)];
        ++count_;
        min_ = std::min(min_, ns);
        max_ = std::max(max_, ns);
    }

    void clear() noexcept { *this = histogram(); }

    uint64_t count() const noexcept { return count_; }
    /// Exact. 0 if nothing was added.
    uint64_t min() const noexcept { return count_ ? min_ : 0; }
    uint64_t max() const noexcept { return max_; }

    /// The value that `percent` of all values do not exceed (nearest rank), as the middle of its
    /// cell but never outside [min, max]. 0 if nothing was added.
    double percentile(double percent) const noexcept {
        if (count_ == 0) return 0;
        const double exact = std::ceil(percent / 100 * double(count_));
        const auto rank = uint64_t(std::clamp(exact, 1.0, double(count_)));
        uint64_t seen = 0;
        for (size_t i = 0; i < cell_.size(); ++i) {
            seen += cell_[i];
            if (seen >= rank) return std::clamp(middle(i), double(min_), double(max_));
        }
        return double(max_);
    }

private:
    static constexpr unsigned bits = 7;
    static constexpr uint64_t per_octave = uint64_t(1) << bits;

    // Values below 128 have a cell each; [2^e, 2^(e+1)) has 128 cells of 2^(e-7).
    static size_t index(uint64_t v) noexcept {
        if (v < per_octave) return size_t(v);
        const unsigned shift = unsigned(std::bit_width(v)) - 1 - bits;
        return size_t((uint64_t(shift) + 1) * per_octave + ((v >> shift) - per_octave));
    }
    static double middle(size_t i) noexcept {
        if (i < per_octave) return double(i);
        const auto shift = unsigned(i / per_octave) - 1;
        const double low = std::ldexp(double(per_octave + i % per_octave), int(shift));
        return low + (std::ldexp(1.0, int(shift)) - 1) / 2;
    }

    std::array<uint64_t, (65 - bits) * per_octave> cell_{};
    uint64_t count_ = 0;
    uint64_t min_ = UINT64_MAX;
    uint64_t max_ = 0;
};

}  // namespace ef::perf
