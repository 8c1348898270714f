/* eflops/transport.h: memory that the transports reach without a copy, and endpoints: RDMA's own
 * words (write, read, send, atomics) between two processes, over whatever lies between them.
 *
 *   server                                           client
 *   ef_listener_create(":18515", ..., &l)
 *   ef_listener_accept(l, ms, &pair)     <-------->  ef_pair_connect("host:18515", ..., &pair)
 *   ef_endpoint_open(pair, "auto", ...)  <-------->  ef_endpoint_open(pair, "tcp", ...)
 *   ef_endpoint_register, ef_pair_send   <-------->  ef_pair_receive: address and rkey
 *   ef_endpoint_poll                     <--------   ef_endpoint_post, ef_endpoint_poll
 *
 * Threads: a listener, its pair and the pair's endpoints are used by one thread at a time.
 */
#ifndef EFLOPS_TRANSPORT_H
#define EFLOPS_TRANSPORT_H

#include <eflops/eflops.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Allocate `bytes` of zeroed memory, page aligned, that ranks of the same host read in place (a
 * memfd) and that network devices can register once. Blocking; any thread. On EF_OK *ptr_p is the
 * caller's, to be given back with ef_mem_free. Errors: EF_INVALID (bytes is 0), EF_NO_MEMORY,
 * EF_NO_RESOURCE. */
EF_API ef_status_t ef_mem_alloc(size_t bytes, void** ptr_p);

/* Give back memory of ef_mem_alloc. No request may be using it. NULL is allowed. Any thread.
 * Errors: EF_INVALID if `ptr` did not come from ef_mem_alloc. */
EF_API ef_status_t ef_mem_free(void* ptr);

/* Tell the transports that [ptr, ptr + bytes) will be used often, so that they can prepare it once
 * (pin, register with a NIC). Optional: any ordinary pointer works without. The memory stays the
 * caller's and must be deregistered before it is freed. Any thread. Errors: EF_INVALID,
 * EF_NO_RESOURCE. */
EF_API ef_status_t ef_mem_register(void* ptr, size_t bytes);
EF_API ef_status_t ef_mem_deregister(void* ptr);

/* ---- two processes that meet without a launcher */

typedef struct ef_listener* ef_listener_t;
typedef struct ef_pair* ef_pair_t;

/* A zeroed struct with `size` set means "decide for me". Strings are copied. */
typedef struct ef_pair_options {
    size_t size;       /* sizeof(ef_pair_options) */
    const char* key;   /* both ends prove that they hold it, 16 characters or more; NULL: EFLOPS_KEY,
                          EFLOPS_KEY_FILE; if those are unset, whoever reaches the port is let in */
    int32_t listen_fd; /* ef_listener_create: a listening TCP socket to use; 0 or less: none */
} ef_pair_options;

/* The other end. Strings live as long as the pair. */
typedef struct ef_pair_info {
    size_t size;
    const char* host;
    const char* address; /* of its end of the control connection */
    int32_t pid;
    int32_t same_host; /* 1: it shares memory with this process */
} ef_pair_info;

/* Listen at "host:port" or ":port" (all addresses; port 0: any). Does not block. On EF_OK
 * *listener_p is the caller's (ef_listener_destroy). Errors: EF_INVALID, EF_NO_RESOURCE, EF_SYSTEM. */
EF_API ef_status_t ef_listener_create(const char* address, const ef_pair_options* opt,
                                      ef_listener_t* listener_p);

/* "0.0.0.0:18515"; lives as long as the listener. */
EF_API const char* ef_listener_address(ef_listener_t listener);

/* Wait for the next client. One at a time: the pair must be destroyed before the next call, and
 * before the listener. Errors: EF_TIMEOUT (none has come), EF_INVALID, EF_PEER_LOST, EF_MISMATCH. */
EF_API ef_status_t ef_listener_accept(ef_listener_t listener, uint32_t timeout_ms,
                                      ef_pair_t* pair_p);

/* Stop listening. NULL is allowed. */
EF_API ef_status_t ef_listener_destroy(ef_listener_t listener);

/* Connect to a listener, trying again until the timeout. Errors: EF_INVALID (address), EF_TIMEOUT
 * (the text says what it met last), EF_AUTH_FAILED, EF_MISMATCH. */
EF_API ef_status_t ef_pair_connect(const char* address, const ef_pair_options* opt,
                                   uint32_t timeout_ms, ef_pair_t* pair_p);

/* Who the other end is. `info_p->size` must be set. */
EF_API ef_status_t ef_pair_peer(ef_pair_t pair, ef_pair_info* info_p);

/* Send `bytes` to the peer's ef_pair_receive. Does not block; the data is copied. Errors:
 * EF_PEER_LOST. */
EF_API ef_status_t ef_pair_send(ef_pair_t pair, const void* data, size_t bytes);

/* The next blob of the peer. *bytes_p is its length; if that is more than `capacity`, EF_INVALID,
 * and the blob stays. Blocks up to `timeout_ms`; then EF_TIMEOUT, or EF_IN_PROGRESS where it is 0.
 * Endpoints make no progress meanwhile. Errors: EF_PEER_LOST. */
EF_API ef_status_t ef_pair_receive(ef_pair_t pair, void* buf, size_t capacity, uint32_t timeout_ms,
                                   size_t* bytes_p);

/* Leave the peer. The pair's endpoints must have been closed. NULL is allowed. */
EF_API ef_status_t ef_pair_destroy(ef_pair_t pair);

/* ---- endpoints */

typedef struct ef_endpoint* ef_endpoint_t;

typedef enum ef_work_op {
    EF_WORK_WRITE = 0,
    EF_WORK_WRITE_IMM = 1,
    EF_WORK_READ = 2,
    EF_WORK_SEND = 3,
    EF_WORK_FETCH_ADD = 4,    /* 64 bit, 8-byte aligned; the old value comes to `local` */
    EF_WORK_COMPARE_SWAP = 5, /* the same */
    EF_WORK_RECEIVE = 6,      /* completions only */
    EF_WORK_RECEIVE_IMM = 7   /* completions only */
} ef_work_op_t;

typedef enum ef_work_status {
    EF_WORK_OK = 0,
    EF_WORK_LOCAL_LENGTH = 1,
    EF_WORK_LOCAL_PROTECTION = 2,
    EF_WORK_REMOTE_ACCESS = 3,
    EF_WORK_REMOTE_INVALID = 4,
    EF_WORK_RNR_EXCEEDED = 5, /* the peer posted no receive in time */
    EF_WORK_PEER_LOST = 6,
    EF_WORK_FLUSHED = 7 /* an earlier failure broke the endpoint */
} ef_work_status_t;

enum { EF_WORK_UNSIGNALLED = 1, EF_WORK_INLINE = 2 };

/* In an array every element has `size` set; it is the array's stride too. */
typedef struct ef_work {
    size_t size;
    uint64_t id;
    uint32_t op;    /* ef_work_op_t */
    uint32_t flags; /* EF_WORK_UNSIGNALLED, EF_WORK_INLINE */
    void* local;    /* source of write and send, otherwise where the result goes */
    size_t bytes;   /* atomics: 8 */
    uint64_t remote_address;
    uint32_t rkey;
    uint32_t lkey;
    uint64_t operand; /* to add, or to swap in */
    uint64_t compare;
    uint32_t imm;
} ef_work;

typedef struct ef_receive {
    size_t size;
    uint64_t id;
    void* local;
    size_t bytes;
    uint32_t lkey;
} ef_receive;

typedef struct ef_completion {
    size_t size;
    uint64_t id;
    uint64_t bytes;
    uint32_t op;     /* ef_work_op_t */
    uint32_t status; /* ef_work_status_t */
    uint32_t imm;
} ef_completion;

typedef struct ef_region_info {
    size_t size;
    uint64_t address; /* what the peer calls the first byte */
    uint32_t lkey;
    uint32_t rkey;
} ef_region_info;

typedef struct ef_endpoint_info {
    size_t size;
    const char* medium; /* "shm", "tcp:eth0"; lives as long as the endpoint */
    size_t max_outstanding;
    size_t max_receives;
    size_t max_reads;
    size_t max_inline;
    size_t max_message;
} ef_endpoint_info;

/* Open one more connection between the two; both ends call it, in the same order. `transport`:
 * "auto", "shm", "tcp"; the client's choice counts, NULL or "auto" on the server agrees to any.
 * Blocks up to `timeout_ms`. Errors: EF_UNSUPPORTED, EF_MISMATCH, EF_TIMEOUT, EF_PEER_LOST. */
EF_API ef_status_t ef_endpoint_open(ef_pair_t pair, const char* transport, uint32_t timeout_ms,
                                    ef_endpoint_t* endpoint_p);
EF_API ef_status_t ef_endpoint_describe(ef_endpoint_t endpoint, ef_endpoint_info* info_p);

/* Make [ptr, ptr + bytes) usable as `local` and by the peer. May block. The memory stays the
 * caller's and is deregistered, by lkey, before it is freed; no work may be using it. */
EF_API ef_status_t ef_endpoint_register(ef_endpoint_t endpoint, void* ptr, size_t bytes,
                                        ef_region_info* info_p);
EF_API ef_status_t ef_endpoint_deregister(ef_endpoint_t endpoint, uint32_t lkey);

/* Post from the front; *taken_p of `count` were taken. Fewer: the queue is full, poll and post the
 * rest. Neither blocks nor allocates, like all that follow. Works are executed and complete in
 * order. `local` stays unchanged until the completion, with EF_WORK_INLINE until the call returns.
 * An unsignalled work completes with a later one, without a completion of its own unless it fails.
 * After a failed work all later ones are flushed, and this returns what broke the endpoint. */
EF_API ef_status_t ef_endpoint_post(ef_endpoint_t endpoint, const ef_work* works, size_t count,
                                    size_t* taken_p);
EF_API ef_status_t ef_endpoint_post_receive(ef_endpoint_t endpoint, const ef_receive* receives,
                                            size_t count, size_t* taken_p);

/* Make progress and take up to `capacity` completions; *count_p may be 0. `completions[0].size`
 * must be set. A failed work is a completion with its status and not a failure of this call, which
 * returns what broke the endpoint once there are no more completions. */
EF_API ef_status_t ef_endpoint_poll(ef_endpoint_t endpoint, ef_completion* completions,
                                    size_t capacity, size_t* count_p);

/* Close it; the peer's end breaks. NULL is allowed. */
EF_API ef_status_t ef_endpoint_close(ef_endpoint_t endpoint);

#ifdef __cplusplus
}
#endif
#endif
