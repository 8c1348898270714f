#include "perftests/common/sizes.hpp"

#include <fmt/core.h>

#include <charconv>
#include <limits>

namespace ef::perf {
namespace {

constexpr size_t most_sizes = 10'000;
constexpr uint64_t largest = std::numeric_limits<int64_t>::max();

/// 2^shift that a suffix stands for, or -1.
int suffix_shift(std::string_view s) {
    if (s.empty() || s == "B") return 0;
    int shift = -1;
    switch (s[0]) {
    case 'k':
    case 'K':
        shift = 10;
        break;
    case 'm':
    case 'M':
        shift = 20;
        break;
    case 'g':
    case 'G':
        shift = 30;
        break;
    case 't':
    case 'T':
        shift = 40;
        break;
    default:
        return -1;
    }
    const std::string_view rest = s.substr(1);
    return rest.empty() || rest == "iB" ? shift : -1;
}

std::vector<std::string_view> split(std::string_view text, char at) {
    std::vector<std::string_view> parts;
    for (size_t from = 0;;) {
        const size_t to = text.find(at, from);
        parts.push_back(text.substr(from, to - from));
        if (to == std::string_view::npos) return parts;
        from = to + 1;
    }
}

/// The sizes of FIRST:LAST:STEP, appended. Returns what is wrong with it.
std::string append_range(const std::vector<std::string_view>& part, std::vector<uint64_t>& out) {
    const auto first = parse_size(part[0]);
    const auto last = parse_size(part[1]);
    if (!first || !last) return "FIRST and LAST must be sizes such as 8 or 256M";
    if (*last < *first) return "LAST is smaller than FIRST";
    const std::string_view step = part.size() == 3 ? part[2] : std::string_view("x2");
    const char how = step.empty() ? ' ' : step[0];
    const auto by = parse_size(step.empty() ? step : step.substr(1));
    const bool times = how == 'x' || how == '*';
    if ((!times && how != '+') || !by) return "STEP must be xN or +SIZE";
    if (times && *by < 2) return "a factor must be 2 or more";
    if (times && *first == 0) return "a range that multiplies cannot start at 0";
    if (!times && *by == 0) return "an increment must be 1 or more";
    for (uint64_t at = *first; at <= *last;) {
        if (out.size() == most_sizes) return "more than 10000 sizes";
        out.push_back(at);
        if (times ? at > largest / *by : at > largest - *by) break;
        at = times ? at * *by : at + *by;
    }
    return {};
}

}  // namespace

std::optional<uint64_t> parse_size(std::string_view text) {
    uint64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc()) return std::nullopt;
    const int shift = suffix_shift(text.substr(size_t(end - text.data())));
    if (shift < 0 || n > (largest >> shift)) return std::nullopt;
    return n << shift;
}

std::vector<uint64_t> parse_sizes(std::string_view text, std::string& why) {
    std::vector<uint64_t> out;
    for (const std::string_view item : split(text, ',')) {
        const auto part = split(item, ':');
        std::string wrong;
        if (part.size() == 1) {
            if (const auto n = parse_size(item)) out.push_back(*n);
            else wrong = "a size is a number with an optional K, M, G or T";
        } else if (part.size() <= 3) {
            wrong = append_range(part, out);
        } else {
            wrong = "a range is FIRST:LAST or FIRST:LAST:STEP";
        }
        if (!wrong.empty()) {
            why = fmt::format("size \"{}\": {}", item, wrong);
            return {};
        }
    }
    return out;
}

std::string format_size(uint64_t bytes) {
    static constexpr const char* suffix[] = {"", "K", "M", "G", "T"};
    int unit = 0;
    while (unit < 4 && bytes != 0 && bytes % 1024 == 0) {
        bytes /= 1024;
        ++unit;
    }
    return fmt::format("{}{}", bytes, suffix[unit]);
}

}  // namespace ef::perf
