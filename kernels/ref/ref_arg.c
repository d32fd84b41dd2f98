/* ArgMax, ArgMin, CumSum and CumProd along one axis. */
#include "graph/ops/arg.gen.h"
#include "kernels/ref/ref.h"

/* Bits of RefNode.mode: of ArgMax and ArgMin (LAST: of equal ones), of CumSum and CumProd. */
enum { LAST = 1, LARGEST = 2, EXCLUSIVE = 1, REVERSE = 2 };

static Status prepare_arg(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_mode_prepare(state, g, n,
                            (node_int(n, "select_last_index") ? LAST : 0) | (n->op == &op_ArgMax ? LARGEST : 0));
}

/* The axis of CumSum and CumProd is known only when they run. */
static Status prepare_cumsum(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    return ref_mode_prepare(state, g, n,
                            (node_int(n, "exclusive") ? EXCLUSIVE : 0) | (node_int(n, "reverse") ? REVERSE : 0));
}

/* The lines along the axis that input 1 names. */
static Status lines_along(AxisLines *out, const RefNode *p, const Tensor *in)
{
    int axis;

    TRY(shape_axis(&axis, tensor_int(&in[1], 0), in[0].shape.rank, p->what));
    *out = shape_lines(&in[0].shape, axis);
    return ST_OK;
}

#define BODY "kernels/ref/ref_arg.inc"
#define TYPES OF_NUMBERS
#include "kernels/each_type.inc"

static Status run_arg(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const arg[])(int64_t, const AxisLines *, const void *, int64_t *) = { OF_EACH_NUMBER(arg) };
    const RefNode *p = state;
    const AxisLines lines = shape_lines(&in[0].shape, p->axis);

    (void)ctx;
    arg[in[0].dtype](p->mode, &lines, in[0].data, out->data);
    return ST_OK;
}

static Status run_cumsum(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const cumsum[])(int64_t, const AxisLines *, const void *, void *) = { OF_EACH_NUMBER(cumsum) };
    const RefNode *p = state;
    AxisLines lines;

    (void)ctx;
    TRY(lines_along(&lines, p, in));
    cumsum[in[0].dtype](p->mode, &lines, in[0].data, out->data);
    return ST_OK;
}

static Status run_cumprod(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const cumprod[])(int64_t, const AxisLines *, const void *, void *) = { OF_EACH_NUMBER(cumprod) };
    const RefNode *p = state;
    AxisLines lines;

    (void)ctx;
    TRY(lines_along(&lines, p, in));
    cumprod[in[0].dtype](p->mode, &lines, in[0].data, out->data);
    return ST_OK;
}

static Status run_cumprod_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const gradient[])(int64_t, const AxisLines *, const void *, const void *,
                                    void *) = { OF_EACH_NUMBER(cumprod_grad) };
    const RefNode *p = state;
    AxisLines lines;

    (void)ctx;
    TRY(lines_along(&lines, p, in));
    gradient[in[0].dtype](p->mode, &lines, in[0].data, in[2].data, out->data);
    return ST_OK;
}

#define COMMON .dtypes = DTYPES_F32_F64 | DTYPES_INT, .release = free

DEFINE_KERNEL(ref_arg_max, .op = &op_ArgMax, COMMON, .prepare = prepare_arg, .run = run_arg);
DEFINE_KERNEL(ref_arg_min, .op = &op_ArgMin, COMMON, .prepare = prepare_arg, .run = run_arg);
DEFINE_KERNEL(ref_cumsum, .op = &op_CumSum, COMMON, .prepare = prepare_cumsum, .run = run_cumsum);
DEFINE_KERNEL(ref_cumprod, .op = &op_CumProd, COMMON, .prepare = prepare_cumsum, .run = run_cumprod);
DEFINE_KERNEL(ref_cumprod_grad, .op = &op_CumProdGrad, .dtypes = DTYPES_F32_F64, .prepare = prepare_cumsum,
              .run = run_cumprod_grad, .release = free);
