// faults: what the fault tests share. Each test runs its case several times (EF_TEST_REPEATS) in a
// network and /dev/shm of its own, and nothing may be left behind afterwards.
#pragma once

#include "tests/support/leaks.hpp"
#include "tests/support/ranks.hpp"
#include "transport/base/clock.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ef::test {

/// Why this process has no namespaces of its own; "" if it has. Decided on the first call.
inline const std::string& not_isolated() {
    static const std::string why = isolate();
    return why;
}

class Faults : public testing::Test {
protected:
    static void SetUpTestSuite() { not_isolated(); }
    void SetUp() override { before_ = take_footprint(); }
    void TearDown() override {
        if (!not_isolated().empty()) return;
        EXPECT_EQ(what_is_left(before_, 3000 * patience()), "");
    }

private:
    footprint before_;
};

/// What a call came to, as a rank tells the test: code, when it returned, the sentence.
struct report {
    std::string code, text;
    uint64_t at_ns = 0;
};

inline void say_report(rank_process& me, ef_status_t s) {
    const uint64_t now = now_ns();
    me.say(fmt::format("{} {} {}", ef_status_name(s), now, s == EF_OK ? "" : ef_last_error()));
}

/// The rank's next line as a report; a failed expectation if none comes within `ms`.
inline report hear_report(job& j, int rank, int ms) {
    report r;
    const auto line = j.hear(rank, ms);
    if (!line) {
        ADD_FAILURE() << "rank " << rank << " said nothing within " << ms << " ms";
        return r;
    }
    const size_t a = line->find(' '), b = a == std::string::npos ? a : line->find(' ', a + 1);
    if (b == std::string::npos) {
        ADD_FAILURE() << "rank " << rank << " said: " << *line;
        return r;
    }
    r.code = line->substr(0, a);
    r.at_ns = strtoull(line->c_str() + a + 1, nullptr, 10);
    r.text = line->substr(b + 1);
    return r;
}

inline void expect_line(job& j, int rank, const std::string& wanted, int ms) {
    EXPECT_EQ(j.hear(rank, ms).value_or("(nothing)"), wanted) << "rank " << rank;
}

/// Milliseconds from `since_ns` to the report; a report made before counts as 0.
inline double ms_after(const report& r, uint64_t since_ns) {
    return r.at_ns > since_ns ? double(r.at_ns - since_ns) / 1e6 : 0;
}

/// Allreduce over and over until it fails; says "rolling" once a few have been done, then a report
/// of the failure and one of a further call, which must repeat it.
inline void roll_until_failure(rank_process& me, ef_comm_t comm, size_t count) {
    std::vector<float> in(count, 1.0f), out(count);
    ef_status_t s = EF_OK;
    for (int i = 0; s == EF_OK; ++i) {
        if (i == 5) me.say("rolling");
        s = ef_allreduce(in.data(), out.data(), count, EF_FLOAT32, EF_SUM, comm);
        if (s == EF_OK && (out.front() != float(me.nranks) || out.back() != float(me.nranks)))
            me.fail("a wrong sum");
        if (in.front() != 1.0f || in.back() != 1.0f) me.fail("the send buffer changed");
    }
    say_report(me, s);
    say_report(me, ef_barrier(comm));
}

}  // namespace ef::test
