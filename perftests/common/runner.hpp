// runner: goes through the rows of a sweep on one rank of a communicator. All ranks run the same
// code on the same options; rank 0 also reports.
#pragma once

#include "perftests/common/buffers.hpp"
#include "perftests/common/measure.hpp"
#include "perftests/common/options.hpp"
#include "perftests/common/pattern.hpp"
#include "perftests/common/report.hpp"

#include <memory>
#include <vector>

namespace ef::perf {

/// One row to be measured, the same list in the same order on every rank.
struct test_case {
    ef_type_t type;
    ef_op_t op;
    bool in_place;
    bool shared;
    shape call;
};

/// Every combination, by memory, type, operation, place and size; sizes that come to the same call
/// only once.
std::vector<test_case> list_cases(const options& o, const collective& what, int nranks);

/// A number that is equal on two ranks only if they are about to do the same.
double fingerprint(const options& o, const std::vector<test_case>& cases) noexcept;

class runner {
public:
    runner(ef_comm_t comm, const options& o, const collective& what, int rank, int nranks);

    /// Measure all rows. `reports` is empty on all ranks but 0. Counts go to `e`.
    void run(const std::vector<test_case>& cases,
             const std::vector<std::unique_ptr<report>>& reports, run_end& e);

private:
    row measure(const test_case& t, const buffer_pair& memory);
    /// One call on fresh inputs; wrong elements of all ranks.
    uint64_t check(const test_case& t, const call& c, uint32_t salt);
    void describe_plan(const test_case& t, row& r) const;
    std::string explain(const test_case& t) const;
    void judge(row& r) const;
    void progress(size_t at, size_t of, const test_case& t, double seconds) const;
    void clear_progress() const;

    ef_comm_t comm_;
    const options& o_;
    const collective& what_;
    int rank_;
    int nranks_;
    bool terminal_;  // stderr is one, and this is rank 0
    meter meter_;
    size_t at_ = 0, of_ = 0;
};

}  // namespace ef::perf
