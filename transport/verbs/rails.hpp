// rails: which ports of this machine's RDMA devices a rank uses, and with which address.
#pragma once

#include "transport/base/config.hpp"
#include "transport/verbs/rail.hpp"

#include <string>
#include <vector>

namespace ef::verbs {

struct rail_plan {
    std::string device;  // "mlx5_0"
    uint8_t port = 1;
    rail_address address;
    std::string name() const { return device + "/" + std::to_string(port); }
};

/// From EFLOPS_DEVICE ("auto": the first port that is active) and EFLOPS_GID_INDEX, by what sysfs says
/// under `root`. The error says what is there and what to type.
result<std::vector<rail_plan>> plan_rails(const config& c, const std::string& root = "");

/// The rails that this rank can offer to its peers, as "mlx5_0/1,mlx5_1/1". Empty where EFLOPS_TRANSPORT
/// rules RDMA out; or where there is none, which is said once (info), unless it is "verbs": then an error.
result<std::string> usable_rails(const config& c);

/// Opens them. Fails on the first that cannot be.
result<std::vector<std::unique_ptr<rail>>> open_rails(const std::vector<rail_plan>& plan,
                                                      const config& c);

}  // namespace ef::verbs
