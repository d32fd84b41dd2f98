/* Matrix products as the defining sum. */
#include "graph/ops/matmul.gen.h"
#include "graph/ops/matmul.h"
#include "kernels/ref/ref.h"

/* One pair of matrices: element (i, k) of A at i * ai + k * ak, (k, j) of B at k * bk + j * bj; Y dense [m, n]. */
typedef struct {
    int64_t batches, m, n, k, ai, ak, bk, bj, ci, cj;
    int64_t *offset_a, *offset_b; /* [batches] */
    double alpha, beta;
    bool has_c;
} Plan;

static void ref_matmul_release(void *state)
{
    Plan *p = state;

    if (!p)
        return;
    free(p->offset_a);
    free(p);
}

/* From a trailing pair of axes: the stride of one of them. */
static int64_t ref_matmul_stride_of(const Shape *s, int axis)
{
    return axis < 0 ? 0 : axis == s->rank - 1 ? 1 : s->dim[s->rank - 1];
}

static void plan_c(Plan *p, const Graph *g, const Node *n)
{
    const Shape *c = in_value(g, n, 2)->shape;
    int64_t cols = c->rank ? c->dim[c->rank - 1] : 1, rows = c->rank > 1 ? c->dim[c->rank - 2] : 1;

    p->has_c = true;
    p->beta = node_float(n, "beta");
    p->cj = cols == 1 ? 0 : 1;
    p->ci = rows == 1 ? 0 : cols;
}

static Status ref_matmul_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Plan *p = calloc(1, sizeof *p);
    const Shape *y = value(g, n->out[0])->shape;
    MatMulRoles r;

    (void)ctx;
    if (!p)
        return FAIL_NOMEM();
    matmul_roles(&r, g, n);
    p->batches = shape_count(y, 0, r.batch_y);
    p->m = r.row < 0 ? 1 : r.a.dim[r.row];
    p->n = r.col < 0 ? 1 : r.b.dim[r.col];
    p->k = r.a.dim[r.k_a];
    p->ai = ref_matmul_stride_of(&r.a, r.row);
    p->ak = ref_matmul_stride_of(&r.a, r.k_a);
    p->bk = ref_matmul_stride_of(&r.b, r.k_b);
    p->bj = ref_matmul_stride_of(&r.b, r.col);
    p->alpha = node_attr(n, "alpha") ? node_float(n, "alpha") : 1;
    if (has_in(n, 2))
        plan_c(p, g, n);
    if (shape_numel(y) && !(p->offset_a = kernel_table(g, 2 * (size_t)p->batches, sizeof(int64_t)))) {
        ref_matmul_release(p);
        return FAIL_NOMEM();
    }
    if (shape_numel(y)) {
        p->offset_b = p->offset_a + p->batches;
        matmul_offsets(p->offset_a, &r.a, r.batch_a, y, r.batch_y, p->m * p->k);
        matmul_offsets(p->offset_b, &r.b, r.batch_b, y, r.batch_y, p->k * p->n);
    }
    *state = p;
    return ST_OK;
}

/* Unsigned arithmetic wraps, so it serves the signed types too. */
#define BODY "kernels/ref/ref_matmul.inc"
#define TYPES (OF_FLOATS | OF_U32 | OF_U64)
#include "kernels/each_type.inc"

static Status ref_matmul_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const product[])(const Plan *, const Tensor *, Tensor *) = {
        OF_EACH_FLOAT(product),   [DT_INT32] = product_u32,  [DT_UINT32] = product_u32,
        [DT_INT64] = product_u64, [DT_UINT64] = product_u64,
    };

    (void)ctx;
    product[in[0].dtype](state, in, out);
    return ST_OK;
}

#define DTYPES \
    (DTYPES_F32_F64 | DTYPE_BIT(DT_INT32) | DTYPE_BIT(DT_INT64) | DTYPE_BIT(DT_UINT32) | DTYPE_BIT(DT_UINT64))
DEFINE_KERNEL(ref_matmul, .op = &op_MatMul, .dtypes = DTYPES, .prepare = ref_matmul_prepare, .run = ref_matmul_run,
              .release = ref_matmul_release);
DEFINE_KERNEL(ref_batch_matmul, .op = &op_BatchMatMul, .dtypes = DTYPES, .prepare = ref_matmul_prepare,
              .run = ref_matmul_run, .release = ref_matmul_release);
DEFINE_KERNEL(ref_gemm, .op = &op_Gemm, .dtypes = DTYPES, .prepare = ref_matmul_prepare, .run = ref_matmul_run,
              .release = ref_matmul_release);
