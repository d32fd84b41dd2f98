/* The choice of a prepared product's algorithm: by measuring (gemm_tune.c) and by tests of its epilogues on the device
 * (gemm_probe.c). */
#ifndef DPX_CUDA_PLUGIN_GEMM_H
#define DPX_CUDA_PLUGIN_GEMM_H

#include "kernels/cuda/plugin/gemm_plan.h"

/* Sets p->algo to the fastest of the candidates as measured now or earlier (the cache); candidate[0] when it cannot be
 * measured. */
Status gemm_tune(GemmPlan *p, const cublasLtMatmulHeuristicResult_t *candidate, int n) CHECKED;

/* gemm_probe.c: of the `*n` candidates for a product with Relu leaves the first `most` that keep a NaN, which each is
 * tried for; E_UNSUPPORTED when none does, or none can be tried, for lack of memory say. */
Status gemm_keep_nan(GemmPlan *p, cublasLtMatmulHeuristicResult_t *found, int *n, int most) CHECKED;

/* Zeroed memory for a product and its workspace, and a stream; free with gemm_bench_close, also after a failure.  *b
 * begins zeroed. */
typedef struct {
    void *buffer[GEMM_BUFFERS], *workspace;
    cudaStream_t stream;
} GemmBench;
Status gemm_bench_open(GpuDevice *d, GemmBench *b, const GpuGemm *g, const cublasLtMatmulHeuristicResult_t *candidate,
                       int n) CHECKED;
void gemm_bench_close(GpuDevice *d, GemmBench *b);

#endif
