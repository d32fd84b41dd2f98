/* Product: one call of the library that does as much of it as it can, and own kernels (kernels/cuda/device/product.cu)
 * for the rest.
 *
 * The library is asked for all of the epilogue, then without the sum, then for the product alone; it reports what it
 * lacks for these types and shapes when the plan is made.  Without its epilogue the product of 16-bit matrices is left
 * in scratch in float32 and an own kernel makes Y of it, so that either way Y is rounded once.
 *
 * Never asked for are
 *   - Relu's mask: cublasLt sets the bit of a 0 (its mask is x >= 0, as NVIDIA's own tests of it say), and Relu's
 * gradient at 0 is 0 here.  A mask of Y, made by an own kernel, serves its gradient epilogue as well as its own;
 *   - what Gelu keeps, with rows that are no multiple of 8 elements;
 *   - Gelu in float64: cublasLt 13.1 computes it to 1e-9;
 *   - a sum of another type than Y's, a sum of an operand behind an alpha (whether alpha applies to it is not
 * documented) or with a dimension of 1. */
#include <stdlib.h>

#include "graph/ops/product.gen.h"
#include "graph/ops/product.h"
#include "kernels/cuda/cuda_move.h"
#include "kernels/cuda/device/product.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sum.h"

typedef struct {
    const CudaDriver *driver;
    Product p;
    GpuPlan *plan; /* NULL: nothing to multiply */
    bool finishes; /* the epilogue is done by `epilogue` */
    GpuKernel *epilogue, *mask;
    MatrixSum *sum;       /* NULL: there is none, or the library does it */
    size_t product_bytes; /* of the product in scratch; 0: it is in Y */
    ProductBox box;
} State;

static void cuda_product_release(void *state)
{
    State *s = state;

    if (!s)
        return;
    if (s->plan)
        s->driver->plan_free(s->plan);
    free(s->sum);
    free(s);
}

/* ---- the library's part ---- */

static bool library_activates(const Product *p, DType y)
{
    return p->activation != PRODUCT_GELU_TANH || (y != DT_FLOAT64 && (!p->aux || p->n % 8 == 0));
}

static bool library_sums(const Product *p, DType y, DType sum)
{
    if (p->sum == PRODUCT_NO_SUM || y != sum)
        return false;
    if (p->sum == PRODUCT_SUM_RESULT)
        return p->gradient && library_activates(p, y);
    return p->activation == PRODUCT_LINEAR && !p->bias && p->alpha == 1 && p->m > 1 && p->n > 1 && p->k > 1;
}

static GpuGemm cuda_product_describe(const Product *p, const Graph *g, const Node *n)
{
    DType t = in_value(g, n, PRODUCT_A)->dtype, y = value(g, n->out[PRODUCT_Y])->dtype;
    GpuGemm d = gemm_of(t, p->m, p->n, p->k, p->trans_a, p->trans_b);

    d.dtype_c = y;
    d.alpha = p->alpha;
    d.beta = p->added;
    if (library_activates(p, y)) {
        d.bias = p->bias;
        d.activation = p->activation == PRODUCT_RELU        ? GEMM_RELU
                       : p->activation == PRODUCT_GELU_TANH ? GEMM_GELU_TANH
                                                            : GEMM_LINEAR;
        d.gradient = p->gradient;
        d.keep = p->aux && p->activation == PRODUCT_GELU_TANH && !p->gradient;
        d.ld_aux = p->activation == PRODUCT_RELU ? 8 * product_mask_row(p->n) : p->n;
    }
    if (has_out(n, PRODUCT_BIAS_GRAD) && library_sums(p, y, value(g, n->out[PRODUCT_BIAS_GRAD])->dtype))
        d.sum = p->sum == PRODUCT_SUM_RESULT ? GEMM_SUM_C : p->sum == PRODUCT_SUM_OF_A ? GEMM_SUM_A : GEMM_SUM_B;
    return d;
}

/* Without its epilogue, into float32 where Y has 16 bits. */
static GpuGemm without_epilogue(const GpuGemm *d)
{
    GpuGemm plain = gemm_of(d->dtype, d->m, d->n, d->k, d->trans_a, d->trans_b);

    plain.dtype_c = dtype_size(d->dtype_c) == 2 ? DT_FLOAT32 : d->dtype_c;
    plain.alpha = d->alpha;
    return plain;
}

/* Leaves in *d the part that the plan does. */
static Status cuda_product_make_plan(State *s, GpuGemm *d, const KernelCtx *ctx, size_t *workspace)
{
    Status st = s->finishes ? E_UNSUPPORTED : s->driver->gemm(ctx->gpu, d, &s->plan, workspace);

    if (st == E_UNSUPPORTED && d->sum && !s->finishes) {
        d->sum = GEMM_NO_SUM;
        st = s->driver->gemm(ctx->gpu, d, &s->plan, workspace);
    }
    if (st == E_UNSUPPORTED && (s->finishes || !gemm_plain(d))) {
        *d = without_epilogue(d);
        s->finishes = true;
        st = s->driver->gemm(ctx->gpu, d, &s->plan, workspace);
    }
    return cuda_check(ctx, st);
}

/* ---- preparing ---- */

static ProductBox cuda_product_box_of(const Product *p)
{
    ProductBox b = { .n = p->m * p->n,
                     .columns = p->n,
                     .mask_row = product_mask_row(p->n),
                     .relu = p->activation == PRODUCT_RELU,
                     .gelu = p->activation == PRODUCT_GELU_TANH,
                     .gradient = p->gradient };

    b.n_mask = p->m * b.mask_row;
    b.by_columns = divisor_of(b.columns);
    b.by_mask_row = divisor_of(b.mask_row);
    return b;
}

static Status cuda_product_prepare_sum(State *s, size_t *scratch, const KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Product *p = &s->p;
    DType from = p->sum == PRODUCT_SUM_RESULT ? value(g, n->out[PRODUCT_Y])->dtype : in_value(g, n, PRODUCT_A)->dtype;
    DType to = value(g, n->out[PRODUCT_BIAS_GRAD])->dtype;

    if (p->sum == PRODUCT_SUM_RESULT)
        return matrix_sum_prepare(&s->sum, scratch, ctx, from, to, p->m, p->n, true);
    if (p->sum == PRODUCT_SUM_OF_A)
        return matrix_sum_prepare(&s->sum, scratch, ctx, from, to, p->trans_a ? p->k : p->m, p->trans_a ? p->m : p->k,
                                  p->trans_a);
    return matrix_sum_prepare(&s->sum, scratch, ctx, from, to, p->trans_b ? p->n : p->k, p->trans_b ? p->k : p->n,
                              !p->trans_b);
}

/* The kernels for the rest of the work, where the plan does *d; *rest: scratch behind the product. */
static Status prepare_rest(State *s, const GpuGemm *d, size_t *rest, const KernelCtx *ctx, const Graph *g,
                           const Node *n)
{
    const Product *p = &s->p;
    DType y = value(g, n->out[PRODUCT_Y])->dtype;

    s->box = cuda_product_box_of(p);
    if (s->finishes)
        TRY(cuda_kernel(&s->epilogue, ctx, "product_epilogue", y));
    if (p->activation == PRODUCT_RELU && p->aux && !p->gradient)
        TRY(cuda_kernel(&s->mask, ctx, "product_mask", y));
    if (s->plan && s->finishes && (d->dtype_c != y || p->added)) /* Y may lie where `added` does */
        s->product_bytes = cuda_aligned(dtype_size(d->dtype_c) * (size_t)(p->m * p->n));
    return p->sum == PRODUCT_NO_SUM || d->sum ? ST_OK : cuda_product_prepare_sum(s, rest, ctx, g, n);
}

static Status cuda_product_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    State *s = calloc(1, sizeof *s);
    size_t rest = 0;
    GpuGemm d;
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->driver = cuda_driver(ctx);
    TRY_TO(fail, st, product_read(&s->p, g, n));
    d = cuda_product_describe(&s->p, g, n);
    s->finishes = !library_activates(&s->p, d.dtype_c) || !d.k;
    if (d.m && d.n && d.k)
        TRY_TO(fail, st, cuda_product_make_plan(s, &d, ctx, &rest));
    else
        d.sum = GEMM_NO_SUM;
    TRY_TO(fail, st, prepare_rest(s, &d, &rest, ctx, g, n));
    if (ctx->scratch_bytes < s->product_bytes + rest)
        ctx->scratch_bytes = s->product_bytes + rest;
    *state = s;
    return ST_OK;
fail:
    cuda_product_release(s);
    return st;
}

/* ---- running ---- */

static void *data_of(const Tensor *t, int i, bool there) { return there ? t[i].data : NULL; }

static Status cuda_product_multiply(const KernelCtx *ctx, const State *s, void *product, void *rest, const Tensor *in,
                                    const Tensor *out)
{
    const Product *p = &s->p;
    bool summed = p->sum != PRODUCT_NO_SUM && !s->sum, epilogue = !s->finishes;
    void *buffers[GEMM_BUFFERS] = { [GEMM_A] = in[PRODUCT_A].data, [GEMM_B] = in[PRODUCT_B].data, [GEMM_C] = product };

    buffers[GEMM_BIAS] = data_of(in, PRODUCT_BIAS, p->bias && epilogue);
    buffers[GEMM_C0] = data_of(in, PRODUCT_ADDED, p->added && epilogue);
    if (epilogue && p->aux && (p->gradient || p->activation == PRODUCT_GELU_TANH))
        buffers[GEMM_AUX] = p->gradient ? in[PRODUCT_AUX].data : out[PRODUCT_AUX_OUT].data;
    buffers[GEMM_SUM] = data_of(out, PRODUCT_BIAS_GRAD, summed);
    TRY_CUDA(ctx, plan_run(ctx->stream, s->plan, buffers, rest));
    return ST_OK;
}

static Status cuda_product_finish(const KernelCtx *ctx, const State *s, void *product, const Tensor *in,
                                  const Tensor *out)
{
    const Product *p = &s->p;
    void *acc = s->plan ? product : NULL, *bias = data_of(in, PRODUCT_BIAS, p->bias),
         *aux = data_of(in, PRODUCT_AUX, p->gradient), *added = data_of(in, PRODUCT_ADDED, p->added);
    void *kept = data_of(out, PRODUCT_AUX_OUT, p->aux && !p->gradient && p->activation == PRODUCT_GELU_TANH),
         *y = out[PRODUCT_Y].data;

    return cuda_launch(ctx, s->epilogue, cuda_blocks(s->box.n, FINISH_GROUP * FINISH_THREADS, MOST_BLOCKS),
                       FINISH_THREADS, 0, CUDA_ARGS(&acc, &bias, &aux, &added, &y, &kept, (void *)&s->box));
}

static Status make_mask(const KernelCtx *ctx, const State *s, const Tensor *out)
{
    return cuda_launch(ctx, s->mask, cuda_blocks(s->box.n_mask, FINISH_THREADS, MOST_BLOCKS), FINISH_THREADS, 0,
                       CUDA_ARGS((void *)&out[PRODUCT_Y].data, (void *)&out[PRODUCT_AUX_OUT].data, (void *)&s->box));
}

static Status cuda_product_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    void *product = s->product_bytes ? ctx->scratch : out[PRODUCT_Y].data;
    void *rest = s->product_bytes ? (char *)ctx->scratch + s->product_bytes : ctx->scratch;
    const void *summed = s->p.sum == PRODUCT_SUM_RESULT ? out[PRODUCT_Y].data
                                                        : in[s->p.sum == PRODUCT_SUM_OF_A ? PRODUCT_A : PRODUCT_B].data;

    if (s->plan)
        TRY(cuda_product_multiply(ctx, s, product, rest, in, out));
    if (s->finishes && s->box.n)
        TRY(cuda_product_finish(ctx, s, product, in, out));
    if (s->mask && s->box.n_mask)
        TRY(make_mask(ctx, s, out));
    return s->sum ? matrix_sum_run(s->sum, ctx, rest, summed, out[PRODUCT_BIAS_GRAD].data) : ST_OK;
}

/* The sizes must be ones that the sums can count. */
static bool cuda_product_fits(const Graph *g, const Node *n)
{
    DType t = in_value(g, n, PRODUCT_A)->dtype;

    return !has_out(n, PRODUCT_BIAS_GRAD) || (matrix_sum_fits(t, shape_numel(in_value(g, n, PRODUCT_A)->shape)) &&
                                              matrix_sum_fits(t, shape_numel(in_value(g, n, PRODUCT_B)->shape)) &&
                                              matrix_sum_fits(t, shape_numel(value(g, n->out[PRODUCT_Y])->shape)));
}

DEFINE_KERNEL(cuda_product, .op = &op_Product, .dtypes = DTYPES_FLOAT, .supports = cuda_product_fits,
              .prepare = cuda_product_prepare, .run = cuda_product_run, .release = cuda_product_release);
