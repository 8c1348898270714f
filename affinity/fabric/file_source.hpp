// file_source: the text of a fabric file and how its errors are worded. Every error of a file is
// one line, "pod.json:12:5: reason" or "topology.conf:3: reason", whatever bytes the file holds.
#pragma once

#include "transport/base/status.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace ef::fabric {

inline constexpr size_t max_file_bytes = size_t{256} << 20;
inline constexpr size_t max_nodes = size_t{1} << 20;   // switches and hosts
inline constexpr size_t max_cables = size_t{1} << 23;  // each lane counts

struct source {
    std::string name;  // as the user gave it
    std::string text;
};

/// The whole file, at most max_file_bytes. EF_INVALID, with the name and the system's word, for
/// what cannot be opened or read or is too large.
result<source> read_source(const std::string& path);

/// EF_INVALID, "name:line: reason"; `at` is an offset into the text, at most its length.
status line_error(const source& s, size_t at, std::string_view reason);
/// EF_INVALID, "name:line:column: reason"; columns are bytes, from 1.
status column_error(const source& s, size_t at, std::string_view reason);

/// `text` as a message may show it: in quotes, at most 60 bytes, other than ASCII as '?'.
std::string shown(std::string_view text);

/// `text` with '?' for each byte that is not printable ASCII.
std::string printable(std::string_view text);

/// Words and numbers apart, numbers by value: "mlx5_2" before "mlx5_10".
bool natural_less(std::string_view a, std::string_view b) noexcept;

}  // namespace ef::fabric
