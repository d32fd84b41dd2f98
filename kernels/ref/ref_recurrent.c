/* Recurrent and RecurrentGrad: each sequence on its own, step by step; sums in double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ops/recurrent.gen.h"
#include "graph/ops/recurrent.h"
#include "kernels/ref/ref.h"

enum { ROWS = 12 }; /* of `hidden` doubles, in scratch */

static Status ref_recurrent_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Recurrence r;
    size_t bytes;

    recurrence_read(&r, g, n);
    bytes = ROWS * (size_t)r.hidden * sizeof(double);
    if (bytes > ctx->scratch_bytes)
        ctx->scratch_bytes = bytes;
    return kernel_state(state, &r, sizeof r);
}

/* ---- the activation of one number of a gate ---- */
/* Rows of scratch behind h and c, in the backward pass: gradients by W x + Wb of each gate, by R H' + Rb, by H and by
 * C.
 */
enum { OF_W = 0, OF_R = 4, LAST_H = 8, LAST_C = 9 };

/* Is x cut off at the clip?  Clipped, a number at the bound itself has no slope: PyTorch's. */
static bool cut_off(const Recurrence *r, double x, bool clipped)
{
    return clipped && fabs(x) >= r->clip && r->clip < INFINITY;
}

static double slope_of_value(const Activation *a, double y)
{
    return a->kind == ACT_SIGMOID ? y * (1 - y) : a->kind == ACT_TANH ? 1 - y * y : y > 0;
}

#define BODY "kernels/ref/ref_recurrent.inc"
#include "kernels/each_type.inc"

/* All inputs, also those behind the last that the node lists. */
static void ref_recurrent_list_inputs(Tensor all[RECG_INPUTS], const Recurrence *r, const Tensor *in)
{
    for (int i = 0; i < RECG_INPUTS; i++)
        all[i] = i < r->n_in ? in[i] : (Tensor){ .data = NULL };
}

static Status ref_recurrent_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Tensor all[RECG_INPUTS];

    ref_recurrent_list_inputs(all, state, in);
    TRY(recurrence_check_lengths(state, all[REC_LENS].data));
    in[0].dtype == DT_FLOAT32 ? forward_f32(state, ctx->scratch, all, out) : forward_f64(state, ctx->scratch, all, out);
    return ST_OK;
}

static Status run_back(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Tensor all[RECG_INPUTS];

    ref_recurrent_list_inputs(all, state, in);
    TRY(recurrence_check_lengths(state, all[RECG_LENS].data));
    in[0].dtype == DT_FLOAT32 ? backward_f32(state, ctx->scratch, all, out)
                              : backward_f64(state, ctx->scratch, all, out);
    return ST_OK;
}

DEFINE_KERNEL(ref_recurrent, .op = &op_Recurrent, .dtypes = DTYPES_F32_F64, .prepare = ref_recurrent_prepare,
              .run = ref_recurrent_run, .release = free);
DEFINE_KERNEL(ref_recurrent_grad, .op = &op_RecurrentGrad, .dtypes = DTYPES_F32_F64, .prepare = ref_recurrent_prepare,
              .run = run_back, .release = free);
