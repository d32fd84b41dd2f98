/* Convolution and its gradients as prepared calls of the library: bias in the call, sums in float32 (float64).
 *
 * ConvRelu is one call too, which rounds once, where the library has it for the type, shape and layout, and keeps a
 * NaN.  If not, the call makes the convolution with its bias, and an own kernel (kernels/cuda/device/conv.cu) the rest,
 * in place on Y: without Z that gives the same, because Relu and rounding to 16 bits can change places.
 *
 * A filter of one position that takes every element once is a product of matrices, positions by channels, where
 * channels are last: cublasLt computes it.
 *
 * Tensors stand in their roles x, w, y whatever the operator: ConvGradInput and ConvTranspose read y and w and give x.
 * Tensors are all stored by rows or all channels last.  Empty tensors and absurd sizes are left to the host. */
#include <stdlib.h>

#include "graph/ops/conv.gen.h"
#include "graph/ops/conv.h"
#include "graph/ops/window.h"
#include "kernels/cuda/device/conv.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/rows.h"

typedef struct {
    const CudaDriver *driver;
    GpuPlan *plan;
    bool product; /* the plan is a product's */
    ConvKind kind;
    bool bias, added;
    GpuKernel *relu; /* of a ConvRelu that the plan leaves without Z and Relu; NULL: nothing is left */
    long long n;     /* elements of Y for it */
} State;

enum { X, W, Y, ROLES };

static bool is_forward(const Node *n) { return n->op == &op_Conv || n->op == &op_ConvRelu; }

/* The shapes of the tensors in their roles. */
static void roles(const Shape *role[ROLES], const Graph *g, const Node *n)
{
    const Shape *a = in_value(g, n, 0)->shape, *b = in_value(g, n, 1)->shape, *out = value(g, n->out[0])->shape;
    const bool weight = n->op == &op_ConvGradWeight;

    role[X] = is_forward(n) || weight ? a : out;
    role[W] = weight ? out : b;
    role[Y] = is_forward(n) ? out : weight ? b : a;
}

static bool sizes_fit(const Shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < 1 || s->dim[i] > INT32_MAX)
            return false;
    return true;
}

/* The library adds no bias to a gradient; such a ConvTranspose is lowered before kernels are chosen. */
static bool cuda_conv_fits(const Graph *g, const Node *n)
{
    const Shape *r[ROLES];

    roles(r, g, n);
    return (is_forward(n) || (!has_in(n, CONV_IN_BIAS) && conv_reaches_all(g, n))) && sizes_fit(r[X]) &&
           sizes_fit(r[W]) && sizes_fit(r[Y]);
}

/* Tensors that are not marked channels last then have the same order in both layouts. */
static bool is_channels_last(const Graph *g, const Node *n)
{
    return in_value(g, n, 0)->layout == LAYOUT_CHANNELS_LAST || in_value(g, n, 1)->layout == LAYOUT_CHANNELS_LAST ||
           value(g, n->out[0])->layout == LAYOUT_CHANNELS_LAST;
}

static void cuda_conv_describe(GpuConv *c, const Graph *g, const Node *n)
{
    const ConvKind kind = is_forward(n)                 ? CONV_FORWARD
                          : n->op == &op_ConvGradWeight ? CONV_GRAD_WEIGHT
                                                        : CONV_GRAD_INPUT;
    const Shape *r[ROLES];
    Window w;
    int first;

    roles(r, g, n);
    window_read(&w, n, r[X], r[Y], r[W]->dim + 2);
    first = WINDOW_AXES - w.rank;
    *c = (GpuConv)
    {
        .kind = kind, .dtype = in_value(g, n, 0)->dtype, .channels_last = is_channels_last(g, n), .n_spatial = w.rank,
        .n = r[X]->dim[0], .c = r[X]->dim[1], .k = r[Y]->dim[1], .group = node_int(n, "group"),
        .bias = has_in(n, CONV_IN_BIAS), .add = has_in(n, CONV_IN_ADDED), .relu = n->op == &op_ConvRelu
    };
    for (int i = 0; i < w.rank; i++) {
        c->in[i] = w.in[first + i];
        c->kernel[i] = w.kernel[first + i];
        c->out[i] = w.out[first + i];
        c->stride[i] = w.stride[first + i];
        c->dilation[i] = w.dilation[first + i];
        c->pad_before[i] = w.pad[first + i];
        c->pad_after[i] = w.pad_end[first + i];
    }
}

/* ---- as a product ---- */

/* A dilation means nothing here; with one the library's convolution can be measured beside it (bench/README.md). */
static bool cuda_conv_is_product(const GpuConv *c)
{
    if (!c->channels_last || c->group != 1 || c->relu)
        return false;
    for (int i = 0; i < c->n_spatial; i++)
        if (c->kernel[i] != 1 || c->stride[i] != 1 || c->dilation[i] != 1 || c->in[i] != c->out[i] || c->pad_before[i])
            return false;
    return true;
}

/* Y = X W^T + bias, dX = dY W, dW = dY^T X, of X [positions, C], W [K, C] and Y [positions, K]. */
static GpuGemm product_of(const GpuConv *c)
{
    int64_t positions = c->n;
    GpuGemm d;

    for (int i = 0; i < c->n_spatial; i++)
        positions *= c->out[i];
    if (c->kind == CONV_GRAD_WEIGHT)
        return gemm_of(c->dtype, c->k, c->c, positions, true, false);
    if (c->kind == CONV_GRAD_INPUT)
        return gemm_of(c->dtype, positions, c->c, c->k, false, false);
    d = gemm_of(c->dtype, positions, c->k, c->c, false, true);
    d.bias = c->bias;
    return d;
}

static void product_buffers(void *out[GEMM_BUFFERS], ConvKind kind, void *const buffers[CONV_BUFFERS])
{
    static const int roles[][3] = { [CONV_FORWARD] = { CONV_X, CONV_W, CONV_Y },
                                    [CONV_GRAD_INPUT] = { CONV_Y, CONV_W, CONV_X },
                                    [CONV_GRAD_WEIGHT] = { CONV_Y, CONV_X, CONV_W } };

    out[GEMM_A] = buffers[roles[kind][0]];
    out[GEMM_B] = buffers[roles[kind][1]];
    out[GEMM_C] = buffers[roles[kind][2]];
    out[GEMM_BIAS] = buffers[CONV_BIAS];
}

/* ---- preparing and running ---- */

static void cuda_conv_release(void *state)
{
    State *s = state;

    s->driver->plan_free(s->plan);
    free(s);
}

/* Leaves in *c the part that the plan does. */
static Status cuda_conv_make_plan(State *s, GpuConv *c, const KernelCtx *ctx, size_t *workspace)
{
    Status st = E_UNSUPPORTED;

    if (cuda_conv_is_product(c)) {
        const GpuGemm d = product_of(c);

        st = s->driver->gemm(ctx->gpu, &d, &s->plan, workspace);
        s->product = !st;
    }
    if (st == E_UNSUPPORTED)
        st = s->driver->conv(ctx->gpu, c, &s->plan, workspace);
    if (st == E_UNSUPPORTED && c->relu) {
        TRY(cuda_kernel(&s->relu, ctx, "conv_relu", c->dtype));
        c->add = c->relu = false;
        st = s->driver->conv(ctx->gpu, c, &s->plan, workspace);
    }
    return cuda_check(ctx, st);
}

static Status cuda_conv_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    State *s = calloc(1, sizeof *s);
    size_t workspace;
    GpuConv c;
    Status st;

    if (!s)
        return FAIL_NOMEM();
    s->driver = cuda_driver(ctx);
    cuda_conv_describe(&c, g, n);
    s->kind = c.kind;
    s->bias = c.bias;
    s->added = c.add;
    s->n = shape_numel(value(g, n->out[0])->shape);
    if ((st = cuda_conv_make_plan(s, &c, ctx, &workspace))) {
        free(s);
        return status_prefix(st, "%s", node_text(g, n));
    }
    ctx->scratch_bytes = workspace > ctx->scratch_bytes ? workspace : ctx->scratch_bytes;
    *state = s;
    return ST_OK;
}

static Status run_plan(KernelCtx *ctx, void *state, void *const buffers[CONV_BUFFERS])
{
    State *s = state;
    void *operands[GEMM_BUFFERS] = { NULL };

    if (s->product)
        product_buffers(operands, s->kind, buffers);
    TRY_CUDA(ctx, plan_run(ctx->stream, s->plan, s->product ? operands : buffers, ctx->scratch));
    return ST_OK;
}

static Status cuda_conv_run_forward(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    void *z = s->added ? in[CONV_IN_ADDED].data : NULL;
    void *buffers[CONV_BUFFERS] = { [CONV_X] = in[CONV_IN_X].data,
                                    [CONV_W] = in[CONV_IN_W].data,
                                    [CONV_BIAS] = s->bias ? in[CONV_IN_BIAS].data : NULL,
                                    [CONV_Z] = z,
                                    [CONV_Y] = out[0].data };

    TRY(run_plan(ctx, state, buffers));
    if (!s->relu)
        return ST_OK;
    return cuda_launch(ctx, s->relu, cuda_blocks(s->n, CONV_GROUP * CONV_THREADS, MOST_BLOCKS), CONV_THREADS, 0,
                       CUDA_ARGS(&out[0].data, &z, (void *)&s->n));
}

static Status cuda_conv_run_input(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    void *buffers[CONV_BUFFERS] = { [CONV_X] = out[0].data, [CONV_W] = in[1].data, [CONV_Y] = in[0].data };

    return run_plan(ctx, state, buffers);
}

static Status run_weight(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    void *buffers[CONV_BUFFERS] = { [CONV_X] = in[0].data, [CONV_W] = out[0].data, [CONV_Y] = in[1].data };

    return run_plan(ctx, state, buffers);
}

/* Without a bias the library has no engine that is not compiled at run time: Relu then goes with what else is
 * elementwise. */
static bool fits_relu(const Graph *g, const Node *n) { return has_in(n, CONV_IN_BIAS) && cuda_conv_fits(g, n); }

/* All in one order, filters too. */
static bool cuda_conv_layouts(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const ValueId v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];

        if (has_value(v) && layout_suits(LAYOUT_CHANNELS_LAST, value(g, v)->shape) &&
            value(g, v)->layout != LAYOUT_CHANNELS_LAST)
            return false;
    }
    return kernel_channels_last(g, n);
}

#define CONVOLUTION \
    .dtypes = DTYPES_FLOAT, .layouts = cuda_conv_layouts, .prepare = cuda_conv_prepare, .release = cuda_conv_release

DEFINE_KERNEL(cuda_conv, .op = &op_Conv, CONVOLUTION, .supports = cuda_conv_fits, .run = cuda_conv_run_forward);
DEFINE_KERNEL(cuda_conv_relu, .op = &op_ConvRelu, CONVOLUTION, .supports = fits_relu, .run = cuda_conv_run_forward);
DEFINE_KERNEL(cuda_conv_grad_input, .op = &op_ConvGradInput, CONVOLUTION, .supports = cuda_conv_fits,
              .run = cuda_conv_run_input);
DEFINE_KERNEL(cuda_conv_grad_weight, .op = &op_ConvGradWeight, CONVOLUTION, .supports = cuda_conv_fits,
              .run = run_weight);
DEFINE_KERNEL(cuda_conv_transpose, .op = &op_ConvTranspose, CONVOLUTION, .supports = cuda_conv_fits,
              .run = cuda_conv_run_input);
