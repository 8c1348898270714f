// Exit status of every program, and the one exception they throw: `failure`, caught in program.cpp
// alone.
#pragma once

#include <eflops/eflops.h>
#include <fmt/core.h>

#include <stdexcept>
#include <string>

namespace ef::perf {

enum exit_code : int {
    exit_good = 0,
    exit_failed = 1,      // it could not run to its end
    exit_usage = 2,       // the command line is not acceptable
    exit_missed = 3,      // ran, but missed a threshold
    exit_wrong_data = 4,  // ran, but a result was wrong
    exit_cannot_run = 77  // nothing is wrong, but not on this machine
};

class failure : public std::runtime_error {
public:
    failure(exit_code code, const std::string& text, bool secondary = false)
        : std::runtime_error(text), code_(code), secondary_(secondary) {}
    exit_code code() const noexcept { return code_; }
    /// This rank only noticed what went wrong on another one, whose own words are worth more.
    bool secondary() const noexcept { return secondary_; }

private:
    exit_code code_;
    bool secondary_;
};

/// Throws the library's words if `s` is a failure: "what: ef_last_error()".
inline void must(ef_status_t s, const char* what) {
    if (s == EF_OK) return;
    const bool secondary = s == EF_PEER_LOST || s == EF_ABORTED || s == EF_TIMEOUT;
    throw failure(s == EF_UNSUPPORTED ? exit_cannot_run : exit_failed,
                  fmt::format("{}: {} ({})", what, ef_last_error(), ef_status_name(s)), secondary);
}

}  // namespace ef::perf
