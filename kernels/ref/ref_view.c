/* Operators that change the shape or the place alone: the bytes are copied, unless they are there already. */
#include "kernels/ref/ref.h"
#include "graph/ops/collective.gen.h"
#include "graph/ops/view.gen.h"

static Status run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    (void)state;
    if (in[0].data != out[0].data && tensor_bytes(&out[0]))
        memcpy(out[0].data, in[0].data, tensor_bytes(&out[0]));
    return ST_OK;
}

DEFINE_KERNEL(ref_reshape, .op = &op_Reshape, .run = run);
DEFINE_KERNEL(ref_flatten, .op = &op_Flatten, .run = run);
DEFINE_KERNEL(ref_squeeze, .op = &op_Squeeze, .run = run);
DEFINE_KERNEL(ref_unsqueeze, .op = &op_Unsqueeze, .run = run);
DEFINE_KERNEL(ref_copy, .op = &op_Copy, .run = run);
DEFINE_KERNEL(ref_reorder, .op = &op_Reorder, .run = run); /* by rows on both sides: see kernel_reference */
DEFINE_KERNEL(ref_identity, .op = &op_Identity, .run = run);
DEFINE_KERNEL(ref_stop_gradient, .op = &op_StopGradient, .run = run);
