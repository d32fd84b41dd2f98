/* Descriptions of the library's matrix products, for MatMul, Gemm and Product. */
#ifndef DPX_CUDA_GEMM_H
#define DPX_CUDA_GEMM_H

#include "kernels/cuda/cuda.h"

enum { GEMM_ALIGN = 16 }; /* bytes that tensors and scratch are aligned to, which is all that algorithms ask for */

/* op(A) [m, k] op(B) [k, n] of dense matrices of type t. */
static inline GpuGemm gemm_of(DType t, int64_t m, int64_t n, int64_t k, bool trans_a, bool trans_b)
{
    return (GpuGemm){ .dtype = t,
                      .dtype_c = t,
                      .m = m,
                      .n = n,
                      .k = k,
                      .batch = 1,
                      .trans_a = trans_a,
                      .trans_b = trans_b,
                      .lda = trans_a ? m : k,
                      .ldb = trans_b ? k : n,
                      .ldc = n,
                      .alpha = 1,
                      .align = GEMM_ALIGN };
}

#endif
