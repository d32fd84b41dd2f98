/* fuse_conv: what stands behind a convolution becomes part of it: one ConvRelu node (graph/ops/conv.c).
 *
 *   Conv -> Relu        Conv -> Add of a value of the same shape -> Relu
 *
 * The second is the end of a residual block whose batch-norms were folded into its convolutions.  An accelerator's
 * library does both while the result is in registers; as nodes of their own they read and write it all again.  When
 * both terms of an Add are convolutions the first takes in the other's result, or the second the first's where the
 * device does not compute that.
 *
 * Legal where nothing else reads what disappears, on one device for one replica, when the device computes such a node:
 * the gradient of Relu reads its result, which stays.  A 16-bit result is rounded once instead of after each step.
 * Behind layout, which wants every value in one order; before fuse-elementwise, which would take Add and Relu for
 * itself. */
#include "graph/ops/conv.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/conv.gen.h"

#include "graph/ir/readers.h"
#include "passes/pass.h"

typedef struct {
    const Graph *g;
    Uses uses;
    Draft draft;
} Fusing;

static bool fuse_conv_alike(const Graph *g, ValueId a, ValueId b)
{
    const Value *x = value(g, a), *y = value(g, b);

    return x->dtype == y->dtype && x->layout == y->layout && shape_known(x->shape) && shape_eq(x->shape, y->shape);
}

/* The Conv that makes v for `reader` alone takes in z, which may be absent, `reader` and `relu`, perhaps the same. */
static bool fuse_conv_take(Fusing *f, ValueId v, ValueId z, Node *reader, Node *relu)
{
    Node *conv = inner_maker(&f->uses, v);
    Draft *d = &f->draft;

    if (!conv || conv->op != &op_Conv || !same_place(conv, reader) || !fuse_conv_alike(f->g, v, relu->out[0]))
        return false;
    draft_begin(d, conv, &op_ConvRelu);
    draft_in(d, CONV_IN_ADDED, z);
    draft_out(d, 0, relu->out[0]);
    draft_absorb(d, reader);
    draft_absorb(d, relu);
    return draft_try_apply(d);
}

/* Relu of a convolution's result, or of a sum of two values, one of them that of a convolution. */
static bool take_relu(Fusing *f, Node *relu)
{
    Node *add = inner_maker(&f->uses, relu->in[0]);

    if (fuse_conv_take(f, relu->in[0], NO_VALUE, relu, relu))
        return true;
    return add && add->op == &op_Add && same_place(add, relu) && fuse_conv_alike(f->g, add->in[0], add->in[1]) &&
           (fuse_conv_take(f, add->in[0], add->in[1], add, relu) ||
            fuse_conv_take(f, add->in[1], add->in[0], add, relu));
}

static Status fuse_conv_run(Graph *g, PassCtx *ctx)
{
    Fusing f = { .g = g };

    if (!target_fuses(build_target(ctx->opt), &op_ConvRelu))
        return ST_OK;
    pass_draft(&f.draft, g, ctx);
    TRY(uses_find(&f.uses, g, ctx->scratch));
    FOR_NODES(g, n)
        ctx->n_changed += n->op == &op_Relu && take_relu(&f, n);
    return ctx->n_changed && !g->status ? graph_sort(g) : g->status;
}

const Pass pass_fuse_conv = { .name = "fuse-conv",
                              .summary = "make what stands behind a convolution part of it",
                              .run = fuse_conv_run };
