/* Grids of pieces, and how oneDNN computes a piece of each size. */
#include "kernels/cpu/sgemm.h"

#include <math.h>

#include "kernels/cpu/onednn.h"
#include "kernels/cpu/team.h"

/* Pieces are as large as a thread is worth waking for.  Rows in multiples of PIECE_ROWS and columns of PIECE_COLS keep
 * what oneDNN does with an element the same as in the whole product. */
enum {
    PIECE_ROWS = 96,
    PIECE_COLS = 64,
    PIECE_WORK = 1 << 17, /* multiplications */
    COPY = 32             /* multiplications in the time in which an element of an operand is copied into blocks */
};

/* Where piece `i` of `pieces` of a side of length n begins. */
static int64_t begin(int64_t n, int64_t i, int64_t pieces, int64_t multiple)
{
    return i == pieces ? n : n * i / pieces / multiple * multiple;
}

static int64_t size(int64_t n, int64_t i, int64_t pieces, int64_t multiple)
{
    return begin(n, i + 1, pieces, multiple) - begin(n, i, pieces, multiple);
}

static bool copies(const Sgemm *s, int64_t m, int64_t n)
{
    return onednn_sgemm_copies(s->trans_a, s->trans_b, m, n, s->k, s->lda, s->ldb, s->ldc);
}

/* Multiplications that the largest piece takes, its copies among them; infinite where oneDNN computes a piece in
 * another way than the whole. */
static double cost(const Sgemm *s, int64_t rows, int64_t cols)
{
    const bool whole = copies(s, s->m, s->n);
    double most = 0;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            const int64_t m = size(s->m, r, rows, PIECE_ROWS), n = size(s->n, c, cols, PIECE_COLS);

            if (copies(s, m, n) != whole)
                return INFINITY;
            most = fmax(most, ((double)m * (double)n + COPY * (double)(m + n)) * (double)s->k);
        }
    return most;
}

/* The cheapest grid of at most one piece a thread. */
SgemmCut sgemm_cut(const Sgemm *s, int threads)
{
    const double work = (double)s->m * (double)s->n * (double)s->k / PIECE_WORK;
    const int64_t most = work < threads ? (int64_t)work : threads, inside = onednn_sgemm_threads(s->m, s->n, s->k);
    SgemmCut cut = { .inside = inside < threads ? (int)inside : threads, .rows = 1, .cols = 1 };
    double least = INFINITY;

    if (inside > 1)
        return cut;
    for (int64_t rows = 1; rows <= most && (rows == 1 || rows * PIECE_ROWS <= s->m); rows++)
        for (int64_t cols = 1; rows * cols <= most && (cols == 1 || cols * PIECE_COLS <= s->n); cols++) {
            const double here = cost(s, rows, cols);

            if (here < least) {
                least = here;
                cut.rows = rows;
                cut.cols = cols;
            }
        }
    return cut;
}

Status sgemm_piece(const Sgemm *s, const SgemmCut *cut, int64_t i, float alpha, const float *a, const float *b,
                   float beta, float *c)
{
    const int64_t r = i / cut->cols, row = begin(s->m, r, cut->rows, PIECE_ROWS),
                  m = size(s->m, r, cut->rows, PIECE_ROWS), q = i % cut->cols,
                  col = begin(s->n, q, cut->cols, PIECE_COLS), n = size(s->n, q, cut->cols, PIECE_COLS);
    KernelCtx team = { .n_threads = cut->inside };

    return onednn_sgemm(&team, s->trans_a, s->trans_b, m, n, s->k, alpha, a + row * (s->trans_a ? 1 : s->lda), s->lda,
                        b + col * (s->trans_b ? s->ldb : 1), s->ldb, beta, c + row * s->ldc + col, s->ldc);
}

Status sgemm_run(const Sgemm *s, int threads, const float *a, const float *b, float beta, float *c)
{
    const SgemmCut cut = sgemm_cut(s, threads);
    const int64_t pieces = cut.rows * cut.cols;
    TeamFailure failure = { 0 };

    if (pieces == 1)
        return sgemm_piece(s, &cut, 0, 1, a, b, beta, c);
#pragma omp parallel for num_threads((int)pieces) schedule(static, 1)
    for (int64_t i = 0; i < pieces; i++)
        team_note(&failure, sgemm_piece(s, &cut, i, 1, a, b, beta, c));
    return team_status(&failure);
}
