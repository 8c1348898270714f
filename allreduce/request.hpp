// request: one operation that a caller has started: a collective, which waits its turn in the
// communicator's queue, or a send or receive, which waits in its peer's. Requests are pooled; a
// handle is a pointer to one.
#pragma once

#include "allreduce/exec.hpp"
#include "transport/base/status.hpp"

#include <eflops/allreduce.h>

namespace ef {
class comm;

/// What was called, for error texts and flight records.
struct call_site {
    const char* what = "";  // "allreduce"
    uint64_t number = 0;    // of this kind of operation on this communicator, from 1
    uint64_t count = 0;
    ef_type_t type = EF_FLOAT32;
    ef_op_t op = EF_SUM;
    rank_t root_or_peer = -1;
    const char* algorithm = "";

    /// "allreduce #12 of 1024 float32"
    std::string text() const;
};

const char* type_name(ef_type_t type) noexcept;

}  // namespace ef

struct ef_request {
    ef::comm* owner = nullptr;
    ef::call_site site;
    ef::status result;
    bool finished = false;
    ef_request* next = nullptr;  // in its queue, or in the pool

    // collective
    ef::exec_call call;
    ef_collective_t coll = EF_ALLREDUCE;  // as it is planned: a barrier is an allreduce
    bool in_place = false;
    uint32_t plan_version = 0;

    // point to point
    std::byte* buffer = nullptr;
    uint64_t bytes = 0, done = 0;
    uint64_t ticket = 0;  // sending: of the last message posted
    uint64_t fetched =
        0;  // receiving: bytes of the message at the head that have been brought here
    bool started = false;
    bool sending = false;
    int flight_slot = -1;
};

namespace ef {
using request = ef_request;

/// A first-in-first-out list of requests that owns nothing.
class request_queue {
public:
    bool empty() const noexcept { return !head_; }
    request* front() const noexcept { return head_; }
    void push(request* r) noexcept {
        r->next = nullptr;
        if (head_) tail_->next = r;
        else head_ = r;
        tail_ = r;
    }
    request* pop() noexcept {
        request* r = head_;
        head_ = r->next;
        r->next = nullptr;
        return r;
    }

private:
    request* head_ = nullptr;
    request* tail_ = nullptr;
};

}  // namespace ef
