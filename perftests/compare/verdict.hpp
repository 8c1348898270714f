// verdict: what was measured, beside the bars that the project has set itself.
#pragma once

#include "perftests/common/facts.hpp"
#include "perftests/compare/contest.hpp"

#include <map>
#include <string>
#include <vector>

namespace compare {

double median(std::vector<double> v);
std::string size_text(uint64_t bytes);

class verdict {
public:
    int nranks = 2;
    int turns = 7;
    std::string medium;
    std::map<std::string, std::string> left_out;  // contender -> why
    double probe_before_ns = -1, probe_after_ns = -1;

    void add(row r) { rows_.push_back(std::move(r)); }
    void print() const;
    /// For the summary over all groups, one line each. One of ours that was left out has missed its
    /// bars: a contender that dies must not look like one that is good.
    ///   met|MISSED RANKS MEDIUM SIZE CONTENDER RATIO BAR PEER
    ///   out RANKS MEDIUM CONTENDER WHY
    ///   time RANKS MEDIUM SIZE CONTENDER US          (ours and the limits)
    void append_to(const std::string& file) const;
    /// JSON lines, one per size and contender.
    void append_json_to(const std::string& file, const ef::perf::machine_facts& machine) const;
    bool wrong() const;

private:
    double bar(const std::string& ours, uint64_t bytes) const;
    void print_table() const;
    void print_spread() const;
    void print_limits() const;

    std::vector<row> rows_;
};

}  // namespace compare
