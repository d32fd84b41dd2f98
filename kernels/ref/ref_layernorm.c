/* LayerNormalization and its gradient, row by row; mean and variance in double by two passes. */
#include <math.h>

#include "graph/ops/layernorm.gen.h"
#include "kernels/ref/layer_norm.h"
#include "kernels/ref/ref.h"

static Status ref_layernorm_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const LayerNorm p = layer_norm_read(g, n);

    (void)ctx;
    return kernel_state(state, &p, sizeof p);
}

#define BODY "kernels/ref/ref_layernorm.inc"
#include "kernels/each_type.inc"

#define GIVEN(t, has) (((const LayerNorm *)state)->has ? (t).data : NULL)
RUN_FLOAT(run_forward, forward, state, in[0].data, in[1].data, GIVEN(in[2], has_bias), out[0].data,
          GIVEN(out[1], has_mean), GIVEN(out[2], has_inv))
RUN_FLOAT(run_backward, backward, state, in[0].data, in[1].data, in[2].data,
          GIVEN(in[LAYER_NORM_GRAD_ADDED], has_added), out[0].data, out[1].data, out[2].data)

DEFINE_KERNEL(ref_layer_normalization, .op = &op_LayerNormalization, .dtypes = DTYPES_F32_F64,
              .supports = layer_norm_full_size, .prepare = ref_layernorm_prepare, .run = run_forward, .release = free);
DEFINE_KERNEL(ref_layer_norm_grad, .op = &op_LayerNormGrad, .dtypes = DTYPES_F32_F64, .prepare = ref_layernorm_prepare,
              .run = run_backward, .release = free);
