/* cuDNN of one device: the handle, or for a described device the properties that stand for it.
 *
 * With properties (CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, cuDNN 9.8 and newer) heuristics answer and plans are built as
 * for the device itself; only executing one needs it. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/json_writer.h"
#include "kernels/cuda/plugin/cudnn.h"

/* Blocks that a multiprocessor holds at once, by compute capability: CUDA programming guide, table of technical
 * specifications. */
static int blocks_per_multiprocessor(int capability)
{
    return capability == 86 || capability == 87 ? 16 : capability == 89 ? 24 : 32;
}

/* Writes the properties as cuDNN 9 reads them.  A value that GpuInfo lacks is the same on every device since compute
 * capability 8.0, except the clocks, which only weigh arithmetic against memory: a typical pair. */
static void write_properties(FILE *to, const GpuInfo *p)
{
    const struct {
        const char *key;
        int64_t value;
    } number[] = {
        { "deviceVer", p->capability * 10 },
        { "smVersion", p->capability * 10 },
        { "cudaDeviceId", 0 },
        { "pciDeviceId", 0 },
        { "driverVer", CUDART_VERSION },
        { "totalGlobalMem", (int64_t)p->memory },
        { "l2CacheSize", (int64_t)p->l2 },
        { "multiProcessorCount", p->multiprocessors },
        { "warpSize", p->warp_size },
        { "maxThreadsPerBlock", p->max_threads_per_block },
        { "maxThreadsPerSM", p->max_threads_per_multiprocessor },
        { "maxCtasPerSM", blocks_per_multiprocessor(p->capability) },
        { "regsPerBlock", 65536 },
        { "maxRegistersPerSM", 65536 },
        { "maxSharedMemoryPerBlock", 49152 },
        { "maxSharedMemoryPerBlockOptin", (int64_t)p->shared_per_block },
        { "reservedSharedMemoryPerBlock", 1024 },
        { "isTccDriver", 0 },
        { "supportCoopLaunch", 1 },
        { "smClockRateKHz", 1700000 },
        { "memClockRateKHz", 2000000 },
    };
    static const int grid[3] = { INT_MAX, 65535, 65535 }, block[3] = { 1024, 1024, 64 };
    JsonWriter w = { .to = to, .compact = true };

    json_open(&w, NULL, '{');
    json_write_string(&w, "deviceName", p->name);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        json_write_int(&w, number[i].key, number[i].value);
    json_open(&w, "maxGridSize", '[');
    for (int i = 0; i < 3; i++)
        json_write_int(&w, NULL, grid[i]);
    json_close(&w);
    json_open(&w, "maxBlockSize", '[');
    for (int i = 0; i < 3; i++)
        json_write_int(&w, NULL, block[i]);
    json_close(&w);
    json_close(&w);
}

static Status cudnn_describe(CudnnState *c, const GpuInfo *info)
{
    char text[2048];
    FILE *f = fmemopen(text, sizeof text, "w");
    bool whole;
    cudnnStatus_t e;

    if (!f)
        return FAIL_NOMEM();
    write_properties(f, info);
    whole = !fflush(f);
    fclose(f);
    if (!whole)
        return FAIL(E_INTERNAL, "cuDNN: the description of %s is too long", info->name);
    if ((e = cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &c->described)))
        return cudnn_failed(e, "creating", "device properties");
    if ((e = cudnnBackendSetAttribute(c->described, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                      (int64_t)strcspn(text, "\n"), text)))
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
