// The C face of communicators and collectives: argument checks that need no communicator, and
// guard().
#include "allreduce/comm.hpp"
#include "allreduce/describe.hpp"

#include <fmt/format.h>

#include <cstring>

struct ef_comm {
    std::unique_ptr<ef::comm> impl;
    ef::describer text;  // strings that ef_comm_peer and ef_comm_plan have handed out
};

namespace {

using ef::comm;
using ef::request;
using ef::result;
using ef::status;
using collective_call = comm::collective_call;

status need(bool given, const char* function, const char* what) {
    if (given) return {};
    return status(EF_INVALID, fmt::format("{}: {} is NULL", function, what));
}

/// Start with `f`, which returns result<request*>, and wait.
template <class F>
ef_status_t blocking(const char* name, ef_comm_t c, F&& f) noexcept {
    return ef::guard([&]() -> status {
        if (status s = need(c, name, "comm"); !s.ok()) return s;
        result<request*> r = f(*c->impl);
        return r.ok() ? c->impl->wait(*r) : r.why();
    });
}

/// Start with `f` and hand the request out.
template <class F>
ef_status_t starting(const char* name, ef_comm_t c, ef_request_t* request_p, F&& f) noexcept {
    return ef::guard([&]() -> status {
        if (status s = need(c, name, "comm"); !s.ok()) return s;
        if (status s = need(request_p, name, "request_p"); !s.ok()) return s;
        result<request*> r = f(*c->impl);
        if (r.ok()) *request_p = *r;
        return r.why();
    });
}

ef_status_t create(ef_comm_t* comm_p, const char* name, auto&& make) noexcept {
    return ef::guard([&]() -> status {
        if (status s = need(comm_p, name, "comm_p"); !s.ok()) return s;
        result<std::unique_ptr<comm>> made = make();
        if (!made.ok()) return made.why().in(name);
        *comm_p = *made ? new ef_comm{std::move(*made), {}} : nullptr;
        return {};
    });
}

template <class T>
status sized(const T* p, const char* name) {
    if (status s = need(p, name, "info_p"); !s.ok()) return s;
    if (p->size == sizeof(T)) return {};
    return status(EF_INVALID,
                  fmt::format("{}: info_p->size is {}, not {}", name, p->size, sizeof(T)));
}

}  // namespace

extern "C" {

size_t ef_type_size(ef_type_t type) {
    switch (type) {
    case EF_INT8:
    case EF_UINT8:
        return 1;
    case EF_FLOAT16:
    case EF_BFLOAT16:
        return 2;
    case EF_FLOAT32:
    case EF_INT32:
    case EF_UINT32:
        return 4;
    case EF_FLOAT64:
    case EF_INT64:
    case EF_UINT64:
        return 8;
    }
    return 0;
}

// ---------------------------------------------------------------- communicators

ef_status_t ef_comm_create(int rank, int nranks, const ef_comm_options* opt, ef_comm_t* comm_p) {
    return create(comm_p, "ef_comm_create", [&] { return comm::create(rank, nranks, opt); });
}

ef_status_t ef_comm_split(ef_comm_t c, int color, int key, ef_comm_t* comm_p) {
    if (ef_status_t s = ef::report(need(c, "ef_comm_split", "comm"))) return s;
    return create(comm_p, "ef_comm_split", [&] { return c->impl->split(color, key); });
}

ef_status_t ef_comm_destroy(ef_comm_t c) {
    return ef::guard([&]() -> status {
        if (!c) return {};
        status s = c->impl->finish();
        delete c;
        return s;
    });
}

ef_status_t ef_comm_resteer(ef_comm_t c) {
    return ef::guard([&]() -> status {
        if (status s = need(c, "ef_comm_resteer", "comm"); !s.ok()) return s;
        status s = c->impl->resteer();
        return s.ok() ? s : s.in("ef_comm_resteer");
    });
}

ef_status_t ef_comm_abort(ef_comm_t c) {
    return ef::guard([&]() -> status {
        if (status s = need(c, "ef_comm_abort", "comm"); !s.ok()) return s;
        c->impl->abort();
        return {};
    });
}

ef_status_t ef_comm_rank(ef_comm_t c, int* rank_p) {
    return ef::guard([&]() -> status {
        if (status s = need(c && rank_p, "ef_comm_rank", c ? "rank_p" : "comm"); !s.ok()) return s;
        *rank_p = c->impl->rank();
        return {};
    });
}

ef_status_t ef_comm_size(ef_comm_t c, int* nranks_p) {
    return ef::guard([&]() -> status {
        if (status s = need(c && nranks_p, "ef_comm_size", c ? "nranks_p" : "comm"); !s.ok())
            return s;
        *nranks_p = c->impl->nranks();
        return {};
    });
}

// ---------------------------------------------------------------- collectives

ef_status_t ef_allreduce(const void* in, void* out, size_t count, ef_type_t type, ef_op_t op,
                         ef_comm_t c) {
    return blocking("ef_allreduce", c, [&](comm& x) {
        return x.start({EF_ALLREDUCE, in, out, count, type, op, 0});
    });
}

ef_status_t ef_reduce_scatter(const void* in, void* out, size_t count, ef_type_t type, ef_op_t op,
                              ef_comm_t c) {
    return blocking("ef_reduce_scatter", c, [&](comm& x) {
        return x.start({EF_REDUCE_SCATTER, in, out, count, type, op, 0});
    });
}

ef_status_t ef_allgather(const void* in, void* out, size_t count, ef_type_t type, ef_comm_t c) {
    return blocking("ef_allgather", c, [&](comm& x) {
        return x.start({EF_ALLGATHER, in, out, count, type, EF_SUM, 0});
    });
}

ef_status_t ef_broadcast(const void* in, void* out, size_t count, ef_type_t type, int root,
                         ef_comm_t c) {
    return blocking("ef_broadcast", c, [&](comm& x) {
        return x.start({EF_BROADCAST, in, out, count, type, EF_SUM, root});
    });
}

ef_status_t ef_barrier(ef_comm_t c) {
    return blocking("ef_barrier", c, [&](comm& x) { return x.start_barrier(); });
}

ef_status_t ef_send(const void* buf, size_t count, ef_type_t type, int peer, ef_comm_t c) {
    return blocking("ef_send", c, [&](comm& x) {
        return x.start_p2p(true, const_cast<void*>(buf), count, type, peer);
    });
}

ef_status_t ef_recv(void* buf, size_t count, ef_type_t type, int peer, ef_comm_t c) {
    return blocking("ef_recv", c,
                    [&](comm& x) { return x.start_p2p(false, buf, count, type, peer); });
}

ef_status_t ef_iallreduce(const void* in, void* out, size_t count, ef_type_t type, ef_op_t op,
                          ef_comm_t c, ef_request_t* request_p) {
    return starting("ef_iallreduce", c, request_p, [&](comm& x) {
        return x.start({EF_ALLREDUCE, in, out, count, type, op, 0});
    });
}

ef_status_t ef_ireduce_scatter(const void* in, void* out, size_t count, ef_type_t type, ef_op_t op,
                               ef_comm_t c, ef_request_t* request_p) {
    return starting("ef_ireduce_scatter", c, request_p, [&](comm& x) {
        return x.start({EF_REDUCE_SCATTER, in, out, count, type, op, 0});
    });
}

ef_status_t ef_iallgather(const void* in, void* out, size_t count, ef_type_t type, ef_comm_t c,
                          ef_request_t* request_p) {
    return starting("ef_iallgather", c, request_p, [&](comm& x) {
        return x.start({EF_ALLGATHER, in, out, count, type, EF_SUM, 0});
    });
}

ef_status_t ef_ibroadcast(const void* in, void* out, size_t count, ef_type_t type, int root,
                          ef_comm_t c, ef_request_t* request_p) {
    return starting("ef_ibroadcast", c, request_p, [&](comm& x) {
        return x.start({EF_BROADCAST, in, out, count, type, EF_SUM, root});
    });
}

ef_status_t ef_ibarrier(ef_comm_t c, ef_request_t* request_p) {
    return starting("ef_ibarrier", c, request_p, [&](comm& x) { return x.start_barrier(); });
}

ef_status_t ef_isend(const void* buf, size_t count, ef_type_t type, int peer, ef_comm_t c,
                     ef_request_t* request_p) {
    return starting("ef_isend", c, request_p, [&](comm& x) {
        return x.start_p2p(true, const_cast<void*>(buf), count, type, peer);
    });
}

ef_status_t ef_irecv(void* buf, size_t count, ef_type_t type, int peer, ef_comm_t c,
                     ef_request_t* request_p) {
    return starting("ef_irecv", c, request_p,
                    [&](comm& x) { return x.start_p2p(false, buf, count, type, peer); });
}

ef_status_t ef_test(ef_request_t* r, int* done_p) {
    return ef::guard([&]() -> status {
        if (status s = need(r && done_p, "ef_test", r ? "done_p" : "request"); !s.ok()) return s;
        bool done = true;
        status s;
        if (*r) s = (*r)->owner->test(*r, done);
        if (done) *r = nullptr;
        *done_p = done;
        return s;
    });
}

ef_status_t ef_wait(ef_request_t* r) {
    return ef::guard([&]() -> status {
        if (status s = need(r, "ef_wait", "request"); !s.ok()) return s;
        if (!*r) return {};
        request* taken = std::exchange(*r, nullptr);
        return taken->owner->wait(taken);
    });
}

// ---------------------------------------------------------------- descriptions

ef_status_t ef_comm_plan(ef_comm_t c, ef_collective_t coll, size_t count, ef_type_t type,
                         ef_op_t op, int shared_memory, ef_plan_info* info_p) {
    return ef::guard([&]() -> status {
        if (status s = need(c, "ef_comm_plan", "comm"); !s.ok()) return s;
        if (status s = sized(info_p, "ef_comm_plan"); !s.ok()) return s;
        return c->text.plan(*c->impl, {coll, nullptr, nullptr, count, type, op, 0},
                            shared_memory != 0, *info_p);
    });
}

ef_status_t ef_comm_explain(ef_comm_t c, ef_collective_t coll, size_t count, ef_type_t type,
                            int shared_memory, char* out, size_t bytes, size_t* needed_p) {
    return ef::guard([&]() -> status {
        if (status s = need(c, "ef_comm_explain", "comm"); !s.ok()) return s;
        if (status s = need(out || !bytes, "ef_comm_explain", "out"); !s.ok()) return s;
        result<std::string> text = c->text.explain(
            *c->impl, {coll, nullptr, nullptr, count, type, EF_SUM, 0}, shared_memory != 0);
        if (!text.ok()) return text.why();
        if (needed_p) *needed_p = text->size();
        if (!bytes) return {};
        const size_t n = std::min(bytes - 1, text->size());
        memcpy(out, text->data(), n);
        out[n] = 0;
        return {};
    });
}

ef_status_t ef_comm_peer(ef_comm_t c, int rank, ef_peer_info* info_p) {
    return ef::guard([&]() -> status {
        if (status s = need(c, "ef_comm_peer", "comm"); !s.ok()) return s;
        if (status s = sized(info_p, "ef_comm_peer"); !s.ok()) return s;
        if (rank < 0 || rank >= c->impl->nranks())
            return status(EF_INVALID,
                          fmt::format("ef_comm_peer: rank {} of {}", rank, c->impl->nranks()));
        return c->text.peer(*c->impl, rank, *info_p);
    });
}

}  // extern "C"
