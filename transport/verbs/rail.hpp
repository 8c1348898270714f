// rail: one port that a communicator's verbs channels share, with the address they use of it and the
// registrations of ef_mem_alloc memory, which are made on first use and kept while the memory lives.
//
// Other memory is not registered behind the caller's back: the library would have to know when it is
// unmapped, or a later mapping at the same address would be sent from pages that are no longer its own.
#pragma once

#include "transport/base/status.hpp"
#include "transport/memory.hpp"
#include "transport/verbs/device.hpp"

#include <map>
#include <string>

namespace ef::verbs {

struct rail_address {
    uint8_t gid_index = 0;
    gid_bytes gid{};
};

class rail {
public:
    rail(std::string name, std::unique_ptr<port> p, rail_address a)
        : name_(std::move(name)), port_(std::move(p)), address_(a) {}
    rail(rail&&) = delete;
    ~rail();

    const std::string& name() const noexcept { return name_; }  // "rxe0/1"
    port& device() noexcept { return *port_; }
    const rail_address& address() const noexcept { return address_; }

    /// The key with which [p, p + bytes) may be sent; 0 if it is not ef_mem_alloc memory or the device
    /// takes no more registrations (said once).
    uint32_t key_of(const std::byte* p, size_t bytes) noexcept;

    /// Read the device's asynchronous events. Cheap when there are none.
    void attend() noexcept;
    /// What ended the device for good, or OK.
    const status& failed() const noexcept { return failed_; }

private:
    void forget_the_dead() noexcept;

    std::string name_;
    std::unique_ptr<port> port_;
    rail_address address_;
    std::map<uint64_t, region> regions_;  // by segment id
    memory::segment last_;
    uint32_t last_key_ = 0;
    uint64_t generation_ = 0;
    bool refused_ = false;
    status failed_;
};

/// "rxe0/1: ibv_reg_mr of 4 MiB: Cannot allocate memory (errno 12)", with what to do where errno tells.
status verbs_error(const std::string& rail, std::string_view doing, const failure& f);

}  // namespace ef::verbs
