// Names of types, operations and memory kinds, for options and for reports.
#pragma once

#include <eflops/allreduce.h>

#include <optional>
#include <string_view>
#include <vector>

namespace ef::perf {

std::string_view type_name(ef_type_t type) noexcept;
std::string_view op_name(ef_op_t op) noexcept;
/// Also the names of nccl-tests: float, double, half.
std::optional<ef_type_t> find_type(std::string_view name) noexcept;
std::optional<ef_op_t> find_op(std::string_view name) noexcept;
std::vector<ef_type_t> all_types();
std::vector<ef_op_t> all_ops();

}  // namespace ef::perf
