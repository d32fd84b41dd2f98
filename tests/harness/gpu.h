/* The CUDA driver under test: the plug-in that $DPX_TEST_CUDA names, else the simulation of the build folder
 * (tests/sim). */
#ifndef DPX_TEST_GPU_H
#define DPX_TEST_GPU_H

#include "kernels/cuda/driver.h"

/* The file; lives as long as the process. */
const char *gpu_plugin(void);
/* Loaded by the first call of the process. */
Status gpu_driver(const CudaDriver **out) CHECKED;

/* Device 0 with a stream, opened by the first call of the process and kept. */
typedef struct {
    const CudaDriver *driver;
    GpuDevice *device;
    GpuStream *stream;
} TestGpu;
Status gpu_get(const TestGpu **out) CHECKED;

/* The driver's failure as ours. */
Status gpu_check(const CudaDriver *d, Status st) CHECKED;
#define TRY_GPU(gpu, call) TRY(gpu_check((gpu)->driver, (gpu)->driver->call))

/* Copies and waits. */
Status gpu_copy(const TestGpu *gpu, void *to, const void *from, size_t bytes) CHECKED;

#endif
