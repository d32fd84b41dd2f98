/* Products of float32 by a team of threads, with the bits of one thread: pieces of rows and columns, one a thread,
 * which oneDNN computes as it would compute the whole.  A product of which oneDNN itself divides nothing but rows and
 * columns is left to it. */
#ifndef DPX_KERNELS_CPU_SGEMM_H
#define DPX_KERNELS_CPU_SGEMM_H

#include "kernels/backend.h"

/* c [m, n] = alpha op(a) op(b) + beta c, row-major. */
typedef struct {
    bool trans_a, trans_b;
    int64_t m, n, k;
    int64_t lda, ldb, ldc; /* row lengths */
} Sgemm;

typedef struct {
    int inside;         /* threads for a piece */
    int64_t rows, cols; /* pieces along m and along n */
} SgemmCut;

/* The cheapest grid of at most `threads` pieces, each of which oneDNN computes as it would compute the whole.  Where
 * inside > 1 there is one piece, to be run outside of a parallel region. */
SgemmCut sgemm_cut(const Sgemm *s, int threads);
/* Piece `i` of cut->rows * cut->cols. */
Status sgemm_piece(const Sgemm *s, const SgemmCut *cut, int64_t i, float alpha, const float *a, const float *b,
                   float beta, float *c) CHECKED;
/* All pieces, by a team. */
Status sgemm_run(const Sgemm *s, int threads, const float *a, const float *b, float beta, float *c) CHECKED;

#endif
