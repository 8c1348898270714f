// Sizes as people write them: "64K", "8:256M:x2", "1M,3M,1G". K, M, G and T are powers of 1024.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ef::perf {

/// "4K" is 4096; also "4KiB" and "4096". Nothing if it is not a size or does not fit 63 bits.
std::optional<uint64_t> parse_size(std::string_view text);

/// A list of items divided by commas. An item is a size, or FIRST:LAST or FIRST:LAST:STEP with STEP
/// "xN" (times N, the default is x2) or "+SIZE". LAST is included only if a step meets it. On
/// failure returns an empty list and sets `why` to a sentence that says what is accepted.
std::vector<uint64_t> parse_sizes(std::string_view text, std::string& why);

/// The shortest way to write a size: "8", "64K", "1536K", "3M".
std::string format_size(uint64_t bytes);

}  // namespace ef::perf
