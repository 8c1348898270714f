// leaks: what a job leaves on the machine, counted before and after. Tests that look move into a
// network and mount namespace of their own first, where every socket and every file in /dev/shm is
// theirs.
#pragma once

#include <map>
#include <string>

namespace ef::test {

/// Give this process (and those it forks) its own network, with loopback up, and its own empty
/// /dev/shm of `shm_bytes`. "" or why it cannot be done here. Before any thread is started.
std::string isolate(size_t shm_bytes = size_t(64) << 20);

/// Counts by kind: descriptors of this process ("socket", "anon_inode:[eventpoll]"), mappings of
/// memfds, abstract unix sockets, listening TCP ports, files in /dev/shm, child processes.
using footprint = std::map<std::string, int>;
footprint take_footprint();

/// What there is more of than before, "" if nothing.
std::string growth(const footprint& before, const footprint& now);

/// growth() until it is "" or `ms` have passed: the kernel frees a dead process's sockets a moment
/// after its end. Children left over are killed.
std::string what_is_left(const footprint& before, int ms);

}  // namespace ef::test
