/* Large memory of the host: arenas, tensors and memory of CPU devices.  It comes from the system, or from the embedding
 * program's own functions (dpx_set_allocator). */
#ifndef DPX_HOST_MEMORY_H
#define DPX_HOST_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "graph/base/status.h"

typedef void *HostAlloc(void *user, size_t alignment, size_t bytes);
typedef void HostFree(void *user, void *memory);

/* Sets the functions.  E_INVALID once memory was taken, or functions were set. */
Status host_set_allocator(HostAlloc *alloc, HostFree *release, void *user) CHECKED;
/* `bytes`, at least 1, at an address that is a multiple of `alignment`, a power of 2 that divides `bytes`; NULL: none
 * is left, without a message. */
void *host_alloc(size_t alignment, size_t bytes);
void host_free(void *memory); /* NULL is legal */
/* Whether the embedding program gives the memory. */
bool host_memory_is_given(void);

#endif
