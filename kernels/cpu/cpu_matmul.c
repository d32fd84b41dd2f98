/* MatMul, BatchMatMul and Gemm: float32 by oneDNN's sgemm, float64 by our own dgemm (oneDNN has none).
 *
 * The number of threads changes no bits: sums over k are never cut between them.  C is written into the result first,
 * so that the product adds to it. */
#include "graph/ops/matmul.gen.h"
#include "graph/ops/matmul.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/sgemm.h"
#include "kernels/cpu/team.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Sgemm of; /* ldc: of float64, too */
    int64_t batches;
    bool has_c;
    int64_t ci, cj;               /* C's strides; 0 where it is broadcast */
    int64_t *offset_a, *offset_b; /* [batches]; offset_b points into offset_a's block */
    double alpha, beta;
    SgemmCut cut;
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
    p->of.m = r->row < 0 ? 1 : r->a.dim[r->row];
    p->of.n = r->col < 0 ? 1 : r->b.dim[r->col];
    p->of.k = r->a.dim[r->k_a];
    p->of.trans_a = r->row > r->k_a;
    p->of.trans_b = r->col < r->k_b;
    p->of.lda = p->of.trans_a ? p->of.m : p->of.k;
    p->of.ldb = p->of.trans_b ? p->of.k : p->of.n;
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
    if (p->of.trans_a || r->row < 0 || shape_count(&r->b, 0, r->batch_b) != 1 ||
        shape_count(&r->a, 0, r->batch_a) != p->batches)
        return;
    p->of.m *= p->batches;
    p->batches = 1;
}

/* Threads for each of the products, so that as many pieces as threads, or a multiple of them, are computed; many
 * products are divided well enough whole. */
static int threads_of_each(int64_t batches, int threads)
{
    enum { MANY = 4 };
    int64_t a = batches, b = threads;

    while (b) {
        const int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return batches >= MANY * threads ? 1 : threads / (int)a;
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
    matmul_offsets(p->offset_a, &r.a, r.batch_a, y->shape, r.batch_y, p->of.m * p->of.k);
    matmul_offsets(p->offset_b, &r.b, r.batch_b, y->shape, r.batch_y, p->of.k * p->of.n);
    merge_batches(p, &r);
    p->of.ldc = p->of.n;
    p->cut = sgemm_cut(&p->of, threads_of_each(p->batches, ctx->n_threads));
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
static Status piece_f32(const Plan *p, int64_t unit, const float *a, const float *b, float *y)
{
    const int64_t pieces = p->cut.rows * p->cut.cols, i = unit / pieces;

    return sgemm_piece(&p->of, &p->cut, unit % pieces, (float)p->alpha, a + p->offset_a[i], b + p->offset_b[i],
                       p->has_c ? (float)p->beta : 0, y + i * p->of.m * p->of.n);
}

static Status run_f32(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Plan *p = state;
    const float *a = in[0].data, *b = in[1].data;
    float *y = out[0].data;
    const int64_t units = p->batches * p->cut.rows * p->cut.cols;
    const int team = units < ctx->n_threads ? (int)units : ctx->n_threads;
    TeamFailure failure = { 0 };

    if (p->has_c)
        fill_f32(p, in[2].data, y);
    if (team == 1 || p->cut.inside > 1) { /* outside of any region, where oneDNN may make its own */
        for (int64_t i = 0; i < units; i++)
            TRY(piece_f32(p, i, a, b, y));
        return ST_OK;
    }
#pragma omp parallel for num_threads(team) schedule(static)
    for (int64_t i = 0; i < units; i++)
        team_note(&failure, piece_f32(p, i, a, b, y));
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
        int64_t row = parts == 1 ? 0 : team_begin(p->of.m, t, team),
                end = parts == 1 ? p->of.m : team_begin(p->of.m, t + 1, team);

        for (int64_t i = first; i < last; i++)
            dgemm(scratch, p->of.trans_a, p->of.trans_b, end - row, p->of.n, p->of.k, p->alpha,
                  a + p->offset_a[i] + row * (p->of.trans_a ? 1 : p->of.lda), p->of.lda, b + p->offset_b[i], p->of.ldb,
                  p->has_c ? p->beta : 0, y + (i * p->of.m + row) * p->of.n, p->of.n);
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
