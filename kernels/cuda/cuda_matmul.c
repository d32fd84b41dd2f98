/* MatMul, BatchMatMul and Gemm as prepared products of the library.
 *
 * Transposes, the scale and a row of C (as a bias) are part of the product.  A C of another shape, or a row where the
 * library has no such product with a bias, is first spread into the result, to which the product is then added. Batches
 * that step evenly through both operands are one batched product; operands that broadcast otherwise take one for each
 * point of the outer batch dimensions. */
#include <stdlib.h>

#include "graph/ops/matmul.gen.h"
#include "graph/ops/matmul.h"
#include "kernels/cuda/cuda_move.h"
#include "kernels/cuda/gemm.h"

enum { MOST_PRODUCTS = 4096 };

typedef struct {
    int rank;
    int64_t dim[MAX_RANK], a[MAX_RANK], b[MAX_RANK];
} Batches; /* elements; innermost first */
typedef enum { C_NONE, C_BIAS, C_WHOLE, C_SPREAD } CKind;

typedef struct {
    const CudaDriver *driver;
    GpuPlan *plan;            /* NULL: nothing to multiply */
    Batches outer;            /* one product for each point */
    int64_t products, step_c; /* elements of the result from one to the next */
    size_t size;
    CKind c;
    MovePlan spread;
    bool zero; /* the contracted axis is empty and there is no C */
} State;

static void cuda_matmul_release(void *state)
{
    State *s = state;

    if (s && s->plan)
        s->driver->plan_free(s->plan);
    free(s);
}

/* ---- shapes ---- */

/* 1-D operands: a row of A, a column of B, which is a row of its transpose. */
static GpuGemm read_roles(DType t, const MatMulRoles *r)
{
    return gemm_of(t, r->row < 0 ? 1 : r->a.dim[r->row], r->col < 0 ? 1 : r->b.dim[r->col], r->a.dim[r->k_a],
                   r->row > r->k_a, r->col < r->k_b);
}

/* The stride of batch axis `axis` of the product within an operand whose own leading axes are s->dim[0..batch). */
static int64_t cuda_matmul_stride_of(const Shape *s, int batch, int axis, int batch_y, int64_t matrix)
{
    int own = axis - (batch_y - batch);

    return own < 0 || s->dim[own] == 1 ? 0 : shape_count(s, own + 1, batch) * matrix;
}

/* Neighbouring axes along which both operands step evenly are one. */
static void read_batches(Batches *b, const MatMulRoles *r, const Shape *y, const GpuGemm *d)
{
    for (int i = r->batch_y - 1; i >= 0; i--) {
        int64_t sa = cuda_matmul_stride_of(&r->a, r->batch_a, i, r->batch_y, d->m * d->k), last = b->rank - 1;
        int64_t sb = cuda_matmul_stride_of(&r->b, r->batch_b, i, r->batch_y, d->k * d->n);

        if (y->dim[i] == 1)
            continue;
        if (b->rank && sa == b->dim[last] * b->a[last] && sb == b->dim[last] * b->b[last]) {
            b->dim[last] *= y->dim[i];
            continue;
        }
        b->dim[b->rank] = y->dim[i];
        b->a[b->rank] = sa;
        b->b[b->rank++] = sb;
    }
}

/* The inner axis becomes the product's batch, or, for one matrix B under an A whose rows lie one after another, more
 * rows of a single product. */
static void take_inner(GpuGemm *d, Batches *b)
{
    if (!b->rank)
        return;
    if (!d->trans_a && !b->b[0] && b->a[0] == d->m * d->k) {
        d->m *= b->dim[0];
    } else {
        d->batch = b->dim[0];
        d->stride_a = b->a[0];
        d->stride_b = b->b[0];
    }
    for (int i = 1; i < b->rank; i++) {
        b->dim[i - 1] = b->dim[i];
        b->a[i - 1] = b->a[i];
        b->b[i - 1] = b->b[i];
    }
    b->rank--;
}

/* The alignment of whole tensors and of the places in them where products begin. */
static int alignment(const State *s, const Batches *b)
{
    uint64_t bits = s->products > 1 ? (uint64_t)s->step_c * s->size : 0;

    for (int i = 0; i < b->rank; i++)
        bits |= (uint64_t)b->a[i] * s->size | (uint64_t)b->b[i] * s->size;
    return (int)unit_of(bits);
}

static void cuda_matmul_describe(State *s, GpuGemm *d, const Graph *g, const Node *n)
{
    const Value *y = value(g, n->out[0]);
    MatMulRoles r;

    matmul_roles(&r, g, n);
    *d = read_roles(y->dtype, &r);
    d->alpha = node_attr(n, "alpha") ? node_float(n, "alpha") : 1;
    read_batches(&s->outer, &r, y->shape, d);
    take_inner(d, &s->outer);
    s->size = dtype_size(y->dtype);
    d->stride_c = d->m * d->n;
    s->step_c = d->stride_c * d->batch;
    s->products = 1;
    for (int i = 0; i < s->outer.rank; i++)
        s->products *= s->outer.dim[i];
    d->align = alignment(s, &s->outer);
}

/* How C [rows, cols], where either may be 1, is added; `spread` is its copy over the whole result. */
static void describe_c(State *s, GpuGemm *d, const Graph *g, const Node *n)
{
    const Shape *c = in_value(g, n, 2)->shape;
    int64_t cols = c->rank ? c->dim[c->rank - 1] : 1, rows = c->rank > 1 ? c->dim[c->rank - 2] : 1;
    const MoveDims dims = {
        .rank = 2, .dim = { d->m, d->n }, .to = { d->n, 1 }, .from = { rows == 1 ? 0 : cols, cols == 1 ? 0 : 1 }
    };

    d->beta = node_float(n, "beta");
    s->c = rows == d->m && cols == d->n ? C_WHOLE : C_SPREAD;
    if (d->beta == 1 && rows == 1 && cols == d->n && d->k) {
        d->beta = 0;
        d->bias = true;
        s->c = C_BIAS;
    }
    if (!d->k)
        s->c = C_SPREAD;
    move_plan(&s->spread, s->size, &dims);
}

/* ---- the kernel ---- */

static Status plan(State *s, GpuGemm *d, KernelCtx *ctx, size_t *workspace)
{
    Status st = s->driver->gemm(ctx->gpu, d, &s->plan, workspace);

    if (st != E_UNSUPPORTED || s->c != C_BIAS)
        return cuda_check(ctx, st);
    d->bias = false;
    d->beta = 1;
    s->c = C_SPREAD;
    return cuda_check(ctx, s->driver->gemm(ctx->gpu, d, &s->plan, workspace));
}

/* beta * C alone, without a product, is a copy for beta = 1. */
static bool cuda_matmul_fits(const Graph *g, const Node *n)
{
    State s = { 0 };
    GpuGemm d = { 0 };

    cuda_matmul_describe(&s, &d, g, n);
    return s.products <= MOST_PRODUCTS && (d.k || !has_in(n, 2) || node_float(n, "beta") == 1);
}

static Status cuda_matmul_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    State *s = calloc(1, sizeof *s);
    GpuGemm d = { 0 };
    size_t workspace = 0;
    Status st = ST_OK;

    if (!s)
        return FAIL_NOMEM();
    s->driver = cuda_driver(ctx);
    cuda_matmul_describe(s, &d, g, n);
    if (has_in(n, 2))
        describe_c(s, &d, g, n);
    s->zero = !d.k && s->c == C_NONE;
    if (d.k && shape_numel(value(g, n->out[0])->shape))
        TRY_TO(fail, st, plan(s, &d, ctx, &workspace));
    if (s->c == C_SPREAD)
        TRY_TO(fail, st, move_prepare(&s->spread, ctx));
    ctx->scratch_bytes = workspace > ctx->scratch_bytes ? workspace : ctx->scratch_bytes;
    *state = s;
    return ST_OK;
fail:
    cuda_matmul_release(s);
    return st;
}

/* Product i of those that the outer batch axes ask for. */
static Status run_product(const KernelCtx *ctx, const State *s, int64_t i, const Tensor *in, const Tensor *out)
{
    int64_t a = 0, b = 0, rest = i;
    void *buffers[GEMM_BUFFERS] = { NULL };

    for (int k = 0; k < s->outer.rank; rest /= s->outer.dim[k], k++) {
        a += rest % s->outer.dim[k] * s->outer.a[k];
        b += rest % s->outer.dim[k] * s->outer.b[k];
    }
    buffers[GEMM_A] = (char *)in[0].data + a * (int64_t)s->size;
    buffers[GEMM_B] = (char *)in[1].data + b * (int64_t)s->size;
    buffers[GEMM_C] = (char *)out[0].data + i * s->step_c * (int64_t)s->size;
    if (s->c == C_BIAS)
        buffers[GEMM_BIAS] = in[2].data;
    else if (s->c != C_NONE)
        buffers[GEMM_C0] = s->c == C_WHOLE ? in[2].data : buffers[GEMM_C];
    TRY_CUDA(ctx, plan_run(ctx->stream, s->plan, buffers, ctx->scratch));
    return ST_OK;
}

static Status cuda_matmul_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;

    if (s->zero && tensor_bytes(&out[0]))
        TRY_CUDA(ctx, runtime.zero(ctx->stream, out[0].data, tensor_bytes(&out[0])));
    if (s->c == C_SPREAD)
        TRY(move_run(ctx, &s->spread, out[0].data, in[2].data));
    for (int64_t i = 0; s->plan && i < s->products; i++)
        TRY(run_product(ctx, s, i, in, out));
    return ST_OK;
}

#define PRODUCT                                                                                                   \
    .dtypes = DTYPES_FLOAT, .supports = cuda_matmul_fits, .prepare = cuda_matmul_prepare, .run = cuda_matmul_run, \
    .release = cuda_matmul_release

DEFINE_KERNEL(cuda_matmul, .op = &op_MatMul, PRODUCT);
DEFINE_KERNEL(cuda_batch_matmul, .op = &op_BatchMatMul, PRODUCT);
DEFINE_KERNEL(cuda_gemm, .op = &op_Gemm, PRODUCT);
