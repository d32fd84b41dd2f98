/* MatMul, BatchMatMul and Gemm: float32 by oneDNN's sgemm, float64 by our own dgemm (oneDNN has none).
 *
 * The number of threads changes no bits: sums over k are never cut between them.  In float32 a product is cut into
 * pieces of its rows and columns, one a thread, which oneDNN computes as it would compute the whole; a product of which
 * oneDNN itself divides nothing but rows and columns is left to it.  C is written into the result first, so that the
 * product adds to it. */
#include "graph/ops/matmul.gen.h"
#include "graph/ops/matmul.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/onednn.h"
#include "kernels/cpu/team.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pieces are as large as a thread is worth waking for.  Rows in multiples of PIECE_ROWS and columns of PIECE_COLS keep
 * what oneDNN does with an element the same as in the whole product. */
enum {
    PIECE_ROWS = 96,
    PIECE_COLS = 64,
    PIECE_WORK = 1 << 17, /* multiplications */
    COPY = 32             /* multiplications in the time in which an element of an operand is copied into blocks */
};

typedef struct {
    int64_t batches, m, n, k;
    bool trans_a, trans_b, has_c;
    int64_t lda, ldb, ci, cj;     /* C's strides; 0 where it is broadcast */
    int64_t *offset_a, *offset_b; /* [batches]; offset_b points into offset_a's block */
    double alpha, beta;
    int64_t inside;     /* threads that oneDNN may divide a product among */
    int64_t rows, cols; /* where it is one: pieces along m and along n */
    bool batch_parallel;
} Plan;

static void cpu_matmul_release(void *state)
{
    Plan *p = state;

    if (p)
        free(p->offset_a);
    free(p);
}

/* 1-D operands: a row of A, a column of B, which is a row of its transpose. */
static void read_roles(Plan *p, const MatMulRoles *r)
{
    p->m = r->row < 0 ? 1 : r->a.dim[r->row];
    p->n = r->col < 0 ? 1 : r->b.dim[r->col];
    p->k = r->a.dim[r->k_a];
    p->trans_a = r->row > r->k_a;
    p->trans_b = r->col < r->k_b;
    p->lda = p->trans_a ? p->m : p->k;
    p->ldb = p->trans_b ? p->k : p->n;
}

static void read_c(Plan *p, const Graph *g, const Node *n)
{
    const Shape *c = in_value(g, n, 2)->shape;
    int64_t cols = c->rank ? c->dim[c->rank - 1] : 1, rows = c->rank > 1 ? c->dim[c->rank - 2] : 1;

    p->has_c = true;
    p->beta = node_float(n, "beta");
    p->cj = cols == 1 ? 0 : 1;
    p->ci = rows == 1 ? 0 : cols;
}

/* One matrix B for all batches of an A whose rows lie one after another: all rows are one long A. */
static void merge_batches(Plan *p, const MatMulRoles *r)
{
    if (p->trans_a || r->row < 0 || shape_count(&r->b, 0, r->batch_b) != 1 ||
        shape_count(&r->a, 0, r->batch_a) != p->batches)
        return;
    p->m *= p->batches;
    p->batches = 1;
}

/* Where piece `i` of `pieces` of a side of length n begins. */
static int64_t piece_begin(int64_t n, int64_t i, int64_t pieces, int64_t multiple)
{
    return i == pieces ? n : n * i / pieces / multiple * multiple;
}

static int64_t piece_size(int64_t n, int64_t i, int64_t pieces, int64_t multiple)
{
    return piece_begin(n, i + 1, pieces, multiple) - piece_begin(n, i, pieces, multiple);
}

/* Multiplications that the largest piece takes, its copies among them; infinite where oneDNN computes a piece in
 * another way than the whole. */
static double grid_cost(const Plan *p, int64_t rows, int64_t cols)
{
    const bool copies = onednn_sgemm_copies(p->trans_a, p->trans_b, p->m, p->n, p->k, p->lda, p->ldb, p->n);
    double most = 0;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            const int64_t m = piece_size(p->m, r, rows, PIECE_ROWS), n = piece_size(p->n, c, cols, PIECE_COLS);

            if (onednn_sgemm_copies(p->trans_a, p->trans_b, m, n, p->k, p->lda, p->ldb, p->n) != copies)
                return INFINITY;
            most = fmax(most, ((double)m * (double)n + COPY * (double)(m + n)) * (double)p->k);
        }
    return most;
}

/* Into the cheapest grid of at most one piece a thread, where there are not enough batches for all threads. */
static void cpu_matmul_cut(Plan *p, int n_threads)
{
    const double work = (double)p->m * (double)p->n * (double)p->k / PIECE_WORK;
    const int64_t most = work < n_threads ? (int64_t)work : n_threads;
    double least = INFINITY;

    p->rows = p->cols = 1;
    if (p->inside > 1 || p->batches % n_threads == 0)
        return;
    for (int64_t rows = 1; rows <= most && (rows == 1 || rows * PIECE_ROWS <= p->m); rows++)
        for (int64_t cols = 1; rows * cols <= most && (cols == 1 || cols * PIECE_COLS <= p->n); cols++) {
            const double cost = grid_cost(p, rows, cols);

            if (cost < least) {
                least = cost;
                p->rows = rows;
                p->cols = cols;
            }
        }
}

static Status cpu_matmul_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Value *y = value(g, n->out[0]);
    Plan *p = calloc(1, sizeof *p);
    MatMulRoles r;

    if (!p)
        return FAIL_NOMEM();
    matmul_roles(&r, g, n);
    read_roles(p, &r);
    p->batches = shape_count(y->shape, 0, r.batch_y);
    p->alpha = node_attr(n, "alpha") ? node_float(n, "alpha") : 1;
    if (has_in(n, 2))
        read_c(p, g, n);
    if (!(p->offset_a = kernel_table(g, 2 * (size_t)p->batches, sizeof(int64_t)))) {
        cpu_matmul_release(p);
        return FAIL_NOMEM();
    }
    p->offset_b = p->offset_a + p->batches;
    matmul_offsets(p->offset_a, &r.a, r.batch_a, y->shape, r.batch_y, p->m * p->k);
    matmul_offsets(p->offset_b, &r.b, r.batch_b, y->shape, r.batch_y, p->k * p->n);
    merge_batches(p, &r);
    p->inside = onednn_sgemm_threads(p->m, p->n, p->k);
    cpu_matmul_cut(p, ctx->n_threads);
    p->batch_parallel = p->batches >= ctx->n_threads;
    if (y->dtype == DT_FLOAT64) {
        size_t bytes = (size_t)ctx->n_threads * DGEMM_SCRATCH;

        ctx->scratch_bytes = bytes > ctx->scratch_bytes ? bytes : ctx->scratch_bytes;
    }
    *state = p;
    return ST_OK;
}

#define BODY "kernels/cpu/cpu_matmul.inc"
#include "kernels/each_type.inc"

/* Piece `unit` of all products'. */
static Status product_f32(KernelCtx *ctx, const Plan *p, int64_t unit, const float *a, const float *b, float *y)
{
    const int64_t i = unit / (p->rows * p->cols), r = unit / p->cols % p->rows, c = unit % p->cols;
    const int64_t row = piece_begin(p->m, r, p->rows, PIECE_ROWS),
                  row_end = piece_begin(p->m, r + 1, p->rows, PIECE_ROWS),
                  col = piece_begin(p->n, c, p->cols, PIECE_COLS),
                  col_end = piece_begin(p->n, c + 1, p->cols, PIECE_COLS);

    return onednn_sgemm(ctx, p->trans_a, p->trans_b, row_end - row, col_end - col, p->k, (float)p->alpha,
                        a + p->offset_a[i] + row * (p->trans_a ? 1 : p->lda), p->lda,
                        b + p->offset_b[i] + col * (p->trans_b ? p->ldb : 1), p->ldb, p->has_c ? (float)p->beta : 0,
                        y + (i * p->m + row) * p->n + col, p->n);
}

static Status run_f32(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Plan *p = state;
    const float *a = in[0].data, *b = in[1].data;
    float *y = out[0].data;
    const int64_t units = p->batches * p->rows * p->cols;
    int team = units < ctx->n_threads ? (int)units : ctx->n_threads,
        inside = p->inside < ctx->n_threads ? (int)p->inside : ctx->n_threads;
    KernelCtx each = { .n_threads = inside };
    TeamFailure failure = { 0 };

    if (p->has_c)
        fill_f32(p, in[2].data, y);
    if (inside > 1 || team == 1) {
        for (int64_t i = 0; i < units; i++)
            TRY(product_f32(&each, p, i, a, b, y));
        return ST_OK;
    }
#pragma omp parallel for num_threads(team) schedule(static)
    for (int64_t i = 0; i < units; i++)
        team_note(&failure, product_f32(&each, p, i, a, b, y));
    return team_status(&failure);
}

/* Rows are divided for a single product; each thread packs for itself. */
static Status run_f64(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Plan *p = state;
    const double *a = in[0].data, *b = in[1].data;
    double *y = out[0].data;
    int team = ctx->n_threads;
    int64_t parts = p->batch_parallel ? 1 : team;

    if (p->has_c)
        fill_f64(p, in[2].data, y);
#pragma omp parallel for num_threads(team) schedule(static, 1)
    for (int t = 0; t < team; t++) {
        char *scratch = (char *)ctx->scratch + (size_t)t * DGEMM_SCRATCH;
        int64_t first = p->batch_parallel ? team_begin(p->batches, t, team) : 0;
        int64_t last = p->batch_parallel ? team_begin(p->batches, t + 1, team) : p->batches;
        int64_t row = parts == 1 ? 0 : team_begin(p->m, t, team),
                end = parts == 1 ? p->m : team_begin(p->m, t + 1, team);

        for (int64_t i = first; i < last; i++)
            dgemm(scratch, p->trans_a, p->trans_b, end - row, p->n, p->k, p->alpha,
                  a + p->offset_a[i] + row * (p->trans_a ? 1 : p->lda), p->lda, b + p->offset_b[i], p->ldb,
                  p->has_c ? p->beta : 0, y + (i * p->m + row) * p->n, p->n);
    }
    return ST_OK;
}

/* Sizes that oneDNN takes; empty products are the reference kernels'.  B has no size that neither A nor the result
 * has. */
static bool cpu_matmul_supports(const Graph *g, const Node *n)
{
    const Shape *s[] = { in_value(g, n, 0)->shape, value(g, n->out[0])->shape };

    for (int i = 0; i < 2; i++)
        for (int k = 0; k < s[i]->rank; k++)
            if (s[i]->dim[k] < 1 || s[i]->dim[k] > INT32_MAX)
                return false;
    return true;
}

#define FLOAT32                                                                                                      \
    .dtypes = DTYPE_BIT(DT_FLOAT32), .supports = cpu_matmul_supports, .prepare = cpu_matmul_prepare, .run = run_f32, \
    .release = cpu_matmul_release, .shares = true
#define FLOAT64                                                                                                      \
    .dtypes = DTYPE_BIT(DT_FLOAT64), .supports = cpu_matmul_supports, .prepare = cpu_matmul_prepare, .run = run_f64, \
    .release = cpu_matmul_release, .shares = true

DEFINE_KERNEL(cpu_matmul, .op = &op_MatMul, FLOAT32);
DEFINE_KERNEL(cpu_batch_matmul, .op = &op_BatchMatMul, FLOAT32);
DEFINE_KERNEL(cpu_gemm, .op = &op_Gemm, FLOAT32);
DEFINE_KERNEL(cpu_matmul_f64, .op = &op_MatMul, FLOAT64);
DEFINE_KERNEL(cpu_batch_matmul_f64, .op = &op_BatchMatMul, FLOAT64);
DEFINE_KERNEL(cpu_gemm_f64, .op = &op_Gemm, FLOAT64);
