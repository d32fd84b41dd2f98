/* A matrix product prepared for cublasLt; shared by its planning (gemm.c) and its measuring (gemm_tune.c). */
#ifndef DPX_CUDA_PLUGIN_GEMM_H
#define DPX_CUDA_PLUGIN_GEMM_H

#include "kernels/cuda/plugin/plugin.h"

typedef union { float f32; double f64; } GemmScale;

typedef struct {
    GpuPlan plan;
    GpuGemm desc;
    bool empty;                                 /* no element to compute */
    cublasLtHandle_t lt;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t left, right, result; /* B, A and C, seen column by column */
    GemmScale alpha, beta;
    cublasLtMatmulAlgo_t algo;
    size_t workspace;                           /* bytes that algo needs */
} GemmPlan;

/* On `stream`, with buffers as driver.h lists them and p->workspace bytes of workspace. */
Status gemm_enqueue(GemmPlan *p, const cublasLtMatmulAlgo_t *algo, cudaStream_t stream, void *const *buffers, void *workspace,
                    size_t n_workspace) CHECKED;
/* Sets p->algo to the fastest of the candidates as measured now or earlier (the cache); candidate[0] when it cannot be measured. */
Status gemm_tune(GemmPlan *p, const cublasLtMatmulHeuristicResult_t *candidate, int n) CHECKED;

#endif
