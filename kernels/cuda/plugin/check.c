/* Turns the codes of CUDA's libraries into a Status and a one-line message: device, call, the library's own words. */
#include <stdio.h>
#include <string.h>

#include "kernels/cuda/plugin/plugin.h"

/* "cudaMalloc(&p, n)" is shown as "cudaMalloc". */
static int name_length(const char *call) { return (int)strcspn(call, "("); }

static const char *label(const GpuDevice *d) { return d ? d->label : "CUDA"; }

Status cudart_check(const GpuDevice *device, const char *call, cudaError_t e)
{
    if (e == cudaSuccess)
        return ST_OK;
    (void)cudaGetLastError(); /* the runtime keeps it for the next caller, whose fault it is not */
    return FAIL(e == cudaErrorMemoryAllocation ? E_NOMEM : E_DEVICE, "%s: %.*s: %s (%s)", label(device),
                name_length(call), call, cudaGetErrorString(e), cudaGetErrorName(e));
}

Status cublas_check(const GpuDevice *device, const char *call, cublasStatus_t e)
{
    Status st = e == CUBLAS_STATUS_NOT_SUPPORTED   ? E_UNSUPPORTED
                : e == CUBLAS_STATUS_ALLOC_FAILED  ? E_NOMEM
                : e == CUBLAS_STATUS_INVALID_VALUE ? E_INVALID
                                                   : E_DEVICE;

    if (e == CUBLAS_STATUS_SUCCESS)
        return ST_OK;
    return FAIL(st, "%s: %.*s: %s (%s)", label(device), name_length(call), call, cublasLtGetStatusString(e),
                cublasLtGetStatusName(e));
}

/* cuDNN's last error may be several lines and begin with one more code; it names the cause, so all of it is kept. */
Status cudnn_check(const GpuDevice *device, const char *call, cudnnStatus_t e)
{
    char words[512] = "";
    Status st = e >= CUDNN_STATUS_NOT_SUPPORTED && e < CUDNN_STATUS_INTERNAL_ERROR ? E_UNSUPPORTED
                : e >= CUDNN_STATUS_BAD_PARAM && e < CUDNN_STATUS_NOT_SUPPORTED    ? E_INVALID
                                                                                   : E_DEVICE;

    if (e == CUDNN_STATUS_SUCCESS)
        return ST_OK;
    cudnnGetLastErrorString(words, sizeof words);
    return FAIL(st, "%s: %.*s: %s%s%s", label(device), name_length(call), call, cudnnGetErrorString(e),
                *words ? ": " : "", words);
}

Status nvrtc_check(const char *call, nvrtcResult e)
{
    Status st = e == NVRTC_ERROR_OUT_OF_MEMORY ? E_NOMEM : E_INTERNAL;

    return e == NVRTC_SUCCESS ? ST_OK : FAIL(st, "NVRTC: %.*s: %s", name_length(call), call, nvrtcGetErrorString(e));
}
