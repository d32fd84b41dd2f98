/* From a cuDNN graph to a plan that runs: which of the library's engines is taken, its cache, its launch. */
#ifndef DPX_CUDNN_H
#define DPX_CUDNN_H

#include "kernels/cuda/plugin/cudnn_graph.h"
#include "kernels/cuda/plugin/plugin.h"

/* An execution plan of cuDNN, shared by all calls of the same numbers, because the layers of a model are often
 * equal. */
typedef struct CudnnExecution {
    struct CudnnExecution *next;
    CudnnDescriptor plan;
    int64_t workspace;
    char key[];
} CudnnExecution;

enum { CUDNN_ENGINES = 256 }; /* engines of one pattern have smaller indices */

struct CudnnState {
    cudnnHandle_t handle;                    /* NULL for a described device */
    CudnnDescriptor described;               /* its properties; NULL for one that is there */
    CudnnExecution *made;                    /* owned; they outlive the device's plans */
    bool loses_nan[DT_COUNT][CUDNN_ENGINES]; /* found so by cudnn_probe.c */
};

/* Requirements on an engine beside the graph.  Always required: the same bits for the same input, sums of 16-bit
 * products in float32. */
typedef struct {
    const char *key;  /* all numbers of the call: names it in messages and in the cache */
    DType dtype;      /* float32: its inputs are rounded only where the device's tf32 allows it */
    size_t workspace; /* bytes to prefer; what needs more is taken when nothing else does */
    /* There is another way to do it, so only the best engine that needs no compiling will do, and when it keeps a NaN:
     * where buffer `nan_in` is NaN and the others are 0 all of buffer `nan_out` must be NaN.  (On a described device it
     * is taken to.) */
    bool keeps_nan;
    int nan_in, nan_out;
} CudnnRequest;

Status cudnn_open(GpuDevice *d) CHECKED; /* makes d->cudnn at the first call */

/* The first engine that fits, of heuristics mode A, then of FALLBACK; with d->tune the fastest of the first few.
 * E_UNSUPPORTED when there is none.  The graph may be freed afterwards. */
Status cudnn_plan_make(GpuDevice *d, CudnnGraph *g, const CudnnRequest *r, GpuPlan **out, size_t *workspace) CHECKED;

#endif
