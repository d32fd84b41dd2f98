/* A matrix product prepared for cublasLt; shared by its planning (gemm.c), its measuring (gemm_tune.c) and what is
 * found out of its epilogues on the device (gemm_probe.c). */
#ifndef DPX_CUDA_PLUGIN_GEMM_H
#define DPX_CUDA_PLUGIN_GEMM_H

#include "kernels/cuda/plugin/plugin.h"

enum { GEMM_CANDIDATES = 8 };

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
/* Sets p->algo to the fastest of the candidates as measured now or earlier (the cache); candidate[0] when it cannot be
 * measured. */
Status gemm_tune(GemmPlan *p, const cublasLtMatmulHeuristicResult_t *candidate, int n) CHECKED;

/* gemm_probe.c: E_UNSUPPORTED when the Relu epilogue of a product of these types, on this device, does not keep a
 * NaN. */
Status gemm_relu_keeps_nan(GpuDevice *d, DType dtype, DType dtype_c) CHECKED;

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
