/* A cuDNN plan as the files of the plug-in see it, and what is found out by running some: how fast they are, what they
 * make of a NaN. */
#ifndef DPX_CUDNN_TUNE_H
#define DPX_CUDNN_TUNE_H

#include "kernels/cuda/plugin/cudnn.h"

enum { CUDNN_CANDIDATES = 6 };

typedef struct {
    GpuPlan plan; /* first: a GpuPlan of cuDNN is a CudnnPlan */
    CudnnDescriptor execution;
    bool shared; /* execution belongs to the device */
    int n;
    int64_t id[CUDNN_BINDINGS];
    CudnnBinding bind[CUDNN_BINDINGS];
    size_t own, workspace; /* bytes of BIND_WORKSPACE tensors; these and, after them, cuDNN's own */
} CudnnPlan;

/* Zeroed memory for plans of one graph, a stream, and events that measure time.  *b begins with its device alone; close
 * it also after a failure. */
typedef struct {
    GpuDevice *device;
    GpuStream *stream;
    GpuEvent *from, *to;
    void *buffer[CUDNN_BINDINGS], *workspace;
} CudnnBench;
Status cudnn_bench_open(CudnnBench *b, CudnnPlan *const *plan, int n) CHECKED;
void cudnn_bench_close(CudnnBench *b);

/* Runs each a few times on memory of its own and gives the fastest; one that fails is left out. */
Status cudnn_fastest(CudnnPlan **out, CudnnPlan *const *plan, int n) CHECKED;

/* Does the plan treat a NaN as the request says?  Runs it once, on memory of its own. */
Status cudnn_keeps_nan(bool *out, CudnnPlan *plan, const CudnnRequest *r) CHECKED;

#endif
