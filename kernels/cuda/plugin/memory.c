/* Memory of the device and pinned memory of the host, zeroed; copies within streams. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/plugin/plugin.h"

/* "cuda:0: 12.0 GiB do not fit: 3.1 of 79.1 GiB are free". */
static Status too_big(const GpuDevice *d, size_t bytes)
{
    const double gib = 1024.0 * 1024.0 * 1024.0;
    size_t available = 0, total = 0;

    (void)cudaGetLastError();
    (void)cudaMemGetInfo(&available, &total);
    return FAIL(E_NOMEM, "%s: %.3f GiB (%zu bytes) do not fit: %.3f of %.3f GiB are free", d->label,
                (double)bytes / gib, bytes, (double)available / gib, (double)total / gib);
}

/* Streams of ours do not wait for the legacy stream that zeroes, so the host does. */
Status memory_clear(const GpuDevice *d, void *p, size_t bytes)
{
    TRY_CUDART(d, cudaMemset(p, 0, bytes));
    TRY_CUDART(d, cudaStreamSynchronize(cudaStreamLegacy));
    return ST_OK;
}

Status memory_alloc(GpuDevice *d, void **out, size_t bytes)
{
    size_t n = bytes ? bytes : 1; /* of no bytes too there is an address */
    cudaError_t e;
    Status st;
    void *p;

    TRY(device_use(d));
    e = cudaMalloc(&p, n);
    if (e == cudaErrorMemoryAllocation)
        return too_big(d, bytes);
    TRY(cudart_check(d, "cudaMalloc", e));
    if ((st = memory_clear(d, p, n))) {
        (void)cudaFree(p);
        return st;
    }
    *out = p;
    return ST_OK;
}

void memory_free(GpuDevice *d, void *p)
{
    if (p && device_frees(d))
        (void)cudaFree(p);
}

/* Portable and mapped: any device copies from it, and kernels read it at the same address. */
Status memory_host_alloc(GpuDevice *d, void **out, size_t bytes)
{
    size_t n = bytes ? bytes : 1;
    void *p;

    TRY(device_use(d));
    TRY_CUDART(d, cudaHostAlloc(&p, n, cudaHostAllocPortable | cudaHostAllocMapped));
    *out = memset(p, 0, n);
    return ST_OK;
}

void memory_host_free(GpuDevice *d, void *p)
{
    if (p && device_frees(d))
        (void)cudaFreeHost(p);
}

Status memory_zero(GpuStream *s, void *p, size_t bytes)
{
    TRY(device_use(s->device));
    if (bytes)
        TRY_CUDART(s->device, cudaMemsetAsync(p, 0, bytes, s->stream));
    return ST_OK;
}

Status memory_copy(GpuStream *s, void *to, const void *from, size_t bytes)
{
    TRY(device_use(s->device));
    if (bytes)
        TRY_CUDART(s->device, cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s->stream));
    return ST_OK;
}

Status memory_copy_rows(GpuStream *s, void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                        size_t rows)
{
    TRY(device_use(s->device));
    if (width && rows)
        TRY_CUDART(s->device,
                   cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, width, rows, cudaMemcpyDefault, s->stream));
    return ST_OK;
}

/* By the bits of an element: without the sign, above those of an infinity. */
static bool is_nan(const unsigned char *element, DType t)
{
    uint64_t infinity = t == DT_FLOAT64   ? 0x7ff0000000000000
                        : t == DT_FLOAT32 ? 0x7f800000
                        : t == DT_FLOAT16 ? 0x7c00
                                          : 0x7f80;
    uint64_t magnitude = t == DT_FLOAT64 ? INT64_MAX : t == DT_FLOAT32 ? INT32_MAX : INT16_MAX, bits = 0;

    memcpy(&bits, element, dtype_size(t)); /* hosts of GPUs are little-endian */
    return (bits & magnitude) > infinity;
}

Status memory_all_nan(bool *out, GpuStream *s, const void *p, size_t bytes, DType t)
{
    unsigned char *copy = malloc(bytes ? bytes : 1);
    Status st = copy ? ST_OK : FAIL_NOMEM();

    if (!st)
        st = memory_copy(s, copy, p, bytes);
    if (!st)
        st = stream_wait(s);
    *out = !st;
    for (size_t i = 0; !st && i < bytes; i += dtype_size(t))
        *out = *out && is_nan(copy + i, t);
    free(copy);
    return st;
}
