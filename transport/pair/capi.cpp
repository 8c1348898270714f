// The C face of pairs and endpoints: argument checks, guard(), and the translation of works. The
// two enumerations are those of rdma::op and rdma::outcome, number by number.
#include "transport/pair/pair.hpp"

#include <eflops/transport.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <vector>

struct ef_listener {
    std::unique_ptr<ef::pair_listener> impl;
};
struct ef_pair {
    std::unique_ptr<ef::pair> impl;
    std::optional<ef::bytes> waiting;  // a blob that did not fit its buffer
};
struct ef_endpoint {
    std::unique_ptr<ef::rdma::endpoint> impl;
    std::vector<ef::rdma::region> regions;
};

namespace {

using ef::deadline;
using ef::result;
using ef::status;
namespace rdma = ef::rdma;

static_assert(EF_WORK_COMPARE_SWAP == int(rdma::op::compare_swap) &&
              EF_WORK_RECEIVE_IMM == int(rdma::op::receive_imm) &&
              EF_WORK_FLUSHED == int(rdma::outcome::flushed) &&
              EF_WORK_REMOTE_ACCESS == int(rdma::outcome::remote_access));

constexpr size_t batch = 32;  // works translated at a time

status need(const void* given, const char* function, const char* what) {
    if (given) return {};
    return status(EF_INVALID, fmt::format("{}: {} is NULL", function, what));
}

template <class T>
status sized(const T* p, const char* function) {
    if (status s = need(p, function, "struct"); !s.ok()) return s;
    if (p->size == sizeof(T)) return {};
    return status(EF_INVALID, fmt::format("{}: size is {}, not {}", function, p->size, sizeof(T)));
}

result<ef::config> settings(const ef_pair_options* o, const char* function) {
    result<ef::config> c = ef::read_config();
    if (!c.ok() || !o) return c;
    if (status s = sized(o, function); !s.ok()) return s;
    if (o->key) c->key = o->key;
    return c;
}

rdma::work translate(const ef_work& w) noexcept {
    rdma::work r;
    r.id = w.id;
    r.what = rdma::op(w.op);
    r.signalled = !(w.flags & EF_WORK_UNSIGNALLED);
    r.inlined = (w.flags & EF_WORK_INLINE) != 0;
    r.imm = w.imm;
    r.local = static_cast<std::byte*>(w.local);
    r.bytes = w.bytes;
    r.remote_address = w.remote_address;
    r.lkey = w.lkey;
    r.rkey = w.rkey;
    r.operand = w.operand;
    r.compare = w.compare;
    return r;
}

rdma::receive translate(const ef_receive& r) noexcept {
    return {r.id, static_cast<std::byte*>(r.local), r.bytes, r.lkey};
}

/// Post an array of C works or receives, `batch` at a time, with `post`.
template <class To, class From, class F>
status post_all(const char* function, ef_endpoint_t e, const From* from, size_t count,
                size_t* taken_p, F&& post) {
    if (status s = need(e, function, "endpoint"); !s.ok()) return s;
    if (status s = need(taken_p, function, "taken_p"); !s.ok()) return s;
    if (count)
        if (status s = sized(from, function); !s.ok()) return s;
    size_t taken = 0;
    while (taken < count) {
        To some[batch];
        const size_t n = std::min(batch, count - taken);
        for (size_t i = 0; i < n; ++i) some[i] = translate(from[taken + i]);
        const size_t done = post(*e->impl, std::span<const To>(some, n));
        taken += done;
        if (done < n) break;
    }
    *taken_p = taken;
    return taken == count ? status() : e->impl->error();
}

}  // namespace

extern "C" {

ef_status_t ef_listener_create(const char* address, const ef_pair_options* opt,
                               ef_listener_t* listener_p) {
    return ef::guard([&]() -> status {
        if (status s = need(listener_p, "ef_listener_create", "listener_p"); !s.ok()) return s;
        const int given = opt ? opt->listen_fd : 0;
        if (given <= 0)
            if (status s = need(address, "ef_listener_create", "address"); !s.ok()) return s;
        const result<ef::config> c = settings(opt, "ef_listener_create");
        if (!c.ok()) return c.why();
        auto l = ef::pair_listener::open(*c, address ? address : "", given);
        if (!l.ok()) return l.why();
        *listener_p = new ef_listener{std::move(*l)};
        return {};
    });
}

const char* ef_listener_address(ef_listener_t listener) {
    return listener ? listener->impl->address().c_str() : "";
}

ef_status_t ef_listener_accept(ef_listener_t listener, uint32_t timeout_ms, ef_pair_t* pair_p) {
    return ef::guard([&]() -> status {
        if (status s = need(listener, "ef_listener_accept", "listener"); !s.ok()) return s;
        if (status s = need(pair_p, "ef_listener_accept", "pair_p"); !s.ok()) return s;
        auto p = listener->impl->accept(deadline::in_ms(timeout_ms));
        if (!p.ok()) return p.why();
        *pair_p = new ef_pair{std::move(*p), {}};
        return {};
    });
}

ef_status_t ef_listener_destroy(ef_listener_t listener) {
    return ef::guard([&]() -> status {
        delete listener;
        return {};
    });
}

ef_status_t ef_pair_connect(const char* address, const ef_pair_options* opt, uint32_t timeout_ms,
                            ef_pair_t* pair_p) {
    return ef::guard([&]() -> status {
        if (status s = need(address, "ef_pair_connect", "address"); !s.ok()) return s;
        if (status s = need(pair_p, "ef_pair_connect", "pair_p"); !s.ok()) return s;
        const result<ef::config> c = settings(opt, "ef_pair_connect");
        if (!c.ok()) return c.why();
        auto p = ef::pair::connect(*c, address, deadline::in_ms(timeout_ms));
        if (!p.ok()) return p.why();
        *pair_p = new ef_pair{std::move(*p), {}};
        return {};
    });
}

ef_status_t ef_pair_peer(ef_pair_t pair, ef_pair_info* info_p) {
    return ef::guard([&]() -> status {
        if (status s = need(pair, "ef_pair_peer", "pair"); !s.ok()) return s;
        if (status s = sized(info_p, "ef_pair_peer"); !s.ok()) return s;
        const ef::pair& p = *pair->impl;
        info_p->host = p.peer().host.c_str();
        info_p->address = p.address().c_str();
        info_p->pid = p.peer().pid;
        info_p->same_host = p.same_host();
        return {};
    });
}

ef_status_t ef_pair_send(ef_pair_t pair, const void* data, size_t bytes) {
    return ef::guard([&]() -> status {
        if (status s = need(pair, "ef_pair_send", "pair"); !s.ok()) return s;
        if (bytes)
            if (status s = need(data, "ef_pair_send", "data"); !s.ok()) return s;
        if (bytes > ef::max_frame_bytes)
            return status(EF_INVALID, fmt::format("ef_pair_send: {} bytes, at most {}", bytes,
                                                  ef::max_frame_bytes));
        return pair->impl->send({static_cast<const std::byte*>(data), bytes});
    });
}

ef_status_t ef_pair_receive(ef_pair_t pair, void* buf, size_t capacity, uint32_t timeout_ms,
                            size_t* bytes_p) {
    ef_status_t nothing_yet = EF_OK;
    const ef_status_t s = ef::guard([&]() -> status {
        if (status n = need(pair, "ef_pair_receive", "pair"); !n.ok()) return n;
        if (status n = need(bytes_p, "ef_pair_receive", "bytes_p"); !n.ok()) return n;
        if (!pair->waiting) {
            auto r = pair->impl->receive(deadline::in_ms(timeout_ms));
            if (!r.ok()) return r.why();
            pair->waiting = std::move(*r);
        }
        if (!pair->waiting) {
            if (timeout_ms == 0) return nothing_yet = EF_IN_PROGRESS, status();
            return status(EF_TIMEOUT, fmt::format("{}: nothing heard for {} ms",
                                                  pair->impl->peer().host, timeout_ms));
        }
        *bytes_p = pair->waiting->size();
        if (*bytes_p > capacity)
            return status(EF_INVALID, fmt::format("ef_pair_receive: {} bytes for a buffer of {}",
                                                  *bytes_p, capacity));
        if (*bytes_p) memcpy(buf, pair->waiting->data(), *bytes_p);
        pair->waiting.reset();
        return {};
    });
    return s == EF_OK ? nothing_yet : s;
}

ef_status_t ef_pair_destroy(ef_pair_t pair) {
    return ef::guard([&]() -> status {
        delete pair;
        return {};
    });
}

ef_status_t ef_endpoint_open(ef_pair_t pair, const char* transport, uint32_t timeout_ms,
                             ef_endpoint_t* endpoint_p) {
    return ef::guard([&]() -> status {
        if (status s = need(pair, "ef_endpoint_open", "pair"); !s.ok()) return s;
        if (status s = need(endpoint_p, "ef_endpoint_open", "endpoint_p"); !s.ok()) return s;
        auto e = pair->impl->open(transport ? transport : "", deadline::in_ms(timeout_ms));
        if (!e.ok()) return e.why();
        *endpoint_p = new ef_endpoint{std::move(*e), {}};
        return {};
    });
}

ef_status_t ef_endpoint_describe(ef_endpoint_t endpoint, ef_endpoint_info* info_p) {
    return ef::guard([&]() -> status {
        if (status s = need(endpoint, "ef_endpoint_describe", "endpoint"); !s.ok()) return s;
        if (status s = sized(info_p, "ef_endpoint_describe"); !s.ok()) return s;
        const rdma::limits& l = endpoint->impl->bounds();
        *info_p = {sizeof(*info_p),   endpoint->impl->medium().c_str(),
                   l.max_outstanding, l.max_receives,
                   l.max_reads,       l.max_inline,
                   l.max_message};
        return {};
    });
}

ef_status_t ef_endpoint_register(ef_endpoint_t endpoint, void* ptr, size_t bytes,
                                 ef_region_info* info_p) {
    return ef::guard([&]() -> status {
        if (status s = need(endpoint, "ef_endpoint_register", "endpoint"); !s.ok()) return s;
        if (status s = need(ptr, "ef_endpoint_register", "ptr"); !s.ok()) return s;
        if (status s = sized(info_p, "ef_endpoint_register"); !s.ok()) return s;
        endpoint->regions.reserve(endpoint->regions.size() + 1);
        const auto r = endpoint->impl->enrol(static_cast<std::byte*>(ptr), bytes);
        if (!r.ok()) return r.why();
        endpoint->regions.push_back(*r);
        *info_p = {sizeof(*info_p), r->address, r->lkey, r->rkey};
        return {};
    });
}

ef_status_t ef_endpoint_deregister(ef_endpoint_t endpoint, uint32_t lkey) {
    return ef::guard([&]() -> status {
        if (status s = need(endpoint, "ef_endpoint_deregister", "endpoint"); !s.ok()) return s;
        auto& all = endpoint->regions;
        const auto r = std::find_if(all.begin(), all.end(),
                                    [&](const rdma::region& x) { return x.lkey == lkey; });
        if (r == all.end())
            return status(
                EF_INVALID,
                fmt::format("ef_endpoint_deregister: lkey {:#x} is not registered", lkey));
        endpoint->impl->withdraw(*r);
        all.erase(r);
        return {};
    });
}

ef_status_t ef_endpoint_post(ef_endpoint_t endpoint, const ef_work* works, size_t count,
                             size_t* taken_p) {
    return ef::guard([&]() -> status {
        return post_all<rdma::work>(
            "ef_endpoint_post", endpoint, works, count, taken_p,
            [](rdma::endpoint& e, std::span<const rdma::work> w) { return e.post(w); });
    });
}

ef_status_t ef_endpoint_post_receive(ef_endpoint_t endpoint, const ef_receive* receives,
                                     size_t count, size_t* taken_p) {
    return ef::guard([&]() -> status {
        return post_all<rdma::receive>(
            "ef_endpoint_post_receive", endpoint, receives, count, taken_p,
            [](rdma::endpoint& e, std::span<const rdma::receive> r) { return e.post_receive(r); });
    });
}

ef_status_t ef_endpoint_poll(ef_endpoint_t endpoint, ef_completion* completions, size_t capacity,
                             size_t* count_p) {
    return ef::guard([&]() -> status {
        if (status s = need(endpoint, "ef_endpoint_poll", "endpoint"); !s.ok()) return s;
        if (status s = need(count_p, "ef_endpoint_poll", "count_p"); !s.ok()) return s;
        if (capacity)
            if (status s = sized(completions, "ef_endpoint_poll"); !s.ok()) return s;
        rdma::endpoint& e = *endpoint->impl;
        e.progress();
        size_t n = 0;
        while (n < capacity) {
            rdma::completion some[batch];
            const size_t room = std::min(batch, capacity - n);
            const size_t got = e.poll({some, room});
            for (size_t i = 0; i < got; ++i)
                completions[n + i] = {sizeof(ef_completion), some[i].id,
                                      some[i].bytes,         uint32_t(some[i].what),
                                      uint32_t(some[i].how), some[i].imm};
            n += got;
            if (got < room) break;
        }
        *count_p = n;
        return n == 0 && capacity ? e.error() : status();
    });
}

ef_status_t ef_endpoint_close(ef_endpoint_t endpoint) {
    return ef::guard([&]() -> status {
        delete endpoint;
        return {};
    });
}

}  // extern "C"
