#include "perftests/common/names.hpp"

namespace ef::perf {
namespace {

struct type_row {
    ef_type_t type;
    std::string_view name;
    std::string_view alias;  // as nccl-tests spells it
};
constexpr type_row types[] = {
    {EF_FLOAT32, "float32", "float"}, {EF_FLOAT64, "float64", "double"},
    {EF_FLOAT16, "float16", "half"},  {EF_BFLOAT16, "bfloat16", "bf16"},
    {EF_INT8, "int8", "char"},        {EF_INT32, "int32", "int"},
    {EF_INT64, "int64", "int64"},     {EF_UINT8, "uint8", "uint8"},
    {EF_UINT32, "uint32", "uint32"},  {EF_UINT64, "uint64", "uint64"},
};

struct op_row {
    ef_op_t op;
    std::string_view name;
};
constexpr op_row ops[] = {
    {EF_SUM, "sum"}, {EF_PROD, "prod"}, {EF_MIN, "min"}, {EF_MAX, "max"}, {EF_AVG, "avg"}};

}  // namespace

std::string_view type_name(ef_type_t type) noexcept {
    for (const auto& t : types)
        if (t.type == type) return t.name;
    return "?";
}

std::string_view op_name(ef_op_t op) noexcept {
    for (const auto& o : ops)
        if (o.op == op) return o.name;
    return "?";
}

std::optional<ef_type_t> find_type(std::string_view name) noexcept {
    for (const auto& t : types)
        if (t.name == name || t.alias == name) return t.type;
    return std::nullopt;
}

std::optional<ef_op_t> find_op(std::string_view name) noexcept {
    for (const auto& o : ops)
        if (o.name == name) return o.op;
    return std::nullopt;
}

std::vector<ef_type_t> all_types() {
    std::vector<ef_type_t> all;
    for (const auto& t : types) all.push_back(t.type);
    return all;
}

std::vector<ef_op_t> all_ops() {
    std::vector<ef_op_t> all;
    for (const auto& o : ops) all.push_back(o.op);
    return all;
}

}  // namespace ef::perf
