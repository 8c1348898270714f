#include "transport/base/log.hpp"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <string>

namespace ef {
namespace {

std::atomic<int> level_in_force{EF_LOG_WARN};
std::mutex sink_lock;
ef_log_fn sink = nullptr;
void* sink_arg = nullptr;

const char* word(ef_log_level_t level) {
    switch (level) {
    case EF_LOG_ERROR:
        return "error";
    case EF_LOG_WARN:
        return "warn";
    case EF_LOG_INFO:
        return "info";
    case EF_LOG_DEBUG:
        return "debug";
    }
    return "?";
}

}  // namespace

bool log_enabled(ef_log_level_t level) noexcept {
    return level <= level_in_force.load(std::memory_order_relaxed);
}

void set_log_level(ef_log_level_t level) noexcept {
    level_in_force.store(level, std::memory_order_relaxed);
}

void log_line(ef_log_level_t level, std::string_view text) noexcept {
    try {
        std::string line = fmt::format("eflops[{}] {} {}", getpid(), word(level), text);
        std::lock_guard lock(sink_lock);
        if (sink) {
            sink(sink_arg, level, line.c_str());
        } else {
            line += '\n';
            // One write, so that lines of several ranks on one terminal do not mix. Nobody to tell
            // if it fails.
            if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
        }
    } catch (const std::bad_alloc&) {
        return;  // a log line is not worth failing for
    }
}

}  // namespace ef

extern "C" ef_status_t ef_set_logger(ef_log_fn fn, void* arg) {
    std::lock_guard lock(ef::sink_lock);
    ef::sink = fn;
    ef::sink_arg = arg;
    return EF_OK;
}
