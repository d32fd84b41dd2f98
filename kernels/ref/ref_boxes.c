/* NonMaxSuppression: the boxes that overlap no better one. */
#include "graph/ops/boxes.gen.h"
#include "graph/ops/nms_boxes.h"

#include "kernels/ref/ref.h"

/* The state's mode: boxes are given by their centers. */
static Status ref_boxes_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    ctx->scratch_bytes = sizeof(int64_t) * 2 * (size_t)in_value(g, n, 0)->shape->dim[1];
    return ref_mode_prepare(state, g, n, node_int(n, "center_point_box"));
}

static Status ref_boxes_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const RefNode *p = state;
    const Tensor *list[5] = { NULL };
    BoxChoice c;

    for (int i = 0; i < p->n_in; i++)
        list[i] = in[i].data ? &in[i] : NULL;
    list[0] = &in[0];
    list[1] = &in[1];
    c = boxes_choice(list, p->mode != 0);
    (void)boxes_choose(&c, ctx->scratch, out[0].data);
    return ST_OK;
}

DEFINE_KERNEL(ref_non_max_suppression, .op = &op_NonMaxSuppression, .prepare = ref_boxes_prepare, .run = ref_boxes_run,
              .release = free);
