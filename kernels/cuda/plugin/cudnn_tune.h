/* A cuDNN plan as the files of the plug-in see it, and measuring several. */
#ifndef DPX_CUDNN_TUNE_H
#define DPX_CUDNN_TUNE_H

#include "kernels/cuda/plugin/cudnn.h"

enum { CUDNN_CANDIDATES = 6 };

typedef struct {
    GpuPlan plan;                       /* first: a GpuPlan of cuDNN is a CudnnPlan */
    CudnnDescriptor execution;
    bool shared;                        /* execution belongs to the device */
    int n;
    int64_t id[CUDNN_BINDINGS];
    CudnnBinding bind[CUDNN_BINDINGS];
    size_t own, workspace;              /* bytes of BIND_WORKSPACE tensors; these and, after them, cuDNN's own */
} CudnnPlan;

/* Runs each a few times on memory of its own and gives the fastest; one that fails is left out. */
Status cudnn_fastest(CudnnPlan **out, CudnnPlan *const *plan, int n) CHECKED;

#endif
