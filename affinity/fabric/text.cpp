// "bigraph:S=4,H=2": generators as one word.
#include "affinity/fabric/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ef::fabric {
namespace {

constexpr uint64_t most_hosts = 1u << 20, most_cables = 1u << 23;

struct setting {
    std::string_view key;
    double value;
    bool whole = true;
    bool given = false;
};

struct kind {
    std::string_view name, usage;
    std::vector<setting> settings;
};

const std::vector<kind>& kinds() {
    static const std::vector<kind> table = {
        {"bigraph",
         "bigraph:S=switches per side,H=hosts per switch,L=lanes,rails=planes,gbps=",
         {{"S", 1}, {"H", 1}, {"L", 1}, {"rails", 1}, {"gbps", 100, false}}},
        {"leafspine",
         "leafspine:leaves=,hosts=per leaf,spines=,lanes=,gbps=,spine_gbps=",
         {{"leaves", 1},
          {"hosts", 1},
          {"spines", 1},
          {"lanes", 1},
          {"gbps", 100, false},
          {"spine_gbps", 0, false}}},
        {"fattree", "fattree:k=ports of a switch (even),gbps=", {{"k", 2}, {"gbps", 100, false}}},
        {"single", "single:hosts=,gbps=", {{"hosts", 1}, {"gbps", 100, false}}},
    };
    return table;
}

status set(kind& k, std::string_view text, std::string_view item) {
    const size_t equals = item.find('=');
    const std::string_view key = item.substr(0, equals);
    const auto s = std::find_if(k.settings.begin(), k.settings.end(),
                                [&](const setting& x) { return x.key == key; });
    if (equals == std::string_view::npos || s == k.settings.end())
        return status(EF_INVALID,
                      fmt::format("{}: \"{}\" is not known, give {}", text, item, k.usage));
    if (s->given) return status(EF_INVALID, fmt::format("{}: {} is given twice", text, key));
    s->given = true;
    const std::string_view value = item.substr(equals + 1);
    double v = 0;
    const auto [end, err] = std::from_chars(value.data(), value.data() + value.size(), v);
    const bool number =
        err == std::errc() && end == value.data() + value.size() && std::isfinite(v) && v > 0;
    if (!number || (s->whole && (v != std::floor(v) || v > double(most_hosts))))
        return status(EF_INVALID,
                      fmt::format("{}: {}={} is not {} above 0", text, key, value,
                                  s->whole ? fmt::format("a whole number up to {},", most_hosts)
                                           : std::string("a number")));
    s->value = v;
    return {};
}

status too_large(std::string_view text, double hosts, double cables) {
    if (hosts <= double(most_hosts) && cables <= double(most_cables)) return {};
    return status(EF_INVALID, fmt::format("{}: {:g} hosts and {:g} cables, at most {} and {}", text,
                                          hosts, cables, most_hosts, most_cables));
}

}  // namespace

result<graph> make_from_text(std::string_view text) {
    const size_t colon = text.find(':');
    std::string names;
    const kind* found = nullptr;
    for (const kind& k : kinds()) {
        names += fmt::format("{}{}", names.empty() ? "" : ", ", k.name);
        if (k.name == text.substr(0, colon)) found = &k;
    }
    if (!found)
        return status(EF_INVALID,
                      fmt::format("{}: not a kind of fabric, give one of {}", text, names));
    kind k = *found;
    std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
    if (rest.ends_with(','))
        return status(EF_INVALID, fmt::format("{}: ends with a comma, give {}", text, k.usage));
    while (!rest.empty()) {
        const size_t comma = std::min(rest.find(','), rest.size());
        if (status s = set(k, text, rest.substr(0, comma)); !s.ok()) return s;
        rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    const auto of = [&](size_t i) { return uint32_t(k.settings[i].value); };
    const auto v = [&](size_t i) { return k.settings[i].value; };
    if (k.name == "bigraph") {
        const double hosts = 2 * v(0) * v(1) * v(3);
        if (status s = too_large(text, hosts, v(0) * v(0) * v(2) * v(3)); !s.ok()) return s;
        return make_bigraph({of(0), of(1), of(2), of(3)}, v(4));
    }
    if (k.name == "leafspine") {
        if (status s = too_large(text, v(0) * v(1), v(0) * v(2) * v(3)); !s.ok()) return s;
        return make_leaf_spine(of(0), of(1), of(2), of(3), v(4), v(5));
    }
    if (k.name == "fattree") {
        if (of(0) % 2)
            return status(EF_INVALID, fmt::format("{}: k={} is odd, a fat tree splits the ports of "
                                                  "a switch in half",
                                                  text, of(0)));
        if (status s = too_large(text, v(0) * v(0) * v(0) / 4, v(0) * v(0) * v(0) / 2); !s.ok())
            return s;
        return make_fat_tree(of(0), v(1));
    }
    return make_single(of(0), v(1));
}

}  // namespace ef::fabric
