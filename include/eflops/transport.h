/* eflops/transport.h: memory that the transports reach without a copy. */
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

#ifdef __cplusplus
}
#endif
#endif
