// device: what the library needs of RDMA verbs, as interfaces without libibverbs' header. The module
// libeflops-verbs.so implements them over libibverbs, tests/support over memory; everything that
// decides, waits or speaks is above them and the same for both.
//
//   library     the devices of this machine
//     port      one port of one device, opened: protection domain, limits, asynchronous events
//       region      registered memory
//       queue_pair  a reliable connected QP with a completion queue of its own
//
// Calls that can fail return 0 or an errno value and, in `what`, the verbs call that failed: a sentence
// is made of them by the caller, who knows the peer and the purpose. Nothing throws, locks or waits.
// A port and what is made from it belong to one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ef::verbs {

using gid_bytes = std::array<uint8_t, 16>;

struct failure {
    int error = 0;  // errno; 0: none
    const char* what = "";
    explicit operator bool() const noexcept { return error != 0; }
};

struct region {
    std::byte* begin = nullptr;
    size_t bytes = 0;
    uint32_t lkey = 0, rkey = 0;
    void* handle = nullptr;  // the implementation's
};

enum class opcode : uint8_t {
    write,
    write_imm,
    read,
    send,
    send_imm,
    fetch_add,
    compare_swap,
    receive,
    receive_imm
};

struct piece {
    const std::byte* data = nullptr;
    uint32_t bytes = 0;
    uint32_t lkey = 0;  // not looked at when the request is inline
};

struct send_request {
    uint64_t id = 0;
    opcode op = opcode::write;
    bool signalled = false;
    bool inline_data = false;
    bool fence = false;
    uint32_t pieces = 0;
    struct piece at[2];
    uint32_t imm = 0;
    uint32_t rkey = 0;
    uint64_t remote = 0;
    uint64_t operand = 0, swap = 0;  // fetch_add: addend; compare_swap: compare, swap
};

struct receive_request {
    uint64_t id = 0;
    std::byte* data = nullptr;  // null: takes an immediate value only
    uint32_t bytes = 0;
    uint32_t lkey = 0;
};

struct completion {
    uint64_t id = 0;
    opcode op = opcode::write;
    bool has_imm = false;
    uint32_t imm = 0;
    uint32_t bytes = 0;   // received
    uint32_t status = 0;  // of ibv_wc_status; 0: success
    uint32_t vendor = 0;
};

/// What the other end must know of a QP.
struct qp_address {
    uint32_t number = 0;
    uint32_t psn = 0;
    uint16_t lid = 0;
    gid_bytes gid{};
};

struct qp_depths {
    uint32_t send = 128, receive = 128;
    uint32_t inline_bytes = 0;
    uint32_t reads = 1;  // RDMA READ and atomics under way at a time, each way
};

/// How a connection behaves, agreed by both ends where it must be.
struct qp_settings {
    uint32_t mtu = 1024;  // bytes: 256, 512, 1024, 2048 or 4096
    bool global = true;   // routed by GID (always on Ethernet)
    uint8_t service_level = 0;
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 64;
    uint32_t flow_label =
        0;  // RoCE v2: the UDP source port is derived from it; 0: the device's choice
    uint8_t timeout = 14;  // 4.096 us * 2^timeout
    uint8_t retries = 7;
    uint8_t rnr_timer = 12;
    uint8_t rnr_retries = 7;
};

class queue_pair {
public:
    virtual ~queue_pair() = default;
    virtual uint32_t number() const noexcept = 0;
    virtual uint32_t inline_bytes() const noexcept = 0;  // what the device granted
    virtual failure connect(const qp_address& peer, uint32_t own_psn,
                            const qp_settings& s) noexcept = 0;
    /// To the error state: what was posted completes as flushed, and the peer's packets are refused.
    virtual failure stop() noexcept = 0;
    /// Posts from the front; `posted` says how many were taken.
    virtual failure post(const send_request* r, size_t n, size_t& posted) noexcept = 0;
    virtual failure post(const receive_request* r, size_t n, size_t& posted) noexcept = 0;
    /// At most `n` completions, of both queues.
    virtual size_t poll(completion* c, size_t n) noexcept = 0;

    /// Becomes readable when a completion has come since arm().
    virtual int event_fd() const noexcept = 0;
    virtual failure arm() noexcept = 0;
    /// Take the events that have come; true if there were any.
    virtual bool disarm() noexcept = 0;
};

struct port_limits {
    uint64_t max_mr_bytes = 0;
    uint32_t max_qp = 0, max_cq = 0, max_mr = 0, max_cqe = 0, max_qp_wr = 0, max_sge = 0,
             max_reads = 0;
};

struct port_state {
    bool active = false;
    uint32_t active_mtu = 1024;
    uint16_t lid = 0;
    bool ethernet = true;
};

/// An asynchronous event of the device: `type` is ibv_event_type's value.
struct async_event {
    uint32_t type = 0;
    uint32_t port = 0;       // 0: the whole device, or a QP
    uint32_t qp_number = 0;  // 0: none
};

class port {
public:
    virtual ~port() = default;
    virtual const port_limits& limits() const noexcept = 0;
    virtual port_state state() const noexcept = 0;
    virtual failure add(region& r, bool relaxed_ordering) noexcept = 0;
    virtual void remove(region& r) noexcept = 0;
    virtual failure make(const qp_depths& d, uint8_t gid_index,
                         std::unique_ptr<queue_pair>& q) noexcept = 0;
    virtual int event_fd() const noexcept = 0;
    virtual bool next_event(async_event& e) noexcept = 0;
};

class library {
public:
    virtual ~library() = default;
    virtual failure open(const char* device, uint8_t port_number,
                         std::unique_ptr<port>& p) noexcept = 0;
};

/// What the module exports as `ef_verbs_module`. `abi` is the first member for ever: a core that does
/// not find its own number there leaves the module alone.
struct module_entry {
    uint32_t abi;
    const char* version;                     // eflops' own
    library* (*get)(failure* why) noexcept;  // lives as long as the module; null with the reason
};
constexpr uint32_t module_abi = 1;

}  // namespace ef::verbs
