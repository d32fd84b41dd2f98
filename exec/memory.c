/* Pages from the system, touched first by the thread that will use them: that thread's node of the machine holds them then. */
#include "exec/memory.h"

#include <string.h>
#include <sys/mman.h>

enum { HUGE_FROM = 2 << 20 };

typedef struct { void *at; size_t bytes; } Range;

static Status touch(Device *d, void *arg)
{
    const Range *r = arg;

    (void)d;
    memset(r->at, 0, r->bytes);
    return ST_OK;
}

Status memory_open(void **out, Device *d, size_t bytes)
{
    Range r = { NULL, bytes };

    if (bytes) {
        r.at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (r.at == MAP_FAILED)
            return FAIL(E_NOMEM, "%s: %zu bytes cannot be had", device_name(d), bytes);
        if (bytes >= HUGE_FROM)
            (void)madvise(r.at, bytes, MADV_HUGEPAGE);      /* a wish: without it the pages are small */
        device_start(d, touch, &r);
        TRY(device_wait(d));
    }
    *out = r.at;
    return ST_OK;
}

void memory_close(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}

Status arenas_reserve(Arenas *a, int device, size_t bytes)
{
    if (bytes <= a->bytes[device])
        return ST_OK;
    memory_close(a->base[device], a->bytes[device]);
    a->base[device] = NULL;
    a->bytes[device] = 0;
    a->generation++;
    TRY(memory_open(&a->base[device], a->device[device], bytes));
    a->bytes[device] = bytes;
    return ST_OK;
}

void arenas_close(Arenas *a)
{
    for (int d = 0; d < a->n_device; d++) {
        memory_close(a->base[d], a->bytes[d]);
        a->base[d] = NULL;
        a->bytes[d] = 0;
    }
}
