// Logging: one lower-case line per event, "eflops[pid] warn what: words, key value", to standard
// error or to the application's callback. Never on the fast path. A call below the level in force
// costs one load.
#pragma once

#include <eflops/eflops.h>
#include <fmt/core.h>

#include <string_view>

namespace ef {

bool log_enabled(ef_log_level_t level) noexcept;
void log_line(ef_log_level_t level, std::string_view text) noexcept;
void set_log_level(ef_log_level_t level) noexcept;

template <class... A>
void log(ef_log_level_t level, fmt::format_string<A...> f, A&&... args) {
    if (log_enabled(level)) log_line(level, fmt::format(f, std::forward<A>(args)...));
}

}  // namespace ef
