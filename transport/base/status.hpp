// status: what an internal call came to. A code and, for failures, one sentence that names object,
// peer, cause and number. The place that first knows writes the sentence; callers add where they
// were with .in(). Success is a null pointer, so that returning it costs nothing.
#pragma once

#include <eflops/eflops.h>

#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace ef {

class [[nodiscard]] status {
public:
    status() noexcept = default;
    status(ef_status_t code, std::string text);
    status(const status& other);
    status& operator=(const status& other);
    status(status&&) noexcept = default;
    status& operator=(status&&) noexcept = default;
    ~status() = default;

    bool ok() const noexcept { return !why_; }
    ef_status_t code() const noexcept { return why_ ? why_->code : EF_OK; }
    std::string_view text() const noexcept {
        return why_ ? std::string_view(why_->text) : std::string_view();
    }

    /// The same failure with "context: " in front; success stays success.
    status in(std::string_view context) const&;
    status in(std::string_view context) &&;

private:
    struct reason {
        ef_status_t code;
        std::string text;
    };
    std::unique_ptr<reason> why_;
};

/// EF_SYSTEM (or EF_NO_RESOURCE, EF_NO_MEMORY where `err` says so): "what: strerror (errno 24)", for EMFILE with the
/// limit that was met.
status system_error(std::string_view what, int err);

/// A value or the reason why there is none.
template <class T>
class [[nodiscard]] result {
public:
    result(T value) : v_(std::move(value)) {}
    result(status why) : v_(std::move(why)) {}

    bool ok() const noexcept { return v_.index() == 0; }
    T& operator*() noexcept { return *std::get_if<0>(&v_); }
    const T& operator*() const noexcept { return *std::get_if<0>(&v_); }
    T* operator->() noexcept { return std::get_if<0>(&v_); }
    const T* operator->() const noexcept { return std::get_if<0>(&v_); }
    /// The reason, or success if there is a value.
    status why() const { return ok() ? status() : *std::get_if<1>(&v_); }

private:
    std::variant<T, status> v_;
};

/// Keep `s` as this thread's ef_last_error() if it failed, and return its code.
ef_status_t report(const status& s) noexcept;

/// The same for a failed allocation, without allocating.
ef_status_t report_out_of_memory() noexcept;

/// The only catch in the library: what the C ABI wraps every body in. Exceptions mean only out of
/// memory.
template <class F>
ef_status_t guard(F&& body) noexcept {
    try {
        return report(body());
    } catch (const std::bad_alloc&) {
        return report_out_of_memory();
    }
}

}  // namespace ef
