/* The Target of CUDA devices, which passes ask: they compute each node that has a kernel here. */
#include "kernels/cuda/expr.h"

static bool computes(const Graph *g, const Node *n) { return kernel_find(kernels_cuda, kernels_cuda_len, g, n); }

static bool fuses(const Target *t, const OpDef *op) { return kernel_exists(kernels_cuda, kernels_cuda_len, op, t); }

/* Tensor cores, which compute convolutions of 16-bit numbers and of TF32, want channels last. */
static int cuda_target_layouts(const Target *t, const Graph *g, const Node *n, NodeLayouts out[TARGET_LAYOUTS])
{
    (void)t, (void)g, (void)n;
    out[0] = (NodeLayouts){ LAYOUT_CHANNELS_LAST, LAYOUT_CHANNELS_LAST };
    return 1;
}

Target cuda_target(DType precision, bool tf32)
{
    return (Target){ .accelerator = true,
                     .precision = precision,
                     .tf32 = tf32,
                     .align = CUDA_ALIGN,
                     .computes = computes,
                     .fuses = fuses,
                     .joins = generated_supports,
                     .layouts = precision != DT_NONE || tf32 ? cuda_target_layouts : NULL };
}
