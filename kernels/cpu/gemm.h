/* A matrix product of float64 for one thread. */
#ifndef DPX_CPU_GEMM_H
#define DPX_CPU_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DGEMM_MC = 64, DGEMM_KC = 256, DGEMM_NC = 256 };
#define DGEMM_SCRATCH ((size_t)(DGEMM_MC + DGEMM_NC) * DGEMM_KC * sizeof(double))

/* c [m, n] = alpha * op(a) op(b) + beta * c, row-major; c is not read when beta is 0.  `scratch`: DGEMM_SCRATCH bytes,
 * 64-byte aligned. */
void dgemm(void *scratch, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, double alpha, const double *a,
           int64_t lda, const double *b, int64_t ldb, double beta, double *c, int64_t ldc);

#endif
