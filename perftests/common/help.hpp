// How --help of all programs looks.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace ef::perf {

/// Names and the kind of value only: ranges, exclusions and defaults are said in words.
class help_formatter : public CLI::Formatter {
public:
    help_formatter() { column_width(26); }
    std::string make_option_name(const CLI::Option* opt, bool positional) const override {
        std::string name = CLI::Formatter::make_option_name(opt, positional);
        const size_t at = name.find("{-}");
        return at == std::string::npos ? name : name.substr(0, at) + "[=FILE]";
    }
    std::string make_option_opts(const CLI::Option* opt) const override {
        if (opt->get_type_size() == 0) return {};
        const std::string type = opt->get_type_name();  // with what its checks accept behind ':'
        return " " + type.substr(0, type.find(':'));
    }
};

}  // namespace ef::perf
