#include "transport/base/status.hpp"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace ef {

status::status(ef_status_t code, std::string text) : why_(new reason{code, std::move(text)}) {}

status::status(const status& other) : why_(other.why_ ? new reason(*other.why_) : nullptr) {}

status& status::operator=(const status& other) {
    if (this != &other) why_.reset(other.why_ ? new reason(*other.why_) : nullptr);
    return *this;
}

status status::in(std::string_view context) const& { return status(*this).in(context); }

status status::in(std::string_view context) && {
    if (why_) why_->text.insert(0, std::string(context) + ": ");
    return std::move(*this);
}

status system_error(std::string_view what, int err) {
    ef_status_t code = EF_SYSTEM;
    if (err == ENOMEM) code = EF_NO_MEMORY;
    if (err == EMFILE || err == ENFILE || err == ENOSPC || err == EADDRINUSE || err == ENOBUFS)
        code = EF_NO_RESOURCE;
    char buf[128];
    const char* word = strerror_r(err, buf, sizeof(buf));
    std::string text = std::string(what) + ": " + word + " (errno " + std::to_string(err) + ")";
    if (err == EMFILE) {
        rlimit l{};
        getrlimit(RLIMIT_NOFILE, &l);
        text += ": all " + std::to_string(l.rlim_cur) +
                " descriptors of this process are in use (RLIMIT_NOFILE, ulimit -n)";
    }
    return status(code, std::move(text));
}

namespace {
thread_local std::string last_error;
thread_local bool last_was_out_of_memory = false;
}  // namespace

ef_status_t report_out_of_memory() noexcept {
    last_was_out_of_memory = true;
    return EF_NO_MEMORY;
}

ef_status_t report(const status& s) noexcept {
    if (s.ok()) return EF_OK;
    try {
        last_error.assign(s.text());
        last_was_out_of_memory = false;
    } catch (const std::bad_alloc&) {
        last_was_out_of_memory = true;
    }
    return s.code();
}

}  // namespace ef

extern "C" {

const char* ef_last_error(void) {
    return ef::last_was_out_of_memory ? "out of memory" : ef::last_error.c_str();
}

const char* ef_status_name(ef_status_t code) {
    switch (code) {
    case EF_OK:
        return "EF_OK";
    case EF_IN_PROGRESS:
        return "EF_IN_PROGRESS";
    case EF_INVALID:
        return "EF_INVALID";
    case EF_UNSUPPORTED:
        return "EF_UNSUPPORTED";
    case EF_NO_MEMORY:
        return "EF_NO_MEMORY";
    case EF_NO_RESOURCE:
        return "EF_NO_RESOURCE";
    case EF_PEER_LOST:
        return "EF_PEER_LOST";
    case EF_TIMEOUT:
        return "EF_TIMEOUT";
    case EF_ABORTED:
        return "EF_ABORTED";
    case EF_AUTH_FAILED:
        return "EF_AUTH_FAILED";
    case EF_MISMATCH:
        return "EF_MISMATCH";
    case EF_SYSTEM:
        return "EF_SYSTEM";
    }
    return "unknown status";
}

#define EF_STRING(x) #x
#define EF_VERSION_STRING(a, b, c) EF_STRING(a) "." EF_STRING(b) "." EF_STRING(c)

const char* ef_version(void) {
    return EF_VERSION_STRING(EF_VERSION_MAJOR, EF_VERSION_MINOR, EF_VERSION_PATCH);
}

}  // extern "C"
