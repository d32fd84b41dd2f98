/* Fused: its whole program as one generated kernel. */
#include <stdlib.h>

#include "kernels/cuda/cuda_fused.h"
#include "graph/ops/fused.gen.h"
#include "graph/ops/fused.h"
#include "kernels/cuda/cuda_generate.h"
#include "kernels/cuda/expr.h"

void fused_take_constant(Graph *body, int i, const Graph *g, ValueId v)
{
    const Tensor *t = value_const(g, v);
    Value *x = value(body, body->input[i]);

    if (t && tensor_numel(t) == 1) {
        x->kind = V_CONST;
        x->init = t;
    }
}

Status fused_kernel_body(Graph **out, const Graph *g, const Node *n)
{
    Graph *body;

    TRY(fused_body(&body, g, n));
    for (int i = 0; i < n->n_in; i++)
        fused_take_constant(body, i, g, n->in[i]);
    *out = body;
    return ST_OK;
}

/* Out of memory counts as supported: preparing, which needs as much, then reports it. */
static bool cuda_fused_supports(const Graph *g, const Node *n)
{
    Graph *body = NULL;
    Generated *k;
    Status st;

    if (fused_sums(n))
        return false;
    k = calloc(1, sizeof *k);
    st = k ? fused_kernel_body(&body, g, n) : FAIL_NOMEM();
    st = st ? st : generate_elementwise(k, body);
    graph_free(body);
    generated_free(k);
    return !st || st == E_NOMEM;
}

static Status cuda_fused_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    Graph *body;

    TRY(fused_kernel_body(&body, g, n));
    return generated_prepare_body(state, ctx, body);
}

DEFINE_KERNEL(cuda_fused, .op = &op_Fused, .layouts = kernel_channels_last, .supports = cuda_fused_supports,
              .prepare = cuda_fused_prepare, .run = generated_run, .release = generated_release);
