#include "transport/verbs/rail.hpp"

#include "transport/base/log.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace ef::verbs {
namespace {

// ibv_event_type
constexpr uint32_t event_device_fatal = 8, event_port_active = 9, event_port_error = 10;

}  // namespace

status verbs_error(const std::string& rail, std::string_view doing, const failure& f) {
    status s = system_error(fmt::format("verbs:{}: {}: {}", rail, doing, f.what), f.error);
    if (f.error != ENOMEM) return s;
    return status(EF_NO_RESOURCE,
                  std::string(s.text()) +
                      ": the limit of locked memory is too low (ulimit -l unlimited, "
                      "or LimitMEMLOCK=infinity of the service), or the device has no more");
}

rail::~rail() {
    for (auto& [id, r] : regions_) port_->remove(r);
}

void rail::forget_the_dead() noexcept {
    for (auto i = regions_.begin(); i != regions_.end();) {
        if (memory::alive(i->first)) {
            ++i;
            continue;
        }
        port_->remove(i->second);
        i = regions_.erase(i);
    }
}

uint32_t rail::key_of(const std::byte* p, size_t bytes) noexcept {
    if (const uint64_t g = memory::generation(); g != generation_) {
        generation_ = g;
        forget_the_dead();
        last_ = {};
        last_key_ = 0;
    }
    if (last_.end && last_.contains(p, bytes)) return last_key_;
    last_ = memory::span_of(p);
    last_key_ = 0;
    if (last_.id == 0 || !last_.contains(p, bytes)) return 0;
    if (const auto known = regions_.find(last_.id); known != regions_.end())
        return last_key_ = known->second.lkey;
    region r;
    r.begin = const_cast<std::byte*>(last_.begin);
    r.bytes = size_t(last_.end - last_.begin);
    if (const failure f = port_->add(r, true)) {
        if (!std::exchange(refused_, true))
            log(EF_LOG_WARN, "{}; such buffers are copied before they are sent",
                verbs_error(name_, fmt::format("registering {} bytes", r.bytes), f).text());
        return 0;
    }
    regions_.emplace(last_.id, r);
    return last_key_ = r.lkey;
}

void rail::attend() noexcept {
    async_event e;
    while (port_->next_event(e)) {
        if (e.type == event_device_fatal)
            failed_ = status(
                EF_SYSTEM,
                fmt::format("verbs:{}: the device has failed (async event {})", name_, e.type));
        if (e.type == event_port_error) log(EF_LOG_WARN, "verbs:{}: the port is down", name_);
        else if (e.type == event_port_active)
            log(EF_LOG_WARN, "verbs:{}: the port is up again", name_);
        else log(EF_LOG_INFO, "verbs:{}: async event {} (QP {})", name_, e.type, e.qp_number);
    }
}

}  // namespace ef::verbs
