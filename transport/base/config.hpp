// Configuration: one table of all variables (config.cpp). API option beats environment beats
// default. A bad value is an error that says what is accepted; an unknown EFLOPS_ variable is a
// warning that names the nearest known one.
#pragma once

#include "transport/base/status.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace ef {

struct config {
    int64_t rank = -1;  // -1: from the launcher
    int64_t nranks = -1;
    std::string root;  // "host:port", "[v6]:port"; empty: from the launcher
    std::string key;
    std::string key_file;
    std::string host_id;  // ranks with equal host_id share memory; empty: from the kernel
    std::string interface_;
    std::string transport;  // auto, shm, tcp, verbs
    int64_t timeout_ms = 0;
    std::string algorithm;        // auto or a name
    int64_t chunk_bytes = 0;      // 0: the planner's
    std::string fabric;           // file or generator; empty: not known
    std::string sync;             // auto, none, pair, barrier
    std::string steer;            // off, trace, on
    std::string link_failure;     // replan, error
    int64_t tcp_connections = 0;  // 0: the transport's choice
    std::string shm_single_copy;  // auto, on, off
    std::string device;           // auto, or RDMA ports: "mlx5_0/1,mlx5_1/1"
    int64_t gid_index = -1;       // -1: by the rules of transport/verbs
    int64_t verbs_lanes = 0;      // QPs per peer and port; 0: the transport's choice
    int64_t verbs_ring = 0;       // bytes, per peer
    std::string verbs_module;     // path of libeflops-verbs.so; empty: beside libeflops.so
    std::string calibration;      // auto, off, or a file
    std::string flight_dir;       // where a stalled rank writes its record; empty: nowhere
    std::string log;              // error, warn, info, debug
};

struct config_variable {
    const char* name;      // EFLOPS_TIMEOUT_MS
    const char* fallback;  // as text, what holds when neither option nor environment says anything
    const char* accepted;  // the words an error uses
    const char* meaning;   // one line for people
};

/// All variables, in the order eflops(7) lists them.
std::span<const config_variable> config_table() noexcept;

/// Read the environment. The logger's level is set from it. Unknown EFLOPS_ names are warned of,
/// once per process.
result<config> read_config();

/// Parse one value as the table would, into `c`: what read_config() and the fuzzer call.
status set_config(config& c, std::string_view name, std::string_view value);

}  // namespace ef
