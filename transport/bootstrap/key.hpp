// The job's key: from the configuration, from a file that only its owner can read, or from a
// per-user key file that is made on first use (a shared home then serves a whole cluster).
#pragma once

#include "transport/bootstrap/launcher.hpp"

#include <string_view>

namespace ef {

/// 32 bytes from a text of any length.
secret derive_key(std::string_view text, std::string_view context);

/// The text of EFLOPS_KEY or EFLOPS_KEY_FILE; empty if neither is set.
result<std::string> configured_key(const config& c);

/// $XDG_CONFIG_HOME/eflops/key or ~/.config/eflops/key, created with random content and mode 0600
/// if it is not there. Ranks that start at the same time all get the content of one of them.
result<std::string> user_key();

/// A key file's text; refuses one that group or others can read.
result<std::string> read_key_file(const std::string& path);

/// 64 hexadecimal digits.
std::string random_key();

}  // namespace ef
