// One function per launcher, asked in order; each says nothing (it was not me), a launch, or what
// is wrong.
//
// Where rank 0 listens, and what secret is used when neither EFLOPS_KEY nor EFLOPS_KEY_FILE is set:
//   explicit, environment   EFLOPS_ROOT                             the user's key file
//   PMIx, PMI               anywhere, published                     random, published by rank 0
//   torchrun                MASTER_ADDR, port MASTER_PORT + 1       the user's key file + run id
//                           (torchrun's own store has MASTER_PORT; 65535 becomes 65534)
//   Slurm                   first node of SLURM_STEP_NODELIST,      the user's key file + job, step
//                           port 20000 + hash(job, step) mod 10000
//   Open MPI without PMIx   127.0.0.1 if all ranks are local,       the user's key file + job
//                           port 20000 + hash(job) mod 10000
#include "transport/bootstrap/launcher.hpp"

#include "transport/base/log.hpp"
#include "transport/bootstrap/key.hpp"
#include "transport/bootstrap/kvs.hpp"
#include "transport/bootstrap/slurm.hpp"

#include <eflops/allreduce.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sodium.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <optional>

namespace ef {
namespace {

using maybe = result<std::optional<launch>>;

std::string variable(const char* name) {
    const char* v = getenv(name);
    return v ? v : "";
}

/// The n-th communicator that this process asks a launcher for.
uint32_t next_sequence() {
    static std::atomic<uint32_t> n{0};
    return n.fetch_add(1, std::memory_order_relaxed);
}

uint16_t derived_port(const std::string& job) {
    const secret h = derive_key(job, "port");
    return uint16_t(20000 + (unsigned(h[0]) << 8 | h[1]) % 10000);
}

/// Rank and size from two variables; both must be whole numbers that fit together.
status read_pair(const char* rank, const char* size, launch& l) {
    const auto number = [](const char* name, int& n) -> status {
        const std::string v = variable(name);
        const auto [end, err] = std::from_chars(v.data(), v.data() + v.size(), n);
        if (!v.empty() && err == std::errc() && end == v.data() + v.size()) return {};
        return status(EF_INVALID, v.empty() ? fmt::format("{} is not set", name)
                                            : fmt::format("{}={} is not a number", name, v));
    };
    if (status s = number(rank, l.rank); !s.ok()) return s.in(l.source);
    if (status s = number(size, l.nranks); !s.ok()) return s.in(l.source);
    if (l.nranks >= 1 && l.rank >= 0 && l.rank < l.nranks) return {};
    return status(EF_INVALID, fmt::format("{}: {}={} does not fit {}={}", l.source, rank, l.rank,
                                          size, l.nranks));
}

status set_key(launch& l, const config& c, const std::string& job) {
    result<std::string> text = configured_key(c);
    if (!text.ok()) return text.why();
    if (!text->empty()) {
        l.key = derive_key(*text, "configured");
        return {};
    }
    if (l.nranks == 1) {
        l.key = derive_key(random_key(), "alone");
        return {};
    }
    text = user_key();
    if (!text.ok()) return text.why();
    l.key = derive_key(*text, "user " + job);
    return {};
}

status take_listener(launch& l, int listen_fd) {
    if (listen_fd <= 0) return {};
    if (l.rank != 0)
        return status(EF_INVALID, fmt::format("listen_fd is for rank 0, this is rank {}", l.rank));
    l.listener = fd(fcntl(listen_fd, F_DUPFD_CLOEXEC, 3));
    if (!l.listener) return system_error(fmt::format("listen_fd {}", listen_fd), errno);
    int listening = 0;
    socklen_t n = sizeof(listening);
    if (getsockopt(l.listener.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &n) != 0 || !listening)
        return status(EF_INVALID, fmt::format("listen_fd {} is not a listening socket", listen_fd));
    // accept() is asked until there is nothing left, so it must not wait.
    fcntl(l.listener.get(), F_SETFL, fcntl(l.listener.get(), F_GETFL) | O_NONBLOCK);
    return {};
}

result<launch> given(int rank, int nranks, const char* source, int listen_fd, const config& c) {
    launch l;
    l.rank = rank;
    l.nranks = nranks;
    l.source = source;
    l.root = c.root;
    if (rank < 0 || nranks < 1 || rank >= nranks)
        return status(EF_INVALID, fmt::format("{}: rank {} of {} ranks", source, rank, nranks));
    if (status s = take_listener(l, listen_fd); !s.ok()) return s.in(source);
    if (nranks > 1 && l.root.empty() && !l.listener)
        return status(EF_INVALID,
                      fmt::format("{}: rank {} of {} is known, but not where rank 0 listens: set "
                                  "EFLOPS_ROOT=host:port",
                                  source, rank, nranks));
    if (status s = set_key(l, c, "explicit"); !s.ok()) return s;
    return l;
}

/// Random, made by rank 0 once per process and handed out through the store.
result<std::string> store_key(kvs& store, deadline d) {
    static std::mutex one;
    static std::string key;
    const std::lock_guard lock(one);
    if (!key.empty()) return key;
    if (store.rank() == 0) {
        const std::string made = random_key();
        if (status s = store.put("eflops-key", made); !s.ok()) return s;
        key = made;
    } else {
        result<std::string> got = store.get("eflops-key", d);
        if (!got.ok()) return got;
        if (got->size() != 64) return status(EF_SYSTEM, "the job's key came back damaged");
        key = *got;
    }
    return key;
}

maybe from_store(std::shared_ptr<kvs> store, const char* source, const config& c) {
    launch l;
    l.source = source;
    l.rank = store->rank();
    l.nranks = store->nranks();
    l.root = c.root;
    l.sequence = next_sequence();
    const std::string all = variable("OMPI_COMM_WORLD_SIZE"),
                      here = variable("OMPI_COMM_WORLD_LOCAL_SIZE");
    l.one_host =
        (!all.empty() && all == here) || variable("MPI_LOCALNRANKS") == std::to_string(l.nranks);
    result<std::string> key = configured_key(c);
    if (!key.ok()) return key.why();
    if (key->empty() && l.nranks > 1) {
        const auto ms = uint64_t(c.timeout_ms > 0 ? c.timeout_ms : 60'000);
        result<std::string> published = store_key(*store, deadline::in_ms(ms));
        if (!published.ok()) return published.why();
        l.key = derive_key(*published, "published");
    } else if (status s = set_key(l, c, source); !s.ok()) return s;
    if (l.root.empty()) {
        const std::string name = fmt::format("eflops-root-{}", l.sequence);
        l.publish_root = [store, name](const std::string& v) { return store->put(name, v); };
        l.lookup_root = [store, name](deadline d) { return store->get(name, d); };
    }
    return std::optional<launch>(std::move(l));
}

maybe from_pmix(const config& c) {
    result<std::shared_ptr<kvs>> store = pmix_store();
    if (store.ok()) return *store ? from_store(*store, "pmix", c) : maybe(std::nullopt);
    // Something else may still say who we are.
    if (variable("OMPI_COMM_WORLD_RANK").empty() && variable("SLURM_PROCID").empty())
        return store.why();
    log(EF_LOG_WARN, "launcher: {}", store.why().text());
    return std::optional<launch>();
}

maybe from_pmi(const config& c) {
    result<std::shared_ptr<kvs>> store = pmi_store();
    if (!store.ok()) return store.why();
    return *store ? from_store(*store, "pmi", c) : maybe(std::nullopt);
}

maybe from_open_mpi(const config& c) {
    if (variable("OMPI_COMM_WORLD_RANK").empty()) return std::optional<launch>();
    launch l;
    l.source = "openmpi";
    if (status s = read_pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", l); !s.ok()) return s;
    const std::string job = fmt::format("openmpi {}", variable("OMPI_MCA_ess_base_jobid"));
    l.root = c.root;
    l.one_host = variable("OMPI_COMM_WORLD_LOCAL_SIZE") == variable("OMPI_COMM_WORLD_SIZE");
    if (l.root.empty() && !l.one_host)
        return status(EF_UNSUPPORTED,
                      "openmpi: its ranks are on several hosts and libpmix.so.2 cannot be used, so "
                      "rank 0 cannot be found: install libpmix or set EFLOPS_ROOT=host:port");
    if (l.root.empty()) l.root = fmt::format("127.0.0.1:{}", derived_port(job));
    l.sequence = next_sequence();
    if (status s = set_key(l, c, job); !s.ok()) return s;
    return std::optional<launch>(std::move(l));
}

maybe from_torchrun(const config& c) {
    // RANK alone is too common a word to mean torchrun.
    if (variable("RANK").empty() || variable("WORLD_SIZE").empty()) return std::optional<launch>();
    launch l;
    l.source = "torchrun";
    if (status s = read_pair("RANK", "WORLD_SIZE", l); !s.ok()) return s;
    l.root = c.root;
    if (l.root.empty() && l.nranks > 1) {
        const std::string host = variable("MASTER_ADDR"), text = variable("MASTER_PORT");
        if (host.empty() || text.empty())
            return status(EF_INVALID,
                          fmt::format("torchrun: RANK and WORLD_SIZE are set, {} is not",
                                      host.empty() ? "MASTER_ADDR" : "MASTER_PORT"));
        unsigned port = 0;
        const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), port);
        if (err != std::errc() || end != text.data() + text.size() || port < 1 || port > 65535)
            return status(EF_INVALID, fmt::format("torchrun: MASTER_PORT={} is not a port", text));
        port = port == 65535 ? 65534 : port + 1;
        const bool v6 = host.find(':') != std::string::npos;
        l.root = v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
    }
    l.sequence = next_sequence();
    if (status s = set_key(l, c, "torchrun " + variable("TORCHELASTIC_RUN_ID")); !s.ok()) return s;
    return std::optional<launch>(std::move(l));
}

maybe from_slurm(const config& c) {
    // A batch script has SLURM_PROCID too, but is one process and not a step of several.
    const std::string nodes = variable("SLURM_STEP_NODELIST");
    if (variable("SLURM_PROCID").empty() || nodes.empty()) return std::optional<launch>();
    launch l;
    l.source = "slurm";
    const bool step = !variable("SLURM_STEP_NUM_TASKS").empty();
    if (status s = read_pair("SLURM_PROCID", step ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS", l);
        !s.ok())
        return s;
    const std::string job =
        fmt::format("slurm {} {}", variable("SLURM_JOB_ID"), variable("SLURM_STEP_ID"));
    l.root = c.root;
    if (l.root.empty()) {
        result<std::string> host = first_slurm_host(nodes);
        if (!host.ok()) return host.why();
        l.root = fmt::format("{}:{}", *host, derived_port(job));
    }
    l.sequence = next_sequence();
    if (status s = set_key(l, c, job); !s.ok()) return s;
    return std::optional<launch>(std::move(l));
}

}  // namespace

result<launch> detect_launch(int rank, int nranks, int listen_fd, const config& c) {
    if (sodium_init() < 0) return status(EF_SYSTEM, "libsodium: no source of random numbers");
    if ((rank == EF_FROM_LAUNCHER) != (nranks == EF_FROM_LAUNCHER))
        return status(EF_INVALID, fmt::format("rank {} and nranks {}: give both, or neither (-1)",
                                              rank, nranks));
    if (rank != EF_FROM_LAUNCHER) return given(rank, nranks, "explicit", listen_fd, c);
    if ((c.rank >= 0) != (c.nranks >= 0))
        return status(EF_INVALID, fmt::format("environment: EFLOPS_{} is set, EFLOPS_{} is not",
                                              c.rank >= 0 ? "RANK" : "NRANKS",
                                              c.rank >= 0 ? "NRANKS" : "RANK"));
    if (c.rank >= 0) {
        result<launch> l = given(int(c.rank), int(c.nranks), "environment", listen_fd, c);
        if (l.ok()) l->sequence = next_sequence();
        return l;
    }
    for (const auto& ask : {from_pmix, from_pmi, from_open_mpi, from_torchrun, from_slurm}) {
        maybe m = ask(c);
        if (!m.ok()) return m.why();
        if (!*m) continue;
        if (status s = take_listener(**m, listen_fd); !s.ok()) return s;
        return std::move(**m);
    }
    return given(0, 1, "alone", 0, c);
}

}  // namespace ef
