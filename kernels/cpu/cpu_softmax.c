/* Softmax and LogSoftmax: rows of memory where the elements of a sum are consecutive, else tiles of columns. */
#include "kernels/cpu/cpu_softmax.h"
#include "graph/ops/softmax.gen.h"

#include <stdlib.h>

#include "kernels/backend.h"
#include "kernels/cpu/team.h"

static bool cpu_softmax_along_axis(const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;

    return !node_int(n, "flatten") && x->dim[node_int(n, "axis")] > 0;
}

static Status cpu_softmax_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const SoftmaxPlan p = softmax_plan(in_value(g, n, 0)->shape, (int)node_int(n, "axis"), ctx);
    return kernel_state(state, &p, sizeof p);
}

static Status run_softmax(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    if (in[0].dtype == DT_FLOAT32)
        each_f32(state, in[0].data, out[0].data, softmax_row_f32, softmax_columns_f32);
    else
        each_f64(state, in[0].data, out[0].data, softmax_row_f64, softmax_columns_f64);
    return ST_OK;
}

static Status run_log_softmax(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    if (in[0].dtype == DT_FLOAT32)
        each_f32(state, in[0].data, out[0].data, log_softmax_row_f32, log_softmax_columns_f32);
    else
        each_f64(state, in[0].data, out[0].data, log_softmax_row_f64, log_softmax_columns_f64);
    return ST_OK;
}

#define COMMON \
    .dtypes = DTYPES_F32_F64, .supports = cpu_softmax_along_axis, .prepare = cpu_softmax_prepare, .release = free

DEFINE_KERNEL(cpu_softmax, .op = &op_Softmax, COMMON, .run = run_softmax);
DEFINE_KERNEL(cpu_log_softmax, .op = &op_LogSoftmax, COMMON, .run = run_log_softmax);
