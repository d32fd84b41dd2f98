/* The functions are the process's, as malloc is: what one trainer took another handle may free.  They cannot change
 * once memory was taken, so that each piece goes back to where it came from. */
#include "graph/base/host_memory.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef enum { UNUSED, SETTING, GIVEN, OWN } Source;

static struct {
    atomic_int source; /* a Source */
    HostAlloc *alloc;
    HostFree *release;
    void *user;
} host_allocator;

Status host_set_allocator(HostAlloc *alloc, HostFree *release, void *user)
{
    int expected = UNUSED;

    if (!atomic_compare_exchange_strong(&host_allocator.source, &expected, SETTING))
        return FAIL(E_INVALID, expected == OWN ? "dpx_set_allocator: memory was allocated before; call it first"
                                               : "dpx_set_allocator: an allocator is set already");
    host_allocator.alloc = alloc;
    host_allocator.release = release;
    host_allocator.user = user;
    atomic_store(&host_allocator.source, GIVEN);
    return ST_OK;
}

/* Decides where memory comes from, for good, when it is first asked for. */
static Source decided(void)
{
    int source = atomic_load(&host_allocator.source);

    if (source == UNUSED && atomic_compare_exchange_strong(&host_allocator.source, &source, OWN))
        return OWN;
    while (source == SETTING) {
        sched_yield();
        source = atomic_load(&host_allocator.source);
    }
    return (Source)source;
}

bool host_memory_is_given(void) { return decided() == GIVEN; }

void *host_alloc(size_t alignment, size_t bytes)
{
    return decided() == GIVEN ? host_allocator.alloc(host_allocator.user, alignment, bytes)
                              : aligned_alloc(alignment, bytes);
}

void host_free(void *memory)
{
    if (memory && decided() == GIVEN)
        host_allocator.release(host_allocator.user, memory);
    else
        free(memory);
}
