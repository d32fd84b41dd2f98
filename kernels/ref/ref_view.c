/* Operators that change the shape or the place alone: the bytes are copied, unless they are there already. */
#include "graph/ops/collective.gen.h"
#include "graph/ops/view.gen.h"
#include "kernels/ref/ref.h"

static Status ref_view_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    (void)ctx;
    (void)state;
    if (in[0].data != out[0].data && tensor_bytes(&out[0]))
        memcpy(out[0].data, in[0].data, tensor_bytes(&out[0]));
    return ST_OK;
}

DEFINE_KERNEL(ref_reshape, .op = &op_Reshape, .run = ref_view_run);
DEFINE_KERNEL(ref_flatten, .op = &op_Flatten, .run = ref_view_run);
DEFINE_KERNEL(ref_squeeze, .op = &op_Squeeze, .run = ref_view_run);
DEFINE_KERNEL(ref_unsqueeze, .op = &op_Unsqueeze, .run = ref_view_run);
DEFINE_KERNEL(ref_copy, .op = &op_Copy, .run = ref_view_run);
DEFINE_KERNEL(ref_reorder, .op = &op_Reorder, .run = ref_view_run); /* by rows on both sides: see kernel_reference */
DEFINE_KERNEL(ref_identity, .op = &op_Identity, .run = ref_view_run);
DEFINE_KERNEL(ref_stop_gradient, .op = &op_StopGradient, .run = ref_view_run);
