// The two ends of a run. Both throw `failure`.
#pragma once

#include "perftests/p2p/report.hpp"

namespace ef::perf::p2p {

/// Measure against the server at `address` ("host:port"). Returns the exit status.
int run_client(const test& what, const p2p_options& o, const machine_facts& machine,
               const std::string& address, const char* key);

/// Serve one client, or with --serve one after the other. `listen_fd`: a listening socket, or 0.
int run_server(const test& what, const p2p_options& o, int listen_fd, const char* key);

}  // namespace ef::perf::p2p
