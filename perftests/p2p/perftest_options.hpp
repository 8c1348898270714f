// Every long option of perftest 6.x, and what these programs make of it: for the message that
// meets a script which was written for ib_write_bw, and for ef_write_bw(1), which has the same
// table.
#pragma once

#include <span>

namespace ef::perf::p2p {

struct perftest_option {
    char letter;  // 0: none
    const char* name;
    const char* verdict;  // same, renamed, ignored (accepted, without meaning), refused
    const char* words;    // what to type instead, or why not
};

std::span<const perftest_option> perftest_options() noexcept;

}  // namespace ef::perf::p2p
