/* eflops/allreduce.h: communicators and collectives.
 *
 * Threads. Different communicators may be used by different threads at the same time. On one
 * communicator the calls that start an operation must be made in the same order on every rank, so
 * one thread at a time; test and wait may be called from any thread.
 *
 * Buffers. `count` is in elements. A send buffer is only read; it must not change, and a receive
 * buffer must not be read or written, until the operation is complete. Any ordinary pointer is
 * allowed, aligned to its type.
 *
 * Results are the same bits on every rank, and the same bits again for the same inputs, ranks and
 * plan. float16 and bfloat16 are added in float32. Integer sums and products wrap; the integer
 * average truncates toward zero.
 *
 * Deadlines. An operation that makes no progress for timeout_ms fails with EF_TIMEOUT and names
 * whom it waited for. After any failure of an operation the communicator only repeats that error,
 * until it is destroyed.
 */
#ifndef EFLOPS_ALLREDUCE_H
#define EFLOPS_ALLREDUCE_H

#include <eflops/eflops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ef_comm* ef_comm_t;
typedef struct ef_request* ef_request_t;

typedef enum ef_type {
    EF_FLOAT32 = 0,
    EF_FLOAT64 = 1,
    EF_FLOAT16 = 2,  /* IEEE 754 binary16 */
    EF_BFLOAT16 = 3, /* upper half of a float32 */
    EF_INT8 = 4,
    EF_INT32 = 5,
    EF_INT64 = 6,
    EF_UINT8 = 7,
    EF_UINT32 = 8,
    EF_UINT64 = 9
} ef_type_t;

typedef enum ef_op { EF_SUM = 0, EF_PROD = 1, EF_MIN = 2, EF_MAX = 3, EF_AVG = 4 } ef_op_t;

/* Bytes of one element; 0 if `type` is none of the above. */
EF_API size_t ef_type_size(ef_type_t type);

#define EF_FROM_LAUNCHER (-1)

/* A zeroed struct with `size` set means "decide for me" throughout. Strings are copied. */
typedef struct ef_comm_options {
    size_t size;         /* sizeof(ef_comm_options): new fields go at the end */
    uint32_t timeout_ms; /* 0: EFLOPS_TIMEOUT_MS */
    int32_t listen_fd; /* rank 0 only: a listening TCP socket to use for `root`; 0 or less: none */
    const char* root;  /* "host:port" where rank 0 listens; NULL: EFLOPS_ROOT or the launcher's */
    const char* key;   /* the job's key, at least 16 characters; NULL: EFLOPS_KEY, EFLOPS_KEY_FILE,
                          launcher */
    const char* transport;  /* "auto", "shm", "tcp", "verbs"; NULL: EFLOPS_TRANSPORT */
    const char* interface_; /* interface name, address or prefix for tcp; NULL: EFLOPS_INTERFACE */
    const char*
        algorithm; /* force one, e.g. "ring"; NULL: EFLOPS_ALGORITHM, else the planner's choice */
    size_t chunk_bytes; /* force the pipelining unit; 0: EFLOPS_CHUNK_BYTES, else the planner's
                           choice */
    const char* fabric; /* fabric file or generator; NULL: EFLOPS_FABRIC, else the network is not
                           known */
    const char* sync;   /* between rounds: "auto", "none", "pair", "barrier"; NULL: EFLOPS_SYNC */
    const char* steer;  /* choose tcp source ports by the way they take: "off", "trace", "on"; NULL:
                           EFLOPS_STEER */
} ef_comm_options;

/* Join `nranks` ranks as `rank`. Both EF_FROM_LAUNCHER: take them from what started the program
 * (PMIx, PMI, Slurm, torchrun, EFLOPS_RANK/EFLOPS_NRANKS); a program that nothing launched is rank
 * 0 of 1. `opt` may be NULL. Blocks until all have joined or the timeout passes, and then names the
 * ranks that are missing. On EF_OK *comm_p is the caller's (ef_comm_destroy); otherwise it is
 * untouched. */
EF_API ef_status_t ef_comm_create(int rank, int nranks, const ef_comm_options* opt,
                                  ef_comm_t* comm_p);

/* Split `comm` into one communicator per `color` (>= 0), ranks ordered by `key`, then by old rank.
 * Collective over `comm`; blocking. A negative color takes part and gets NULL. */
EF_API ef_status_t ef_comm_split(ef_comm_t comm, int color, int key, ef_comm_t* comm_p);

/* Finish outstanding requests (bounded by the timeout) and free the communicator. Not collective:
 * peers that have not called it yet are told. After a failure it frees at once. NULL is allowed. */
EF_API ef_status_t ef_comm_destroy(ef_comm_t comm);

/* Make all pending and later calls on `comm`, here and on every other rank, return EF_ABORTED
 * (except that a call there whose messages have all arrived may still succeed first). Does
 * not block, any thread; the handle stays valid until ef_comm_destroy. */
EF_API ef_status_t ef_comm_abort(ef_comm_t comm);

/* With EFLOPS_STEER=on: probe again and choose the source ports of this communicator's connections
 * anew, after the network has changed. Collective, blocking, while no operation is pending
 * (EF_INVALID). A communicator that knows its fabric does it by itself when it sees a path move. */
EF_API ef_status_t ef_comm_resteer(ef_comm_t comm);

EF_API ef_status_t ef_comm_rank(ef_comm_t comm, int* rank_p);
EF_API ef_status_t ef_comm_size(ef_comm_t comm, int* nranks_p);

/* Blocking collectives. In place: recvbuf == sendbuf (allreduce, broadcast); recvbuf == sendbuf +
 * rank * count elements (reduce_scatter); sendbuf == recvbuf + rank * count elements (allgather).
 * Other overlaps are EF_INVALID. allreduce       sendbuf[count]           -> recvbuf[count] on
 * every rank reduce_scatter  sendbuf[nranks * count]  -> recvbuf[count]           rank r gets block
 * r of the result allgather       sendbuf[count]           -> recvbuf[nranks * count] broadcast
 * sendbuf[count] of root   -> recvbuf[count]           sendbuf is ignored on other ranks */
EF_API ef_status_t ef_allreduce(const void* sendbuf, void* recvbuf, size_t count, ef_type_t type,
                                ef_op_t op, ef_comm_t comm);
EF_API ef_status_t ef_reduce_scatter(const void* sendbuf, void* recvbuf, size_t count,
                                     ef_type_t type, ef_op_t op, ef_comm_t comm);
EF_API ef_status_t ef_allgather(const void* sendbuf, void* recvbuf, size_t count, ef_type_t type,
                                ef_comm_t comm);
EF_API ef_status_t ef_broadcast(const void* sendbuf, void* recvbuf, size_t count, ef_type_t type,
                                int root, ef_comm_t comm);
EF_API ef_status_t ef_barrier(ef_comm_t comm);

/* Blocking point to point. The i-th send to a rank meets the i-th recv from it, independently of
 * collectives; a shorter or longer message is EF_MISMATCH. A send may wait for its recv. */
EF_API ef_status_t ef_send(const void* buf, size_t count, ef_type_t type, int peer, ef_comm_t comm);
EF_API ef_status_t ef_recv(void* buf, size_t count, ef_type_t type, int peer, ef_comm_t comm);

/* The same without blocking. On EF_OK *request_p must be finished with ef_wait, or ef_test that
 * says done. */
EF_API ef_status_t ef_iallreduce(const void* sendbuf, void* recvbuf, size_t count, ef_type_t type,
                                 ef_op_t op, ef_comm_t comm, ef_request_t* request_p);
EF_API ef_status_t ef_ireduce_scatter(const void* sendbuf, void* recvbuf, size_t count,
                                      ef_type_t type, ef_op_t op, ef_comm_t comm,
                                      ef_request_t* request_p);
EF_API ef_status_t ef_iallgather(const void* sendbuf, void* recvbuf, size_t count, ef_type_t type,
                                 ef_comm_t comm, ef_request_t* request_p);
EF_API ef_status_t ef_ibroadcast(const void* sendbuf, void* recvbuf, size_t count, ef_type_t type,
                                 int root, ef_comm_t comm, ef_request_t* request_p);
EF_API ef_status_t ef_ibarrier(ef_comm_t comm, ef_request_t* request_p);
EF_API ef_status_t ef_isend(const void* buf, size_t count, ef_type_t type, int peer, ef_comm_t comm,
                            ef_request_t* request_p);
EF_API ef_status_t ef_irecv(void* buf, size_t count, ef_type_t type, int peer, ef_comm_t comm,
                            ef_request_t* request_p);

/* Make progress once and say whether *request is done (*done_p 0 or 1). When done, or failed, the
 * request is freed and *request set to NULL. A NULL request is done. */
EF_API ef_status_t ef_test(ef_request_t* request, int* done_p);

/* Wait until *request is done; then it is freed and *request set to NULL, also on failure. */
EF_API ef_status_t ef_wait(ef_request_t* request);

typedef enum ef_collective {
    EF_ALLREDUCE = 0,
    EF_REDUCE_SCATTER = 1,
    EF_ALLGATHER = 2,
    EF_BROADCAST = 3,
    EF_BARRIER = 4
} ef_collective_t;

/* What the planner would do. Bytes are this rank's. Strings live as long as the communicator. */
typedef struct ef_plan_info {
    size_t size;           /* set to sizeof(ef_plan_info) by the caller */
    const char* algorithm; /* "ring" */
    const char* medium;    /* "shm", "tcp", "shm+tcp" */
    uint32_t rounds;
    uint32_t transfers; /* messages this rank sends, before chunking */
    uint64_t chunk_bytes;
    double predicted_us; /* time of the operation by the cost model */
    double limit_us;     /* time if only the measured copy or link bandwidth counted */
    uint64_t bytes_sent; /* handed to transports */
    uint64_t bytes_read; /* read from memory by this rank, all copies counted */
    uint64_t bytes_written;
} ef_plan_info;

/* Fill *info_p for `coll` of `count` elements (as the collective counts them), for memory of
 * ef_mem_alloc if `shared_memory` is not 0. Local, blocking only while the plan is built. */
EF_API ef_status_t ef_comm_plan(ef_comm_t comm, ef_collective_t coll, size_t count, ef_type_t type,
                                ef_op_t op, int shared_memory, ef_plan_info* info_p);

/* Write the candidates with their predicted times and why one was taken, as text, into out[bytes]
 * (always ended by a 0 byte); *needed_p (may be NULL) is the full length without it. */
EF_API ef_status_t ef_comm_explain(ef_comm_t comm, ef_collective_t coll, size_t count,
                                   ef_type_t type, int shared_memory, char* out, size_t bytes,
                                   size_t* needed_p);

/* Who rank `rank` is. Strings live as long as the communicator. */
typedef struct ef_peer_info {
    size_t size; /* set to sizeof(ef_peer_info) by the caller */
    int32_t pid;
    const char* host;
    const char* medium; /* how this rank reaches it: "self", "shm", "tcp:eth0" */
} ef_peer_info;
EF_API ef_status_t ef_comm_peer(ef_comm_t comm, int rank, ef_peer_info* info_p);

#ifdef __cplusplus
}
#endif
#endif
