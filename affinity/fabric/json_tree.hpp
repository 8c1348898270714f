// json_tree: a JSON text as values that know where they stand, so that an error in what they mean
// can name line, column and path. The text outlives the tree: strings are parts of it.
#pragma once

#include "affinity/fabric/file_source.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace ef::fabric {

using json_index = uint32_t;

enum class json_kind : uint8_t { null, boolean, number, string, array, object };

/// "an object", "a number", ..
const char* name_of(json_kind k) noexcept;

struct json_value {
    json_kind kind = json_kind::null;
    bool truth = false;
    uint32_t at = 0;                                     // offset of its first character
    uint32_t key_at = 0;                                 // members: offset of the key
    json_index parent = 0xffff'ffff;                     // none: the root
    json_index first = 0xffff'ffff, next = 0xffff'ffff;  // children, in the order of the text
    double number = 0;
    std::string_view key, text;  // members: the key; strings: the value
};

class json_tree {
public:
    static constexpr json_index none = 0xffff'ffff;
    static constexpr json_index root = 0;

    /// The error of a text that is no JSON names line and column; so does that of one which is
    /// nested more than 8 deep or has more than 2^26 values.
    static result<json_tree> parse(const source& s);

    const json_value& at(json_index v) const noexcept { return values_[v]; }
    /// "cables[3].gbps"; empty for the root.
    std::string path_of(json_index v) const;
    /// "file:line:column: path: reason" of the value or key that stands at an offset of the text;
    /// without a path if none does.
    status complain(size_t at, std::string_view reason) const;

private:
    class builder;
    explicit json_tree(const source& s) : source_(&s) {}

    const source* source_;
    std::vector<json_value> values_;
    std::deque<std::string> unescaped_;  // strings that are not as they stand in the text
};

}  // namespace ef::fabric
