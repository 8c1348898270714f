#include "perftests/common/stats.hpp"

#include <cmath>
#include <iterator>
#include <limits>

namespace ef::perf {

double student_t975(uint64_t freedom) noexcept {
    // Abramowitz and Stegun, table 26.10; beyond it the first terms of 26.7.5 around z = 1.95996.
    static constexpr double table[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                                       2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                                       2.131,  2.120, 2.110, 2.101, 2.093, 2.086};
    if (freedom == 0) return std::numeric_limits<double>::infinity();
    if (freedom <= std::size(table)) return table[freedom - 1];
    const double z = 1.959964;
    const double v = double(freedom);
    return z + (z * z * z + z) / (4 * v) +
           (5 * std::pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * v * v);
}

double stop_rule::half_width_percent() const noexcept {
    const uint64_t n = windows_.count();
    if (n < 2 || windows_.mean() <= 0) return std::numeric_limits<double>::infinity();
    const double error = std::sqrt(windows_.variance() / double(n));
    return 100 * student_t975(n - 1) * error / windows_.mean();
}

}  // namespace ef::perf
