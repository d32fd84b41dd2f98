/* DeltaRule and DeltaRuleGrad: each head of each sample on its own, position after position; sums in double. */
#include "graph/ops/linear_attention.gen.h"
#include "graph/ops/linear_attention.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/ref/ref.h"

/* Doubles in scratch: states of dk * dv, then the two factors of a position's written values. */
static size_t states(const DeltaRule *r, bool back) { return back ? (size_t)r->steps + 3 : 1; }

static Status ref_linear_attention_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const bool back = n->op == &op_DeltaRuleGrad;
    DeltaRule r;
    size_t bytes;

    delta_rule_read(&r, g, n);
    if (r.dv > INT32_MAX / (r.dk + 1) || r.steps + 3 > INT32_MAX / (r.dk * r.dv + 1) * (int64_t)1024)
        return FAIL(E_UNSUPPORTED, "%s: a state of %lld x %lld over %lld positions is too large", node_text(g, n),
                    (long long)r.dk, (long long)r.dv, (long long)r.steps);
    bytes = (states(&r, back) * (size_t)(r.dk * r.dv) + (size_t)(3 * r.dv + r.dk)) * sizeof(double);
    if (bytes > ctx->scratch_bytes)
        ctx->scratch_bytes = bytes;
    return kernel_state(state, &r, sizeof r);
}

#define BODY "kernels/ref/ref_linear_attention.inc"
#include "kernels/each_type.inc"

static void ref_linear_attention_list_inputs(Tensor all[DELTA_GRAD_INPUTS], const DeltaRule *r, const Tensor *in)
{
    for (int i = 0; i < DELTA_GRAD_INPUTS; i++)
        all[i] = i < r->n_in ? in[i] : (Tensor){ .data = NULL };
}

static Status ref_linear_attention_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Tensor all[DELTA_GRAD_INPUTS];

    ref_linear_attention_list_inputs(all, state, in);
    in[0].dtype == DT_FLOAT32 ? forward_f32(state, ctx->scratch, all, out) : forward_f64(state, ctx->scratch, all, out);
    return ST_OK;
}

static Status run_back(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    Tensor all[DELTA_GRAD_INPUTS];

    ref_linear_attention_list_inputs(all, state, in);
    in[0].dtype == DT_FLOAT32 ? backward_f32(state, ctx->scratch, all, out)
                              : backward_f64(state, ctx->scratch, all, out);
    return ST_OK;
}

DEFINE_KERNEL(ref_delta_rule, .op = &op_DeltaRule, .dtypes = DTYPES_F32_F64, .prepare = ref_linear_attention_prepare,
              .run = ref_linear_attention_run, .release = free);
DEFINE_KERNEL(ref_delta_rule_grad, .op = &op_DeltaRuleGrad, .dtypes = DTYPES_F32_F64,
              .prepare = ref_linear_attention_prepare, .run = run_back, .release = free);
