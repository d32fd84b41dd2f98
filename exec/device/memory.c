/* Memory of devices.  Pages of a CPU device come from the system and are touched first by its own thread, so they lie
 * on that thread's node of the machine.  Memory of an accelerator comes from its runtime, and is filled and read in the
 * order of the device's own stream. */
#include "exec/device/memory.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "graph/base/host_memory.h"

enum {
    HUGE_FROM = 2 << 20,
    PAGE = 4096,
    TEAM_FROM = 16 /* pieces of HUGE_FROM bytes that are worth waking a team for */
};

typedef struct {
    char *at;
    size_t bytes;
    bool zeroed;
} Pages;

/* A DeviceJob; `arg` is a Pages.  The system zeroes a page when it is touched, which takes most of the time of a large
 * allocation, so all threads of the device touch pages. */
static Status touch(Device *d, void *arg)
{
    const Pages p = *(const Pages *)arg;
    const int64_t chunks = (int64_t)((p.bytes + HUGE_FROM - 1) / HUGE_FROM);

    (void)d;
#pragma omp parallel for schedule(static, 1) if (chunks >= TEAM_FROM)
    for (int64_t i = 0; i < chunks; i++) {
        char *at = p.at + i * HUGE_FROM;
        const size_t left = p.bytes - (size_t)(i * HUGE_FROM), bytes = left < HUGE_FROM ? left : HUGE_FROM;

        if (!p.zeroed)
            memset(at, 0, bytes);
        else
            for (size_t k = 0; k < bytes; k += PAGE)
                *(volatile char *)(at + k) = 0;
    }
    return ST_OK;
}

/* Zeroed pages for a CPU device. */
static Status open_pages(void **out, Device *d, size_t bytes)
{
    const bool given = host_memory_is_given();
    char *at = given ? host_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE)
                     : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    Pages pages = { .at = at, .bytes = bytes, .zeroed = !given };
    Status st;

    if (!at || at == MAP_FAILED)
        return FAIL(E_NOMEM, "%s: cannot allocate %zu bytes", device_name(d), bytes);
    if (!given && bytes >= HUGE_FROM)
        (void)madvise(at, bytes, MADV_HUGEPAGE); /* advice: pages may be small all the same */
    device_start(d, touch, &pages);
    if ((st = device_wait(d)))
        memory_close(d, at, bytes);
    else
        *out = at;
    return st;
}

Status memory_open(void **out, Device *d, size_t bytes)
{
    const Runtime *r = device_runtime(d);

    *out = NULL;
    if (!bytes)
        return ST_OK;
    return r ? device_check(d, r->alloc(device_gpu(d), out, bytes)) : open_pages(out, d, bytes);
}

void memory_close(Device *d, void *p, size_t bytes)
{
    if (p && device_runtime(d))
        device_runtime(d)->free(device_gpu(d), p);
    else if (p && host_memory_is_given())
        host_free(p);
    else if (p)
        munmap(p, bytes);
}

/* ---- contents ---- */

/* Copies once all earlier work on the device's stream has ended.  A copy from or to pageable memory may block the host
 * until it ends; waiting with device_sync first has a timeout. */
static Status transfer(Device *d, void *to, const void *from, size_t bytes)
{
    const Runtime *r = device_runtime(d);

    if (!bytes)
        return ST_OK;
    if (!r) {
        memcpy(to, from, bytes);
        return ST_OK;
    }
    TRY(device_sync(d));
    TRY(device_check(d, r->copy(device_stream(d), to, from, bytes)));
    return device_sync(d);
}

Status memory_write(Device *d, void *to, const void *from_host, size_t bytes)
{
    return transfer(d, to, from_host, bytes);
}
Status memory_read(Device *d, void *to_host, const void *from, size_t bytes)
{
    return transfer(d, to_host, from, bytes);
}

Status memory_zero(Device *d, void *p, size_t bytes)
{
    const Runtime *r = device_runtime(d);

    if (!bytes)
        return ST_OK;
    if (!r) {
        memset(p, 0, bytes);
        return ST_OK;
    }
    TRY(device_check(d, r->zero(device_stream(d), p, bytes)));
    return device_sync(d);
}

/* Two accelerators may be unable to reach each other, so copies between them go through the host. */
Status memory_copy(Device *to_device, void *to, Device *from_device, const void *from, size_t bytes)
{
    void *between;
    Status st;

    if (!device_runtime(from_device))
        return memory_write(to_device, to, from, bytes);
    if (!device_runtime(to_device) || to_device == from_device)
        return memory_read(from_device, to, from, bytes);
    if (!(between = malloc(bytes ? bytes : 1)))
        return FAIL_NOMEM();
    st = memory_read(from_device, between, from, bytes);
    if (!st)
        st = memory_write(to_device, to, between, bytes);
    free(between);
    return st;
}

/* ---- arenas ---- */

Status arenas_reserve(Arenas *a, int device, size_t bytes)
{
    if (bytes <= a->bytes[device])
        return ST_OK;
    memory_close(a->device[device], a->base[device], a->bytes[device]);
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
        if (!a->device[d])
            continue;
        memory_close(a->device[d], a->base[d], a->bytes[d]);
        a->base[d] = NULL;
        a->bytes[d] = 0;
    }
}
