/* The norm of gradients, shared among the team. */
#include <math.h>
#include <stdlib.h>

#include "kernels/backend.h"
#include "kernels/cpu/team.h"

/* ---- norm: sums of blocks in double, added in order, so that the team's size does not change a bit ---- */

typedef struct {
    int n;
    double max_norm;
    bool scaled;
    int64_t blocks;
} Norm; /* n: tensors */
enum { BLOCK = 4096 };

static Status prepare_norm(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Norm *p = malloc(sizeof *p);
    size_t bytes;

    if (!p)
        return FAIL_NOMEM();
    *p = (Norm){ .max_norm = node_float(n, "max_norm"), .scaled = node_int(n, "scaled") != 0 };
    p->n = n->n_in - p->scaled;
    for (int i = 0; i < p->n; i++) {
        int64_t blocks = shape_numel(&in_value(g, n, i)->shape) / BLOCK + 1;

        p->blocks = blocks > p->blocks ? blocks : p->blocks;
    }
    bytes = (size_t)p->blocks * sizeof(double);
    ctx->scratch_bytes = bytes > ctx->scratch_bytes ? bytes : ctx->scratch_bytes;
    *state = p;
    return ST_OK;
}

#define BODY "kernels/cpu/optimizer.inc"
#include "kernels/each_type.inc"

static Status run_norm(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
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

DEFINE_KERNEL(cpu_global_norm, .op = &op_GlobalNorm, .dtypes = DTYPES_F32_F64, .rank = 10, .prepare = prepare_norm,
              .run = run_norm, .release = free);
