/* The norm of gradients, shared among the team. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ops/update.h"
#include "graph/ops/optimizer.gen.h"
#include "kernels/backend.h"
#include "kernels/cpu/team.h"

/* ---- norm: sums of blocks in double, added in order, so that the team's size does not change a bit ---- */

typedef struct {
    int n;
    double max_norm;
    bool scaled;
    int64_t blocks;
} Norm; /* n: tensors */
enum { BLOCK = NORM_PIECE };

static Status cpu_optimizer_prepare_norm(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Norm p = { .max_norm = node_float(n, "max_norm"), .scaled = node_int(n, "scaled") != 0 };
    size_t bytes;

    p.n = n->n_in - p.scaled;
    for (int i = 0; i < p.n; i++) {
        int64_t blocks = shape_numel(in_value(g, n, i)->shape) / BLOCK + 1;

        p.blocks = blocks > p.blocks ? blocks : p.blocks;
    }
    bytes = (size_t)p.blocks * sizeof(double);
    ctx->scratch_bytes = bytes > ctx->scratch_bytes ? bytes : ctx->scratch_bytes;
    return kernel_state(state, &p, sizeof p);
}

#define BODY "kernels/cpu/cpu_optimizer.inc"
#include "kernels/each_type.inc"

static Status cpu_optimizer_run_norm(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Norm *p = state;
    double sum = 0, by = p->scaled ? tensor_float(&in[p->n], 0) : 1, norm, scale;

    for (int i = 0; i < p->n; i++) {
        int64_t n = tensor_numel(&in[i]);
        int team = team_size(ctx->n_threads, n);

        sum += in[i].dtype == DT_FLOAT32 ? squares_f32(team, n, in[i].data, ctx->scratch)
                                         : squares_f64(team, n, in[i].data, ctx->scratch);
    }
    norm = sqrt(sum) * fabs(by);
    scale = p->max_norm / (norm + 1e-6);
    tensor_set_float(&out[0], 0, norm);
    tensor_set_float(&out[1], 0, by * (scale > 1 ? 1 : scale));
    return ST_OK;
}

DEFINE_KERNEL(cpu_global_norm, .op = &op_GlobalNorm, .dtypes = DTYPES_F32_F64, .rank = 10,
              .prepare = cpu_optimizer_prepare_norm, .run = cpu_optimizer_run_norm, .release = free);

/* ---- the sums of its blocks: of a piece, at their places among all ---- */

typedef struct {
    int n;
    int64_t at[]; /* of each tensor: where its sums begin; -1: they are another device's */
} Sums;

static Status cpu_optimizer_prepare_sums(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Sums *p = malloc(sizeof *p + (size_t)n->n_in * sizeof *p->at);
    int len;
    const int64_t *count = node_ints(n, "count", &len), *from = node_ints(n, "from", &len);
    int64_t at = 0;

    (void)ctx, (void)g;
    if (!p)
        return FAIL_NOMEM();
    p->n = n->n_in;
    for (int i = 0; i < n->n_in; i++) {
        p->at[i] = from[i] < 0 ? -1 : at + from[i] / BLOCK;
        at += (count[i] + BLOCK - 1) / BLOCK;
    }
    *state = p;
    return ST_OK;
}

static Status run_sums(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const Sums *p = state;
    double *sum = out->data;

    if (tensor_bytes(out))
        memset(sum, 0, tensor_bytes(out));
    for (int i = 0; i < p->n; i++) {
        int64_t n = p->at[i] < 0 ? 0 : tensor_numel(&in[i]);
        int team = team_size(ctx->n_threads, n);

        if (n)
            in[i].dtype == DT_FLOAT32 ? squares_f32(team, n, in[i].data, sum + p->at[i])
                                      : squares_f64(team, n, in[i].data, sum + p->at[i]);
    }
    return ST_OK;
}

DEFINE_KERNEL(cpu_square_sums, .op = &op_SquareSums, .dtypes = DTYPES_F32_F64, .rank = 10,
              .prepare = cpu_optimizer_prepare_sums, .run = run_sums, .release = free);
