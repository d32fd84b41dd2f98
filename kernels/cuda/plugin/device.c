/* Devices: the driver's, with their properties, and those that are only described.
 *
 * A described device has no driver behind it: it plans and compiles, and whatever would run fails with a message. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/plugin/plugin.h"

/* The runtime says "insufficient driver" also when there is none at all. */
static Status no_driver(cudaError_t e)
{
    int driver = 0, runtime = 0;

    (void)cudaGetLastError();
    if (e == cudaErrorNoDevice)
        return FAIL(E_DEVICE, "the NVIDIA driver sees no GPU (CUDA_VISIBLE_DEVICES may hide them)");
    if (cudaDriverGetVersion(&driver) || !driver)
        return FAIL(E_DEVICE, "no NVIDIA driver: libcuda.so.1 could not be loaded (%s)", cudaGetErrorName(e));
    if (cudaRuntimeGetVersion(&runtime) || driver >= runtime)
        return FAIL(E_DEVICE, "CUDA could not start: %s (%s)", cudaGetErrorString(e), cudaGetErrorName(e));
    return FAIL(E_DEVICE, "the NVIDIA driver knows CUDA %d.%d, expected at least %d.%d", driver / 1000,
                driver / 10 % 100, runtime / 1000, runtime / 10 % 100);
}

Status device_count(int *out)
{
    int n = 0;
    cudaError_t e = cudaGetDeviceCount(&n);

    if (e != cudaSuccess)
        return no_driver(e);
    *out = n;
    return ST_OK;
}

static Status check_index(int index)
{
    int n;

    TRY(device_count(&n));
    if (index < 0 || index >= n)
        return FAIL(E_DEVICE, "cuda:%d: expected a device below %d", index, n);
    return ST_OK;
}

Status device_info(GpuInfo *out, int index)
{
    struct cudaDeviceProp p;
    GpuInfo info = { 0 };

    TRY(check_index(index));
    TRY_CUDART(NULL, cudaGetDeviceProperties(&p, index));
    snprintf(info.name, sizeof info.name, "%.*s", GPU_NAME - 1, p.name);
    TRY_CUDART(NULL, cudaDeviceGetPCIBusId(info.bus_id, sizeof info.bus_id, index));
    TRY_CUDART(NULL, cudaDriverGetVersion(&info.driver));
    info.capability = p.major * 10 + p.minor;
    info.multiprocessors = p.multiProcessorCount;
    info.warp_size = p.warpSize;
    info.max_threads_per_block = p.maxThreadsPerBlock;
    info.max_threads_per_multiprocessor = p.maxThreadsPerMultiProcessor;
    info.memory = (int64_t)p.totalGlobalMem;
    info.l2 = p.l2CacheSize;
    info.shared_per_block = (int64_t)p.sharedMemPerBlockOptin;
    info.shared_per_multiprocessor = (int64_t)p.sharedMemPerMultiprocessor;
    *out = info;
    return ST_OK;
}

Status device_use(const GpuDevice *d)
{
    if (d->index < 0)
        return FAIL(E_DEVICE, "%s (%s): it is only described, nothing can run on it", d->label, d->info.name);
    TRY_CUDART(d, cudaSetDevice(d->index));
    return ST_OK;
}

bool device_frees(const GpuDevice *d) { return !d->abandoned && cudaSetDevice(d->index) == cudaSuccess; }

static Status copy_text(char **out, const char *text)
{
    if (text && !(*out = strdup(text)))
        return FAIL_NOMEM();
    return ST_OK;
}

static Status device_describe(GpuDevice *d, const GpuOptions *opt)
{
    d->index = -1;
    d->info = *opt->described;
    snprintf(d->label, sizeof d->label, "described GPU");
    TRY(copy_text(&d->description, opt->description));
    return kernels_open(d);
}

/* Makes the device's context, so that a fault of the device shows here. */
static Status device_attach(GpuDevice *d, int index)
{
    TRY(device_info(&d->info, index));
    d->index = index;
    snprintf(d->label, sizeof d->label, "cuda:%d", index);
    TRY(device_use(d));
    TRY_CUDART(d, cudaFree(NULL));
    return kernels_open(d);
}

Status device_open(GpuDevice **out, int index, const GpuOptions *opt)
{
    GpuDevice *d = calloc(1, sizeof *d);
    Status st;

    if (!d)
        return FAIL_NOMEM();
    d->tf32 = opt && opt->tf32;
    d->tune = opt && opt->tune;
    d->exact = opt && opt->exact;
    TRY_TO(fail, st, copy_text(&d->cache_dir, opt ? opt->cache_dir : NULL));
    TRY_TO(fail, st, opt && opt->described ? device_describe(d, opt) : device_attach(d, index));
    *out = d;
    return ST_OK;
fail:
    device_close(d);
    return st;
}

void device_close(GpuDevice *d)
{
    if (!d || d->abandoned)
        return;
    if (d->index >= 0)
        (void)cudaSetDevice(d->index);
    while (d->closing) {
        CloseHook *hook = d->closing;

        d->closing = hook->next;
        hook->close(d);
        free(hook);
    }
    kernels_close(d);
    free(d->cache_dir);
    free(d->description);
    free(d);
}

void device_abandon(GpuDevice *d) { d->abandoned = true; }

Status device_free_memory(GpuDevice *d, int64_t *out)
{
    size_t available, total;

    TRY(device_use(d));
    TRY_CUDART(d, cudaMemGetInfo(&available, &total));
    *out = (int64_t)available;
    return ST_OK;
}

Status device_on_close(GpuDevice *d, void (*close)(GpuDevice *d))
{
    CloseHook *hook = malloc(sizeof *hook);

    if (!hook) {
        close(d);
        return FAIL_NOMEM();
    }
    *hook = (CloseHook){ d->closing, close };
    d->closing = hook;
    return ST_OK;
}
