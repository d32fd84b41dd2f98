/* Interpolate and its gradient: rows of a block in front of the axis by several threads, each sum in the order of the
 * reference.  In the gradient a thread owns whole blocks, or where there are too few of them a part of the axis. */
#include "graph/ops/resize.gen.h"
#include "kernels/ref/ref_interpolate.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/team.h"

#define BODY "kernels/cpu/cpu_interpolate.inc"
#include "kernels/each_type.inc"

RUN_FLOAT(run, interpolate, ctx, state, in[0].data, in[1].data, in[2].data, out[0].data)
RUN_FLOAT(run_back, spread, ctx, state, in[0].data, in[1].data, in[2].data, out[0].data)

#define COMMON .dtypes = DTYPES_F32_F64, .prepare = interpolate_prepare, .release = free

DEFINE_KERNEL(cpu_interpolate, .op = &op_Interpolate, COMMON, .run = run);
DEFINE_KERNEL(cpu_interpolate_grad, .op = &op_InterpolateGrad, COMMON, .run = run_back);
