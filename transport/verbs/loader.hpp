// loader: finds and opens the module libeflops-verbs.so. A machine without it, or without libibverbs, is
// a machine without RDMA devices: everything else works on.
#pragma once

#include "transport/base/status.hpp"
#include "transport/verbs/device.hpp"

namespace ef::verbs {

/// The module's library, opened on the first call and kept for the life of the process. Looked for where
/// EFLOPS_VERBS_MODULE says, else beside libeflops.so (or the program, if it is linked statically) and its
/// parent folder, else by the dynamic linker. The error says what was tried and why it failed. Any thread.
result<library*> open_library(const std::string& module);

}  // namespace ef::verbs
