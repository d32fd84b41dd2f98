/* One driver and one device for all tests of a program. */
#include "tests/harness/gpu.h"

#include <dlfcn.h>
#include <stdlib.h>

Status gpu_check(const CudaDriver *d, Status st) { return st ? FAIL(st, "%s", d->runtime.message()) : ST_OK; }

const char *gpu_plugin(void)
{
    const char *given = getenv("DPX_TEST_CUDA");

    return given && *given ? given : BUILD_DIR "/libdpexec_cudasim.so";
}

Status gpu_driver(const CudaDriver **out)
{
    const char *path = gpu_plugin();
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CudaDriverEntry *entry;

    if (!library)
        return FAIL(E_DEVICE, "%s", dlerror());
    *(void **)&entry = dlsym(library, CUDA_DRIVER_SYMBOL);
    if (!entry || entry()->runtime.abi != RUNTIME_ABI)
        return FAIL(E_DEVICE, "%s is no driver of version %d", path, RUNTIME_ABI);
    *out = entry();
    return ST_OK;
}

Status gpu_get(const TestGpu **out)
{
    static TestGpu gpu;
    const char *cache = getenv("DPEXEC_CACHE_DIR");
    const GpuOptions options = { .tf32 = false, .cache_dir = cache && *cache ? cache : NULL };

    if (!gpu.stream) {
        TRY(gpu_driver(&gpu.driver));
        TRY_GPU(&gpu, runtime.open(&gpu.device, 0, &options));
        TRY_GPU(&gpu, runtime.stream_create(gpu.device, &gpu.stream, false));
    }
    *out = &gpu;
    return ST_OK;
}

Status gpu_copy(const TestGpu *gpu, void *to, const void *from, size_t bytes)
{
    TRY_GPU(gpu, runtime.copy(gpu->stream, to, from, bytes));
    TRY_GPU(gpu, runtime.stream_wait(gpu->stream));
    return ST_OK;
}
