/* eflops/eflops.h: status codes, version, logger. The first header of libeflops.
 *
 * Every function of the library returns an ef_status_t unless its comment says otherwise, never
 * prints, never exits, and leaves its output arguments untouched when it fails. After a failure
 * ef_last_error() has the sentence that goes with the code, for the calling thread.
 */
#ifndef EFLOPS_EFLOPS_H
#define EFLOPS_EFLOPS_H

#include <stddef.h>
#include <stdint.h>

#define EF_API __attribute__((visibility("default")))

#define EF_VERSION_MAJOR 0
#define EF_VERSION_MINOR 1
#define EF_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* What a call came to. The groups say what is lost for good, so that a caller knows what to
 * destroy. */
typedef enum ef_status {
    EF_OK = 0,
    EF_IN_PROGRESS = 1, /* a request has not finished: not a failure */

    /* Nothing is lost: mend the cause and call again. */
    EF_INVALID = -1,     /* an argument or a configuration value is not acceptable */
    EF_UNSUPPORTED = -2, /* this build, machine or transport cannot do it */
    EF_NO_MEMORY = -3,
    EF_NO_RESOURCE = -4, /* a limit of the system: descriptors, ports, shared memory */

    /* The communicator is lost: destroy it. Send buffers are unchanged, receive buffers undefined.
     */
    EF_PEER_LOST = -32,   /* a rank died or its connection broke; the text names rank, host, pid */
    EF_TIMEOUT = -33,     /* no progress within timeout_ms; the text names who was waited for */
    EF_ABORTED = -34,     /* ef_comm_abort was called here or on another rank */
    EF_AUTH_FAILED = -35, /* the other end does not hold the job's key */
    EF_MISMATCH = -36,    /* ranks called different collectives, or with different arguments */

    /* The machine's part in it is lost. */
    EF_SYSTEM = -64 /* a system call failed; the text has its name and errno */
} ef_status_t;

/* The name of a code ("EF_TIMEOUT"); static storage. Any thread. */
EF_API const char* ef_status_name(ef_status_t status);

/* The sentence of this thread's last failed call, "" if none has failed. The storage is the
 * thread's and is overwritten by its next failing call. */
EF_API const char* ef_last_error(void);

/* The version of the library that is loaded, as "0.1.0". Static storage. Any thread. */
EF_API const char* ef_version(void);

/* Who can read a message, from the rarest to the commonest. */
typedef enum ef_log_level {
    EF_LOG_ERROR = 0, /* it failed */
    EF_LOG_WARN = 1,  /* it works, worse than it should */
    EF_LOG_INFO = 2,  /* once per object */
    EF_LOG_DEBUG = 3  /* once per event */
} ef_log_level_t;

/* Called with one line without its newline, from any thread that calls the library, never
 * concurrently. */
typedef void (*ef_log_fn)(void* arg, ef_log_level_t level, const char* line);

/* Send log lines to `fn` (NULL: back to standard error). Holds for the process; any thread. */
EF_API ef_status_t ef_set_logger(ef_log_fn fn, void* arg);

#ifdef __cplusplus
}
#endif
#endif
