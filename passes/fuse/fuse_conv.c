/* fuse-conv: Relu, or Add and Relu, behind a convolution become part of it, one ConvRelu node (graph/ops/conv.c).
 *
 *   Conv -> Relu        Conv -> Add of a value of the same shape -> Relu
 *
 * The second form ends a residual block whose batch-norms were folded into its convolutions.  An accelerator's library
 * computes Add and Relu while the result is in registers; as nodes of their own they read and write it again.  If both
 * terms of the Add are convolutions, the pass tries to fuse the Add into the first, then into the second.
 *
 * Legal where nothing else reads the fused values, on one device for one replica, if the device computes such a node.
 * The gradient of Relu reads its result, which stays.  A 16-bit result is rounded once instead of after each step.  The
 * pass runs behind layout, which sets the order of each value's elements, and before fuse-elementwise, which would fuse
 * Add and Relu itself. */
#include "graph/ir/readers.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/conv.gen.h"
#include "graph/ops/conv.h"
#include "passes/pass.h"

/* Do the values have the same type, layout and known shape? */
static bool fuse_conv_alike(const Graph *g, ValueId a, ValueId b)
{
    const Value *x = value(g, a), *y = value(g, b);

    return x->dtype == y->dtype && x->layout == y->layout && shape_known(x->shape) && shape_eq(x->shape, y->shape);
}

/* Fuses `reader`, the only reader of v, and `relu`, perhaps the same node, into the Conv that makes v.  z: the added
 * value, or NO_VALUE.  False: nothing changed, because they do not match or the device does not compute such a node. */
static bool fuse_conv_take(Draft *d, const Uses *u, ValueId v, ValueId z, Node *reader, Node *relu)
{
    Node *conv = inner_maker(u, v);

    if (!conv || conv->op != &op_Conv || !same_place(conv, reader) || !fuse_conv_alike(d->g, v, relu->out[0]))
        return false;
    draft_begin(d, conv, &op_ConvRelu);
    draft_in(d, CONV_IN_ADDED, z);
    draft_out(d, 0, relu->out[0]);
    draft_absorb(d, reader);
    draft_absorb(d, relu);
    return draft_try_apply(d);
}

static Status fuse_conv_run(Graph *g, PassCtx *ctx)
{
    Uses u;
    Draft d;

    if (!target_fuses(build_target(ctx->opt), &op_ConvRelu))
        return ST_OK;
    pass_draft(&d, g, ctx);
    TRY(uses_find(&u, g, ctx->scratch));
    FOR_NODES(g, n) {
        Node *before = n->op == &op_Relu ? inner_maker(&u, n->in[0]) : NULL;

        if (n->op != &op_Relu)
            continue;
        if (fuse_conv_take(&d, &u, n->in[0], NO_VALUE, n, n))
            ctx->n_changed++;
        else if (before && before->op == &op_Add && same_place(before, n) &&
                 fuse_conv_alike(g, before->in[0], before->in[1]))
            ctx->n_changed += fuse_conv_take(&d, &u, before->in[0], before->in[1], before, n) ||
                              fuse_conv_take(&d, &u, before->in[1], before->in[0], before, n);
    }
    return ctx->n_changed && !g->status ? graph_sort(g) : g->status;
}

const Pass pass_fuse_conv = { .name = "fuse-conv",
                              .summary = "merge Add and Relu into the convolution in front of them",
                              .idempotent = true,
                              .run = fuse_conv_run };
