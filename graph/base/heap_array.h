/* Arrays on the heap that grow by doubling.  Arrays that live as long as a graph grow in its arena (arena_grow). */
#ifndef DPX_BASE_HEAP_ARRAY_H
#define DPX_BASE_HEAP_ARRAY_H

#include <stddef.h>

/* Makes room for `wanted` elements of `size` bytes in an array that has `*room`, and returns its new address.  Returns
 * `p` if there is room; NULL when out of memory, and the array stays valid.  The caller frees it. */
void *heap_reserve(void *p, size_t size, size_t wanted, size_t *room);

#endif
