/* LayerNormalization and its gradient, row by row; mean and variance in double by two passes. */
#include <math.h>

#include "graph/ops/layernorm.h"
#include "graph/ops/layernorm.gen.h"
#include "kernels/ref/ref.h"

typedef struct {
    int64_t rows, n;
    double epsilon;
    bool has_bias, has_mean, has_inv, has_added;
} Plan;

static Status ref_layernorm_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int axis = (int)node_int(n, "axis");

    (void)ctx;
    return kernel_state(state,
                        &(Plan){ .rows = shape_count(x, 0, axis),
                                 .n = shape_count(x, axis, x->rank),
                                 .epsilon = node_float(n, "epsilon"),
                                 .has_bias = has_in(n, 2),
                                 .has_mean = has_out(n, 1),
                                 .has_inv = has_out(n, 2),
                                 .has_added = has_in(n, LAYER_NORM_GRAD_ADDED) },
                        sizeof(Plan));
}

#define BODY "kernels/ref/ref_layernorm.inc"
#include "kernels/each_type.inc"

#define GIVEN(t, has) (((const Plan *)state)->has ? (t).data : NULL)
RUN_FLOAT(run_forward, forward, state, in[0].data, in[1].data, GIVEN(in[2], has_bias), out[0].data,
          GIVEN(out[1], has_mean), GIVEN(out[2], has_inv))
RUN_FLOAT(run_backward, backward, state, in[0].data, in[1].data, in[2].data,
          GIVEN(in[LAYER_NORM_GRAD_ADDED], has_added), out[0].data, out[1].data, out[2].data)

/* Scale and bias of the full normalised size; smaller ones are stretched by the operator's lowering. */
static bool ref_layernorm_full_size(const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int64_t size = shape_count(x, (int)node_int(n, "axis"), x->rank);

    return shape_numel(in_value(g, n, 1)->shape) == size &&
           (!has_in(n, 2) || shape_numel(in_value(g, n, 2)->shape) == size);
}

DEFINE_KERNEL(ref_layer_normalization, .op = &op_LayerNormalization, .dtypes = DTYPES_F32_F64,
              .supports = ref_layernorm_full_size, .prepare = ref_layernorm_prepare, .run = run_forward,
              .release = free);
DEFINE_KERNEL(ref_layer_norm_grad, .op = &op_LayerNormGrad, .dtypes = DTYPES_F32_F64, .prepare = ref_layernorm_prepare,
              .run = run_backward, .release = free);
