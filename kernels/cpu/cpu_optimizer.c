/* The norm of gradients, shared among the team. */
#include <stdlib.h>
#include <string.h>

#include "graph/ops/optimizer.gen.h"
#include "kernels/backend.h"
#include "kernels/cpu/team.h"
#include "kernels/ref/gradient_norm.h"

/* ---- norm: sums of blocks in double, added in order, so that the team's size does not change a bit ---- */

enum { BLOCK = NORM_PIECE };

/* Scratch: the sums of the largest tensor. */
static Status cpu_optimizer_prepare_norm(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const int tensors = n->n_in - (node_int(n, "scaled") != 0);

    for (int i = 0; i < tensors; i++) {
        const size_t bytes = (size_t)(shape_numel(in_value(g, n, i)->shape) / BLOCK + 1) * sizeof(double);

        ctx->scratch_bytes = bytes > ctx->scratch_bytes ? bytes : ctx->scratch_bytes;
    }
    return gradient_norm_prepare(state, ctx, g, n);
}

#define BODY "kernels/cpu/cpu_optimizer.inc"
#include "kernels/each_type.inc"

static Status cpu_optimizer_run_norm(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const GradientNorm *p = state;
    double sum = 0;

    for (int i = 0; i < p->n; i++) {
        int64_t n = tensor_numel(&in[i]);
        int team = team_size(ctx, n);

        sum += in[i].dtype == DT_FLOAT32 ? squares_f32(team, n, in[i].data, ctx->scratch)
                                         : squares_f64(team, n, in[i].data, ctx->scratch);
    }
    gradient_norm_write(p, sum, p->scaled ? &in[p->n] : NULL, out);
    return ST_OK;
}

DEFINE_KERNEL(cpu_global_norm, .op = &op_GlobalNorm, .dtypes = DTYPES_F32_F64, .rank = 10,
              .prepare = cpu_optimizer_prepare_norm, .run = cpu_optimizer_run_norm, .release = free);

/* ---- the sums of its blocks: of a piece, at their places among all ---- */

static Status run_sums(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const GradientNorm *p = state;
    double *sum = out->data;

    if (tensor_bytes(out))
        memset(sum, 0, tensor_bytes(out));
    for (int i = 0; i < p->n; sum += norm_pieces(p->count[i++])) {
        int64_t n = p->from[i] < 0 ? 0 : tensor_numel(&in[i]);
        int team = team_size(ctx, n);

        if (n)
            in[i].dtype == DT_FLOAT32 ? squares_f32(team, n, in[i].data, sum + p->from[i] / BLOCK)
                                      : squares_f64(team, n, in[i].data, sum + p->from[i] / BLOCK);
    }
    return ST_OK;
}

DEFINE_KERNEL(cpu_square_sums, .op = &op_SquareSums, .dtypes = DTYPES_F32_F64, .rank = 10,
              .prepare = gradient_norm_prepare, .run = run_sums, .release = free);
