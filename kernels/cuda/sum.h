/* Sums over the rows or the columns of a matrix, for kernels whose results such sums are a part of
 * (kernels/cuda/cuda_reduce.c). */
#ifndef DPX_CUDA_SUM_H
#define DPX_CUDA_SUM_H

#include "kernels/cuda/cuda.h"

typedef struct MatrixSum MatrixSum;

/* Sums a dense matrix [rows, columns] of type `from` over its rows, to [columns], or its columns, to [rows]; of type
 * `to`, which is `from` or, where that has 16 bits, float32.  The caller frees *out. */
Status matrix_sum_prepare(MatrixSum **out, size_t *scratch, const KernelCtx *ctx, DType from, DType to, int64_t rows,
                          int64_t columns, bool over_rows) CHECKED;
/* `scratch`: the bytes that prepare asked for, 16-byte aligned. */
Status matrix_sum_run(const MatrixSum *s, const KernelCtx *ctx, void *scratch, const void *x, void *y) CHECKED;

/* Sizes that kernels of sums can count. */
bool matrix_sum_fits(DType from, int64_t elements);

#endif
