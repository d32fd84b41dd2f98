/* Interpolate and its gradient: sums of neighbours along an axis, by tables of indices and weights. */
#include "kernels/ref/ref_interpolate.h"
#include "graph/ops/resize.gen.h"

#include <stdlib.h>
#include <string.h>

Status interpolate_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool back = n->op == &op_InterpolateGrad;
    const Shape *x = back ? value(g, n->out[0])->shape : in_value(g, n, 0)->shape, *table = in_value(g, n, 1)->shape;
    const int axis = (int)node_int(n, "axis");

    (void)ctx;
    return kernel_state(state,
                        &(InterpolatePlan){ shape_count(x, 0, axis), x->dim[axis], table->dim[0],
                                            shape_count(x, axis + 1, x->rank), table->dim[1] },
                        sizeof(InterpolatePlan));
}

#define BODY "kernels/ref/ref_interpolate.inc"
#include "kernels/each_type.inc"

RUN_FLOAT(run, interpolate, state, in[0].data, in[1].data, in[2].data, out[0].data)
RUN_FLOAT(run_back, spread, state, in[0].data, in[1].data, in[2].data, out[0].data)

#define COMMON .dtypes = DTYPES_F32_F64, .prepare = interpolate_prepare, .release = free

DEFINE_KERNEL(ref_interpolate, .op = &op_Interpolate, COMMON, .run = run);
DEFINE_KERNEL(ref_interpolate_grad, .op = &op_InterpolateGrad, COMMON, .run = run_back);
