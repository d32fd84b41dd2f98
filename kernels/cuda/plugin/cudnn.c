/* cuDNN of one device: the handle, or for a described device the properties that stand for it.
 *
 * With properties (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, cuDNN 9.8 and newer) heuristics answer and plans are built as
 * for the device itself; only executing one needs it. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/plugin/cudnn.h"

/* Blocks that a multiprocessor holds at once, by compute capability: CUDA programming guide, table of technical
 * specifications. */
static int blocks_per_multiprocessor(int capability)
{
    return capability == 86 || capability == 87 ? 16 : capability == 89 ? 24 : 32;
}

/* The properties as cuDNN 9 reads them.  A value that GpuInfo lacks is the same on every device since compute
 * capability 8.0, except the clocks, which only weigh arithmetic against memory: a typical pair. */
static int properties_json(char *text, size_t size, const GpuInfo *p)
{
    return snprintf(text, size,
                    "{\"deviceVer\":%d,\"smVersion\":%d,\"deviceName\":\"%s\",\"cudaDeviceId\":0,\"pciDeviceId\":0,"
                    "\"driverVer\":%d,"
                    "\"totalGlobalMem\":%lld,\"l2CacheSize\":%lld,\"multiProcessorCount\":%d,\"warpSize\":%d,"
                    "\"maxThreadsPerBlock\":%d,\"maxThreadsPerSM\":%d,\"maxCtasPerSM\":%d,"
                    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
                    "\"regsPerBlock\":65536,\"maxRegistersPerSM\":65536,\"maxSharedMemoryPerBlock\":49152,"
                    "\"maxSharedMemoryPerBlockOptin\":%lld,\"reservedSharedMemoryPerBlock\":1024,"
                    "\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":1700000,\"memClockRateKHz\":2000000}",
                    p->capability * 10, p->capability * 10, p->name, CUDART_VERSION, (long long)p->memory,
                    (long long)p->l2, p->multiprocessors, p->warp_size, p->max_threads_per_block,
                    p->max_threads_per_multiprocessor, blocks_per_multiprocessor(p->capability),
                    (long long)p->shared_per_block);
}

static Status cudnn_describe(CudnnState *c, const GpuInfo *info)
{
    char text[1024];
    int n = properties_json(text, sizeof text, info);
    cudnnStatus_t e;

    if (n >= (int)sizeof text)
        return FAIL(E_INTERNAL, "cuDNN: the description of %s is too long", info->name);
    if ((e = cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &c->described)))
        return cudnn_failed(e, "creating", "device properties");
    if ((e = cudnnBackendSetAttribute(c->described, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, n,
                                      text)))
        return cudnn_failed(e, "setting", "DEVICEPROP_JSON_REPRESENTATION");
    if ((e = cudnnBackendFinalize(c->described)))
        return cudnn_failed(e, "finalizing", "device properties");
    return ST_OK;
}

static const char in_this_library;

/* cuDNN asks the driver, by dlopen("libcuda.so.1"), to load engines that it compiled at run time.  Where there is no
 * driver its stand-in is loaded from beside the plug-in, and found by that name from then on: such engines are built
 * too, and only running them needs a device.  Without either they are not offered. */
static void load_driver(void)
{
    char path[PATH_MAX];
    const char *end;
    Dl_info at;

    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) || !dladdr(&in_this_library, &at) || !at.dli_fname)
        return;
    end = strrchr(at.dli_fname, '/');
    snprintf(path, sizeof path, "%.*s%s", end ? (int)(end - at.dli_fname + 1) : 0, at.dli_fname,
             "libdpexec_nodriver.so");
    (void)dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void close_cudnn(GpuDevice *d)
{
    CudnnExecution *e, *next;

    for (e = d->cudnn->made; e; e = next) {
        next = e->next;
        cudnnBackendDestroyDescriptor(e->plan);
        free(e);
    }
    if (d->cudnn->described)
        cudnnBackendDestroyDescriptor(d->cudnn->described);
    if (d->cudnn->handle)
        cudnnDestroy(d->cudnn->handle);
    free(d->cudnn);
    d->cudnn = NULL;
}

static Status create_handle(GpuDevice *d)
{
    TRY(device_use(d));
    TRY_CUDNN(d, cudnnCreate(&d->cudnn->handle));
    return ST_OK;
}

Status cudnn_open(GpuDevice *d)
{
    Status st;

    if (d->cudnn)
        return ST_OK;
    if (!(d->cudnn = calloc(1, sizeof *d->cudnn)))
        return FAIL_NOMEM();
    if (d->index < 0)
        load_driver();
    st = d->index < 0 ? cudnn_describe(d->cudnn, &d->info) : create_handle(d);
    if (st) {
        close_cudnn(d);
        return st;
    }
    return device_on_close(d, close_cudnn);
}
