// Slurm's host lists: names separated by commas, each with ranges in brackets. A range's first
// number also says how many digits each number has: [08-10] is 08, 09, 10.
#include "affinity/fabric/slurm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace ef::fabric {
namespace {

constexpr size_t most_name = 256;

status bad(std::string_view text, std::string_view why) {
    return status(EF_INVALID, fmt::format("{} is no host list: {}", shown(text), why));
}

status too_many(size_t most) {
    return status(EF_INVALID, fmt::format("a host list of more than {} names", most));
}

bool all_digits(std::string_view s) noexcept {
    return !s.empty() && s.size() <= 18 &&
           std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// "1-4,07" into the numbers as they are written.
status expand_ranges(std::string_view item, std::string_view ranges, size_t most,
                     std::vector<std::string>& out) {
    while (true) {
        const size_t comma = std::min(ranges.find(','), ranges.size());
        const std::string_view range = ranges.substr(0, comma);
        const size_t dash = range.find('-');
        const std::string_view low = range.substr(0, dash);
        const std::string_view high = dash == range.npos ? low : range.substr(dash + 1);
        if (!all_digits(low) || !all_digits(high))
            return bad(item, fmt::format("{} is no range of numbers", shown(range)));
        uint64_t from = 0, to = 0;
        std::from_chars(low.data(), low.data() + low.size(), from);
        std::from_chars(high.data(), high.data() + high.size(), to);
        if (to < from) return bad(item, fmt::format("{} runs backwards", shown(range)));
        if (to - from >= most || out.size() + (to - from) >= most) return too_many(most);
        for (uint64_t n = from; n <= to; ++n) out.push_back(fmt::format("{:0{}}", n, low.size()));
        if (comma == ranges.size()) return {};
        ranges.remove_prefix(comma + 1);
    }
}

status expand_item(std::string_view item, size_t most, std::vector<std::string>& out) {
    if (item != printable(item)) return bad(item, "a name is not in printable ASCII");
    std::vector<std::string> names = {""};
    std::string_view rest = item;
    while (!rest.empty()) {
        const size_t open = std::min(rest.find('['), rest.size());
        const std::string_view literal = rest.substr(0, open);
        if (literal.find(']') != literal.npos) return bad(item, "] without [");
        std::vector<std::string> numbers = {""};
        size_t end = open;
        if (open < rest.size()) {
            const size_t close = rest.find(']', open);
            if (close == rest.npos) return bad(item, "[ without ]");
            numbers.clear();
            if (status s =
                    expand_ranges(item, rest.substr(open + 1, close - open - 1), most, numbers);
                !s.ok())
                return s;
            end = close + 1;
        }
        if (names.size() * numbers.size() + out.size() > most) return too_many(most);
        std::vector<std::string> longer;
        longer.reserve(names.size() * numbers.size());
        for (const std::string& n : names)
            for (const std::string& k : numbers) {
                longer.push_back(fmt::format("{}{}{}", n, literal, k));
                if (longer.back().size() > most_name) return bad(item, "a name is too long");
            }
        names = std::move(longer);
        rest.remove_prefix(end);
    }
    out.insert(out.end(), std::make_move_iterator(names.begin()),
               std::make_move_iterator(names.end()));
    return {};
}

}  // namespace

status expand_hostlist(std::string_view text, size_t most, std::vector<std::string>& out) {
    size_t begin = 0;
    bool inside = false;
    for (size_t i = 0; i <= text.size(); ++i) {
        if (i < text.size()) {
            if (text[i] == '[') inside = true;
            if (text[i] == ']') inside = false;
            if (text[i] != ',' || inside) continue;
        }
        const std::string_view item = text.substr(begin, i - begin);
        if (item.empty()) return bad(text, "a name is empty");
        if (status s = expand_item(item, most, out); !s.ok()) return s;
        if (out.size() > most) return too_many(most);
        begin = i + 1;
    }
    return {};
}

}  // namespace ef::fabric
