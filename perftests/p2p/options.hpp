// Options of the point-to-point programs. They are given once, to the client; the server learns
// them, and refuses what it was itself told otherwise.
#pragma once

#include "perftests/common/options.hpp"
#include "perftests/p2p/test.hpp"

#include <map>
#include <string>

namespace ef::perf::p2p {

/// What both ends must do alike.
struct traffic_options {
    std::vector<uint64_t> sizes;
    uint32_t qps = 1;
    uint32_t depth = 128;         // messages under way per QP
    uint32_t post_list = 1;       // works per post
    uint32_t signal_every = 0;    // 0: by size
    uint64_t inline_bytes = 220;  // at most; what the endpoint can is the limit
    bool bidirectional = false;
    bool verify = false;
};

struct p2p_options {
    std::string host;  // empty: server
    uint32_t port = 18515;
    std::string device = "auto";  // auto, shm, tcp, verbs:...
    int gid_index = -1;
    bool rdma_cm = false;
    bool serve = false;
    bool self = false;
    bool pin = true;
    double timeout_s = 30;
    traffic_options traffic;
    effort_options effort;
    output_options output;
    double min_window_gbps = 0;
    std::map<std::string, std::string> given;  // on this command line: name without dashes, value

    bool client() const noexcept { return self || !host.empty(); }
};

/// The options that the ends share, by name and as text: what is sent, compared and reported.
std::map<std::string, std::string> in_force(const p2p_options& o);

/// Take over what in_force() of the client said. Returns what is wrong with it, or an empty text.
std::string adopt(const std::map<std::string, std::string>& theirs, p2p_options& o);

/// "--size: 65536 on the client, 4096 on the server", for each that differs; empty if none does.
std::string conflicts(const std::map<std::string, std::string>& theirs, const p2p_options& server);

/// As parse_options().
std::optional<int> parse_p2p(int argc, char** argv, const test& what, p2p_options& o);

}  // namespace ef::perf::p2p
