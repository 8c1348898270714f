// verdict: what was measured, beside the bars that the project has set itself.
#pragma once

#include "perftests/compare/contest.hpp"

#include <string>
#include <vector>

namespace compare {

double median(std::vector<double> v);

class verdict {
public:
    int nranks = 2;
    std::string medium;

    void add(row r) { rows_.push_back(std::move(r)); }
    void print() const;
    /// One line per bar: "met|MISSED ranks medium bytes contender ratio bar peer", for the summary
    /// over all groups.
    void append_to(const std::string& file) const;
    bool wrong() const;

private:
    double bar(const std::string& ours, uint64_t bytes) const;
    void print_table() const;
    void print_spread() const;
    void print_limits() const;

    std::vector<row> rows_;
};

}  // namespace compare
