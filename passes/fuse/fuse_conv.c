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
#include "passes/fuse/fuse_product.h"

/* The Conv that makes v for `reader` alone. */
static Node *inner_conv(const Fusing *f, ValueId v, const Node *reader)
{
    Node *n = fusing_inner(f, v);

    return n && n->op == &op_Conv && n->device < f->n_device && fusing_same_place(n, reader) ? n : NULL;
}

static bool alike(const Graph *g, ValueId a, ValueId b)
{
    const Value *x = value(g, a), *y = value(g, b);

    return x->dtype == y->dtype && x->layout == y->layout && shape_known(&x->shape) && shape_eq(&x->shape, &y->shape);
}

/* Conv `n` makes y = max(0, conv + z), unless the device does not compute that; z may be absent. */
static Status take(bool *taken, Fusing *f, Node *n, ValueId z, ValueId y)
{
    Graph *g = f->g;
    ValueId in[CONV_INPUTS] = { n->in[CONV_IN_X], n->in[CONV_IN_W],
                                has_in(n, CONV_IN_BIAS) ? n->in[CONV_IN_BIAS] : NO_VALUE, z };
    Node made = *n;

    made.op = &op_ConvRelu;
    made.n_in = has_value(z) ? CONV_INPUTS : n->n_in;
    made.in = arena_memdup(g->arena, in, sizeof in);
    made.out = arena_memdup(g->arena, &y, sizeof y);
    if (!made.in || !made.out)
        return FAIL_NOMEM();
    *taken = target_computes(&f->ctx->opt->backend, g, &made);
    if (!*taken)
        return ST_OK;
    *n = made;
    value(g, y)->producer = n;
    value(g, y)->out_index = 0;
    f->ctx->n_changed++;
    return ST_OK;
}

/* Relu of a convolution's result. */
static Status take_relu(Fusing *f, Node *relu)
{
    Node *conv = inner_conv(f, relu->in[0], relu);
    bool taken;

    if (!conv || !alike(f->g, relu->in[0], relu->out[0]))
        return ST_OK;
    TRY(take(&taken, f, conv, NO_VALUE, relu->out[0]));
    if (taken)
        graph_remove(f->g, relu);
    return ST_OK;
}

/* Relu of a sum of two values, one of them a convolution's result. */
static Status take_sum(Fusing *f, Node *relu)
{
    Node *add = fusing_inner(f, relu->in[0]);
    bool taken = false;

    if (!add || add->op != &op_Add || !fusing_same_place(add, relu))
        return ST_OK;
    for (int i = 0; i < 2 && !taken; i++) {
        Node *conv = inner_conv(f, add->in[i], add);

        if (conv && alike(f->g, add->in[0], add->in[1]) && alike(f->g, add->in[0], relu->out[0]))
            TRY(take(&taken, f, conv, add->in[1 - i], relu->out[0]));
    }
    if (taken) {
        graph_remove(f->g, add);
        graph_remove(f->g, relu);
    }
    return ST_OK;
}

static Status run(Graph *g, PassCtx *ctx)
{
    Fusing f = { .g = g, .ctx = ctx, .n_device = ctx->opt->devices > 1 ? ctx->opt->devices : 1 };

    if (!target_fuses(&ctx->opt->backend, &op_ConvRelu))
        return ST_OK;
    TRY(fusing_look(&f));
    FOR_NODES(g, n)
        if (n->op == &op_Relu) {
            TRY(take_relu(&f, n));
            if (n->op)
                TRY(take_sum(&f, n));
        }
    return ctx->n_changed ? graph_sort(g) : g->status;
}

const Pass pass_fuse_conv = { .name = "fuse-conv",
                              .summary = "make what stands behind a convolution part of it",
                              .run = run };
