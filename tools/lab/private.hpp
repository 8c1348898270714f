// private: a world of one's own for a lab: own mounts with an empty /run, own process numbers and,
// for an ordinary user, a user namespace in which he is root. When its first process ends, however
// it ends, the kernel ends all others in it and with them every namespace of the lab.
#pragma once

#include "transport/base/status.hpp"

#include <functional>
#include <string>
#include <vector>

namespace ef::lab {

/// Run `body` as the first process of such a world and return its exit status. Only with one thread.
/// SIGINT and SIGQUIT are left to what runs inside. If this process dies, so does the world.
result<int> in_private_world(const std::function<int()>& body);

/// The same without processes of its own: for this process, once and for all. What it builds is
/// gone when it and its children have ended. For tests.
status enter_private_world();

/// Run a program as a child, which has the terminal, until it ends; orphans that were left to this
/// process are collected meanwhile. Its exit status, or 128 + the signal.
result<int> run_to_its_end(const std::vector<std::string>& command);

}  // namespace ef::lab
