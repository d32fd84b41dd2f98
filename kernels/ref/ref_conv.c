/* Convolution and its gradients as the defining sum: for each kernel position, rows of input and output are paired.
 *
 * All operators visit the same (row, weight) pairs; they differ only in the tensor that they accumulate into.  ConvRelu
 * is Conv and then max(0, y + z). */
#include "graph/ops/conv.gen.h"
#include "graph/ops/conv.h"
#include "graph/ops/window.h"
#include "kernels/ref/ref.h"

typedef struct {
    Window win;
    int64_t batch, group, cg, mg; /* channels of x and y per group */
    bool bias, added;
} Plan;

/* Plan from the shapes in x's, w's and y's roles. */
static Status ref_conv_make_plan(void **state, const Node *n, const Shape *x, const Shape *w, const Shape *y)
{
    Plan p = { .batch = x->dim[0], .group = node_int(n, "group"), .cg = w->dim[1], .bias = has_in(n, CONV_IN_BIAS) };

    p.mg = w->dim[0] / p.group;
    p.added = has_in(n, CONV_IN_ADDED);
    window_read(&p.win, n, x, y, w->dim + 2);
    return kernel_state(state, &p, sizeof p);
}

static Status prepare_conv(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_conv_make_plan(state, n, in_value(g, n, 0)->shape, in_value(g, n, 1)->shape, value(g, n->out[0])->shape);
}

static Status ref_conv_prepare_input(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_conv_make_plan(state, n, value(g, n->out[0])->shape, in_value(g, n, 1)->shape, in_value(g, n, 0)->shape);
}

static Status prepare_weight(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_conv_make_plan(state, n, in_value(g, n, 0)->shape, value(g, n->out[0])->shape, in_value(g, n, 1)->shape);
}

/* The tensor that a loop accumulates into. */
typedef enum { INTO_X, INTO_W, INTO_Y } Role;

#define BODY "kernels/ref/ref_conv.inc"
#include "kernels/each_type.inc"

RUN_FLOAT(run_conv, convolve, INTO_Y, state, in, out)
RUN_FLOAT(run_input, convolve, INTO_X, state, in, out)
RUN_FLOAT(run_weight, convolve, INTO_W, state, in, out)
RUN_FLOAT(run_conv_relu, convolve_relu, state, in, out)

DEFINE_KERNEL(ref_conv, .op = &op_Conv, .dtypes = DTYPES_F32_F64, .prepare = prepare_conv, .run = run_conv,
              .release = free);
DEFINE_KERNEL(ref_conv_relu, .op = &op_ConvRelu, .dtypes = DTYPES_F32_F64, .prepare = prepare_conv,
              .run = run_conv_relu, .release = free);
DEFINE_KERNEL(ref_conv_grad_input, .op = &op_ConvGradInput, .dtypes = DTYPES_F32_F64, .prepare = ref_conv_prepare_input,
              .run = run_input, .release = free);
DEFINE_KERNEL(ref_conv_grad_weight, .op = &op_ConvGradWeight, .dtypes = DTYPES_F32_F64, .prepare = prepare_weight,
              .run = run_weight, .release = free);
DEFINE_KERNEL(ref_conv_transpose, .op = &op_ConvTranspose, .dtypes = DTYPES_F32_F64, .prepare = ref_conv_prepare_input,
              .run = run_input, .release = free);
