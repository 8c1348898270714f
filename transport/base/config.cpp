#include "transport/base/config.hpp"

#include "transport/base/log.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <numeric>
#include <string_view>
#include <variant>
#include <vector>

extern char** environ;

namespace ef {
namespace {

struct integer {
    int64_t config::*field;
    int64_t least, most;
};
struct text {
    std::string config::*field;
};
struct word {
    std::string config::*field;
    std::vector<std::string_view> of;
};

struct row {
    config_variable about;
    std::variant<integer, text, word> how;
};

const std::vector<row>& rows() {
    static const std::vector<row> table = {
        {{"EFLOPS_RANK", "", "0 or more", "this process's rank; the launcher's when unset"},
         integer{&config::rank, 0, 1 << 24}},
        {{"EFLOPS_NRANKS", "", "1 or more", "number of ranks; the launcher's when unset"},
         integer{&config::nranks, 1, 1 << 24}},
        {{"EFLOPS_ROOT", "", "host:port or [IPv6]:port", "where rank 0 listens for the others"},
         text{&config::root}},
        {{"EFLOPS_KEY", "", "16 or more characters", "the job's secret, the same on all ranks"},
         text{&config::key}},
        {{"EFLOPS_KEY_FILE", "", "a file that only its owner can read",
          "file that holds the job's secret"},
         text{&config::key_file}},
        {{"EFLOPS_HOST_ID", "", "any text",
          "ranks with the same text share memory; the kernel's identity when unset"},
         text{&config::host_id}},
        {{"EFLOPS_INTERFACE", "", "an interface name, an address or a prefix such as 10.1.0.0/16",
          "network interface for tcp"},
         text{&config::interface_}},
        {{"EFLOPS_TRANSPORT", "auto", "auto, shm, tcp or verbs", "how ranks reach each other"},
         word{&config::transport, {"auto", "shm", "tcp", "verbs"}}},
        {{"EFLOPS_TIMEOUT_MS", "60000", "1 to 86400000",
          "milliseconds without progress after which a call fails"},
         integer{&config::timeout_ms, 1, 86'400'000}},
        {{"EFLOPS_ALGORITHM", "auto", "auto or an algorithm's name", "force one algorithm"},
         text{&config::algorithm}},
        {{"EFLOPS_CHUNK_BYTES", "0", "0 or 1024 to 1073741824",
          "pipelining unit in bytes; 0 leaves it to the planner"},
         integer{&config::chunk_bytes, 0, 1 << 30}},
        {{"EFLOPS_FABRIC", "", "a fabric file or a generator such as bigraph:S=4,H=2",
          "what the network between the hosts looks like"},
         text{&config::fabric}},
        {{"EFLOPS_SYNC", "auto", "auto, none, pair or barrier",
          "what keeps the rounds of a plan apart on the fabric"},
         word{&config::sync, {"auto", "none", "pair", "barrier"}}},
        {{"EFLOPS_STEER", "off", "off, trace or on",
          "choose the source ports of tcp connections by the way that they take"},
         word{&config::steer, {"off", "trace", "on"}}},
        {{"EFLOPS_LINK_FAILURE", "replan", "replan or error",
          "what a failed link of the fabric leads to"},
         word{&config::link_failure, {"replan", "error"}}},
        {{"EFLOPS_TCP_CONNECTIONS", "0", "0 to 16",
          "connections per peer; 0 leaves it to the transport"},
         integer{&config::tcp_connections, 0, 16}},
        {{"EFLOPS_SHM_SINGLE_COPY", "auto", "auto, on or off",
          "read peers' private memory with process_vm_readv"},
         word{&config::shm_single_copy, {"auto", "on", "off"}}},
        {{"EFLOPS_DEVICE", "auto", "auto or RDMA ports such as mlx5_0/1,mlx5_1/1",
          "the RDMA ports that this rank uses"},
         text{&config::device}},
        {{"EFLOPS_GID_INDEX", "-1", "-1 to 255",
          "which GID of an RDMA port is used; -1 leaves it to the transport"},
         integer{&config::gid_index, -1, 255}},
        {{"EFLOPS_VERBS_LANES", "0", "0 to 8",
          "queue pairs per peer and RDMA port; 0 leaves it to the transport"},
         integer{&config::verbs_lanes, 0, 8}},
        {{"EFLOPS_VERBS_RING", "1048576", "65536 to 67108864, a multiple of 4096",
          "bytes of registered memory into which each peer writes, the same on all ranks"},
         integer{&config::verbs_ring, 65536, 64 << 20}},
        {{"EFLOPS_VERBS_MODULE", "", "a path", "where libeflops-verbs.so is"},
         text{&config::verbs_module}},
        {{"EFLOPS_CALIBRATION", "auto", "auto, off or a file",
          "where measured alpha, beta, gamma are kept"},
         text{&config::calibration}},
        {{"EFLOPS_FLIGHT_DIR", "", "a directory",
          "where a rank that fails writes its flight record"},
         text{&config::flight_dir}},
        {{"EFLOPS_LOG", "warn", "error, warn, info or debug", "what is logged"},
         word{&config::log, {"error", "warn", "info", "debug"}}},
    };
    return table;
}

status refuse(const config_variable& v, std::string_view value) {
    return status(EF_INVALID,
                  fmt::format("{}={}: not accepted, give {}", v.name, value, v.accepted));
}

status assign(config& c, const row& r, std::string_view value) {
    if (const auto* i = std::get_if<integer>(&r.how)) {
        int64_t n = 0;
        const auto [end, err] = std::from_chars(value.data(), value.data() + value.size(), n);
        if (err != std::errc() || end != value.data() + value.size() || n < i->least || n > i->most)
            return refuse(r.about, value);
        if (i->field == &config::chunk_bytes && n != 0 && n < 1024) return refuse(r.about, value);
        if (i->field == &config::verbs_ring && n % 4096) return refuse(r.about, value);
        c.*(i->field) = n;
        return {};
    }
    if (const auto* w = std::get_if<word>(&r.how)) {
        if (std::find(w->of.begin(), w->of.end(), value) == w->of.end())
            return refuse(r.about, value);
        c.*(w->field) = value;
        return {};
    }
    c.*(std::get<text>(r.how).field) = value;
    return {};
}

size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> line(b.size() + 1);
    std::iota(line.begin(), line.end(), size_t(0));
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = std::exchange(line[0], i);
        for (size_t j = 1; j <= b.size(); ++j) {
            const size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = line[j];
            line[j] = std::min({line[j] + 1, line[j - 1] + 1, change});
        }
    }
    return line.back();
}

void warn_unknown() {
    static std::atomic<bool> done{false};
    if (done.exchange(true)) return;
    for (char** e = environ; *e; ++e) {
        const std::string_view entry(*e);
        if (!entry.starts_with("EFLOPS_")) continue;
        const std::string_view name = entry.substr(0, entry.find('='));
        const auto distance = [&](const row& r) { return edit_distance(name, r.about.name); };
        const auto nearest =
            std::min_element(rows().begin(), rows().end(),
                             [&](const row& a, const row& b) { return distance(a) < distance(b); });
        if (name != nearest->about.name)
            log(EF_LOG_WARN, "config: unknown variable {}, did you mean {}?", name,
                nearest->about.name);
    }
}

}  // namespace

std::span<const config_variable> config_table() noexcept {
    static const std::vector<config_variable> table = [] {
        std::vector<config_variable> t;
        for (const row& r : rows()) t.push_back(r.about);
        return t;
    }();
    return table;
}

status set_config(config& c, std::string_view name, std::string_view value) {
    for (const row& r : rows())
        if (name == r.about.name) return assign(c, r, value);
    return status(EF_INVALID, fmt::format("{}: no such variable", name));
}

result<config> read_config() {
    config c;
    for (const row& r : rows()) {
        if (*r.about.fallback)
            if (status s = assign(c, r, r.about.fallback); !s.ok()) return s;
        // An empty value means unset, as launchers that export every variable of a template expect.
        if (const char* value = getenv(r.about.name); value && *value)
            if (status s = assign(c, r, value); !s.ok()) return s.in("environment");
    }
    const std::vector<std::string_view> levels = {"error", "warn", "info", "debug"};
    set_log_level(ef_log_level_t(std::find(levels.begin(), levels.end(), c.log) - levels.begin()));
    warn_unknown();
    return c;
}

}  // namespace ef
