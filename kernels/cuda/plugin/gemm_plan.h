/* A matrix product described to cublasLt: what its planning (gemm.c), its measuring (gemm_tune.c) and its probing
 * (gemm_probe.c) have in common. */
#ifndef DPX_CUDA_PLUGIN_GEMM_PLAN_H
#define DPX_CUDA_PLUGIN_GEMM_PLAN_H

#include "kernels/cuda/plugin/plugin.h"

enum { GEMM_CANDIDATES = 8, GEMM_WORKSPACE = 32 << 20 /* bytes that an algorithm may take */ };

typedef union {
    float f32;
    double f64;
} GemmScale;

typedef struct {
    GpuPlan plan;
    GpuGemm desc;
    bool empty; /* no element to compute */
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t left, right, result; /* B, A and C, seen column by column */
    GemmScale alpha, beta;
    cublasLtMatmulAlgo_t algo;
    size_t workspace; /* bytes that algo needs */
} GemmPlan;

/* A plan that lacks an algorithm, and cublasLt's handle; ended by plan_free.  E_UNSUPPORTED for types that there is no
 * product of. */
Status gemm_describe(GpuDevice *d, const GpuGemm *desc, GemmPlan **out) CHECKED;
/* Sets p->lt and the `*n` algorithms that heuristics expect to be fastest, best first; E_UNSUPPORTED when there is
 * none. */
Status gemm_ask(GemmPlan *p, cublasLtMatmulHeuristicResult_t found[GEMM_CANDIDATES], int *n) CHECKED;
/* On `stream`, with buffers as driver.h lists them and p->workspace bytes of workspace. */
Status gemm_enqueue(GemmPlan *p, const cublasLtMatmulAlgo_t *algo, cudaStream_t stream, void *const *buffers,
                    void *workspace, size_t n_workspace) CHECKED;

#endif
