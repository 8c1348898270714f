#include "perftests/common/report.hpp"

#include "perftests/common/exit_code.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace ef::perf {

output_file::output_file(const std::string& name)
    : name_(name == "-" ? "standard output" : name),
      file_(name == "-" ? stdout : std::fopen(name.c_str(), "we")) {
    if (!file_)
        throw failure(exit_failed,
                      fmt::format("{}: cannot write: {}", name_, std::strerror(errno)));
}

output_file::~output_file() {
    if (file_ != stdout) std::fclose(file_);
}

void output_file::write(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0)
        throw failure(exit_failed,
                      fmt::format("{}: cannot write: {}", name_, std::strerror(errno)));
}

std::vector<std::unique_ptr<report>> make_reports(const output_options& o) {
    std::vector<std::unique_ptr<report>> all;
    if (o.json != "-" && o.csv != "-") all.push_back(make_table_report());
    if (!o.json.empty()) all.push_back(make_json_report(o.json));
    if (!o.csv.empty()) all.push_back(make_csv_report(o.csv));
    return all;
}

}  // namespace ef::perf
