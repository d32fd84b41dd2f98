/* Softmax and LogSoftmax along one axis by their definitions; sums in the element's type. */
#include <tgmath.h>

#include "graph/ops/softmax.gen.h"
#include "kernels/ref/ref.h"

/* The older meaning is lowered. */
static bool ref_softmax_along_axis(const Graph *g, const Node *n)
{
    (void)g;
    return !node_int(n, "flatten");
}

#define BODY "kernels/ref/ref_softmax.inc"
#include "kernels/each_type.inc"

RUN_FLOAT(run_softmax, exponentials, state, in[0].data, out[0].data, false)
RUN_FLOAT(run_log_softmax, exponentials, state, in[0].data, out[0].data, true)

#define COMMON \
    .dtypes = DTYPES_F32_F64, .supports = ref_softmax_along_axis, .prepare = ref_prepare_lines, .release = free

DEFINE_KERNEL(ref_softmax, .op = &op_Softmax, COMMON, .run = run_softmax);
DEFINE_KERNEL(ref_log_softmax, .op = &op_LogSoftmax, COMMON, .run = run_log_softmax);
