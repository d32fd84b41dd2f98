/* NonMaxSuppression: the boxes that overlap no better one. */
#include "graph/ops/nms_boxes.h"
#include "graph/ops/boxes.gen.h"

#include "kernels/ref/ref.h"

typedef struct {
    bool centers;
    int n_in;
} State;

static Status ref_boxes_prepare(void **state, KernelCtx *ctx, const Graph *g, const Node *n)
{
    State s = { node_int(n, "center_point_box") != 0, n->n_in };

    ctx->scratch_bytes = sizeof(int64_t) * 2 * (size_t)in_value(g, n, 0)->shape->dim[1];
    return kernel_state(state, &s, sizeof s);
}

static Status ref_boxes_run(KernelCtx *ctx, void *state, const Tensor *in, Tensor *out)
{
    const State *s = state;
    const Tensor *list[5] = { NULL };
    BoxChoice c;

    for (int i = 0; i < s->n_in; i++)
        list[i] = in[i].data ? &in[i] : NULL;
    list[0] = &in[0];
    list[1] = &in[1];
    c = boxes_choice(list, s->centers);
    (void)boxes_choose(&c, ctx->scratch, out[0].data);
    return ST_OK;
}

DEFINE_KERNEL(ref_non_max_suppression, .op = &op_NonMaxSuppression, .prepare = ref_boxes_prepare, .run = ref_boxes_run,
              .release = free);
