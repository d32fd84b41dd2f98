/* ArgMax, ArgMin, CumSum and CumProd along one axis. */
#include "kernels/ref/ref.h"
#include "graph/ops/arg.gen.h"

typedef struct {
    AxisLines lines;
    bool last, max; /* last: of equal ones */
} Arg;

static Status prepare_arg(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const AxisLines lines = shape_lines(in_value(g, n, 0)->shape, (int)node_int(n, "axis"));

    (void)ctx;
    return kernel_state(state, &(Arg){ lines, node_int(n, "select_last_index") != 0, n->op == &op_ArgMax },
                        sizeof(Arg));
}

/* The state of CumSum and CumProd, whose axis is known only when they run. */
typedef struct {
    bool exclusive, reverse;
} Cumulate;

static Status prepare_cumsum(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    (void)ctx;
    (void)g;
    return kernel_state(state, &(Cumulate){ node_int(n, "exclusive") != 0, node_int(n, "reverse") != 0 },
                        sizeof(Cumulate));
}

#define BODY "kernels/ref/ref_arg.inc"
#define TYPES OF_NUMBERS
#include "kernels/each_type.inc"

static Status run_arg(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const arg[])(const Arg *, const void *, int64_t *) = { OF_EACH_NUMBER(arg) };

    (void)ctx;
    arg[in[0].dtype](state, in[0].data, out->data);
    return ST_OK;
}

static Status run_cumsum(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const cumsum[])(const Cumulate *, const AxisLines *, const void *,
                                  void *) = { OF_EACH_NUMBER(cumsum) };
    AxisLines lines;
    int axis;

    (void)ctx;
    TRY(shape_axis(&axis, tensor_int(&in[1], 0), in[0].shape.rank, "CumSum"));
    lines = shape_lines(&in[0].shape, axis);
    cumsum[in[0].dtype](state, &lines, in[0].data, out->data);
    return ST_OK;
}

static Status run_cumprod(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const cumprod[])(const Cumulate *, const AxisLines *, const void *,
                                   void *) = { OF_EACH_NUMBER(cumprod) };
    AxisLines lines;
    int axis;

    (void)ctx;
    TRY(shape_axis(&axis, tensor_int(&in[1], 0), in[0].shape.rank, "CumProd"));
    lines = shape_lines(&in[0].shape, axis);
    cumprod[in[0].dtype](state, &lines, in[0].data, out->data);
    return ST_OK;
}

static Status run_cumprod_grad(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    static void (*const gradient[])(const Cumulate *, const AxisLines *, const void *, const void *,
                                    void *) = { OF_EACH_NUMBER(cumprod_grad) };
    AxisLines lines;
    int axis;

    (void)ctx;
    TRY(shape_axis(&axis, tensor_int(&in[1], 0), in[0].shape.rank, "CumProdGrad"));
    lines = shape_lines(&in[0].shape, axis);
    gradient[in[0].dtype](state, &lines, in[0].data, in[2].data, out->data);
    return ST_OK;
}

#define COMMON .dtypes = DTYPES_F32_F64 | DTYPES_INT, .release = free

DEFINE_KERNEL(ref_arg_max, .op = &op_ArgMax, COMMON, .prepare = prepare_arg, .run = run_arg);
DEFINE_KERNEL(ref_arg_min, .op = &op_ArgMin, COMMON, .prepare = prepare_arg, .run = run_arg);
DEFINE_KERNEL(ref_cumsum, .op = &op_CumSum, COMMON, .prepare = prepare_cumsum, .run = run_cumsum);
DEFINE_KERNEL(ref_cumprod, .op = &op_CumProd, COMMON, .prepare = prepare_cumsum, .run = run_cumprod);
DEFINE_KERNEL(ref_cumprod_grad, .op = &op_CumProdGrad, .dtypes = DTYPES_F32_F64, .prepare = prepare_cumsum,
              .run = run_cumprod_grad, .release = free);
