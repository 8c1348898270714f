// namespaces: named network namespaces, as `ip netns` has them (bind mounts in /run/netns), so that
// they outlive whoever made them, are found again by their names, and `ip -n NAME` looks inside.
#pragma once

#include "transport/base/fd.hpp"
#include "transport/base/status.hpp"

#include <sys/types.h>

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace ef::lab {

/// A new namespace of this name, with its loopback interface down; the descriptor keeps it too.
result<fd> create_namespace(const std::string& name);
result<fd> open_namespace(const std::string& name);
/// Those whose names begin with `prefix`, sorted. A leftover name without a namespace behind it, as
/// a creator leaves that was killed between the two, is one of them.
std::vector<std::string> namespaces_like(std::string_view prefix);
/// The name goes at once; the namespace when nothing uses it any more.
status remove_namespace(const std::string& name);
/// Remove /run/netns itself if nothing is in it.
void remove_namespace_folder();

/// Run `body` on a thread of its own inside the namespace. Sockets that it opens belong to that
/// namespace for ever, and any thread may use them.
status in_namespace(int ns, const std::function<status()>& body);

/// Network namespaces are told apart by inode. 0: this is none.
ino_t identity_of_namespace(int ns) noexcept;
/// That of a process; 0 if it is gone or may not be looked at.
ino_t namespace_of_process(pid_t pid) noexcept;

std::vector<pid_t> all_processes();
/// Processes, this one excepted, in any of these namespaces.
std::vector<pid_t> processes_in(const std::set<ino_t>& namespaces);
/// SIGKILL to all of them, also to those that they start meanwhile, and wait until they are gone.
status kill_processes_in(const std::set<ino_t>& namespaces, unsigned limit_ms);

}  // namespace ef::lab
