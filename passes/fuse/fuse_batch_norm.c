/* fuse_batch_norm: small and elementwise operators around batch-norm's become part of them.
 *
 * On an accelerator the gradient of a Relu behind batch-norm is a pass over three tensors, and what is done for each
 * channel is a launch that takes longer than its work.  Taken in are
 *
 *   ReluGrad   of a Relu of a BatchNormApply, by BatchNormGradStats and BatchNormGradInput: both read x, which tells
 * the sign of the Relu's result.  They read what ReluGrad read as dy, and nothing else BatchNormGradParams, which takes
 * the sums apart, by the BatchNormGradInput that reads them too Add(Mul(old, number), Mul(new, number)), the next
 * running mean or variance, by the BatchNormMerge that makes the new one
 *
 * Legal where nothing else reads what disappears, on one device for one replica, when the device computes such a node.
 * The sign is that of the result before it is rounded to 16 bits.  Before fuse-elementwise, which would take ReluGrad
 * and the running statistics for itself. */
#include "graph/op.h"
#include "graph/rewrite.h"
#include "passes/pass.h"
#include "passes/readers.h"

enum { READERS_MOST = 2, INPUTS_MOST = 8, OUTPUTS_MOST = 5 };

typedef struct {
    Graph *g;
    PassCtx *ctx;
    int n_device;
    uint32_t *uses;    /* [value] */
    uint32_t *stained; /* [value] the turn in which a way was found to it */
    uint32_t turn;
    Readers readers; /* from before the present step */
} Fusing;

/* A node as it would be. */
typedef struct {
    Node *of, node;
    ValueId in[INPUTS_MOST], out[OUTPUTS_MOST];
} Draft;

static Node *maker(const Fusing *f, ValueId v) { return has_value(v) ? value(f->g, v)->producer : NULL; }

static bool same_place(const Node *a, const Node *b) { return a->device == b->device && a->replica == b->replica; }

/* ---- drafts ---- */

static void draft_begin(Draft *d, Node *n)
{
    *d = (Draft){ .of = n, .node = *n };
    for (int i = 0; i < n->n_in; i++)
        d->in[i] = n->in[i];
    for (int o = 0; o < n->n_out; o++)
        d->out[o] = n->out[o];
}

static void draft_in(Draft *d, int i, ValueId v)
{
    d->in[i] = v;
    d->node.n_in = d->node.n_in > i ? d->node.n_in : i + 1;
}

static void draft_out(Draft *d, int o, ValueId v)
{
    d->out[o] = v;
    d->node.n_out = d->node.n_out > o ? d->node.n_out : o + 1;
}

static bool draft_fits(const Fusing *f, Draft *d)
{
    d->node.in = d->in;
    d->node.out = d->out;
    return d->node.device < f->n_device && target_computes(&f->ctx->opt->backend, f->g, &d->node);
}

/* The node becomes what draft_fits said yes to. */
static Status draft_settle(const Fusing *f, const Draft *d)
{
    Graph *g = f->g;
    Node *n = d->of;

    node_set_inputs(g, n, d->node.n_in, d->in);
    node_set_outputs(g, n, d->node.n_out, d->out);
    f->ctx->n_changed++;
    return g->status;
}

/* ---- the gradient of Relu ---- */

/* The batch-norm by statistics of its data whose result's Relu n is the gradient of, or NULL. */
static Node *norm_behind(const Fusing *f, const Node *n)
{
    Node *relu = n->op == &op_ReluGrad ? maker(f, n->in[1]) : NULL;
    Node *norm = relu && relu->op == &op_Relu ? maker(f, relu->in[0]) : NULL;

    return norm && norm->op == &op_BatchNormApply && has_in(norm, 5) && same_place(norm, n) ? norm : NULL;
}

/* Is `r` a gradient of `norm` by v?  Inputs of norm: x, mean, var, scale, bias. */
static bool is_gradient(const Node *r, const Node *norm, ValueId v)
{
    const bool input = r->op == &op_BatchNormGradInput;

    if ((!input && r->op != &op_BatchNormGradStats) || !value_eq(r->in[1], v) || has_in(r, input ? 7 : 5) ||
        !same_place(r, norm))
        return false;
    return value_eq(r->in[0], norm->in[0]) && value_eq(r->in[2], norm->in[1]) && value_eq(r->in[3], norm->in[2]) &&
           (!input || value_eq(r->in[4], norm->in[3])) && node_float(r, "epsilon") == node_float(norm, "epsilon");
}

/* The gradients of `norm` by n's result: their number, or 0 when something else reads it. */
static int list_gradients(const Fusing *f, const Node *n, const Node *norm, Node *list[READERS_MOST])
{
    int count = 0;

    for (uint32_t i = f->readers.first[n->out[0].i]; i < f->readers.first[n->out[0].i + 1]; i++) {
        Node *r = f->readers.list[i].n;

        if (count < READERS_MOST && f->readers.list[i].in == 1 && r->op && is_gradient(r, norm, n->out[0]))
            list[count++] = r;
    }
    return f->uses[n->out[0].i] == (uint32_t)count ? count : 0;
}

static Status take_relu(Fusing *f, Node *n)
{
    const Node *norm = norm_behind(f, n);
    Node *reader[READERS_MOST];
    Draft d[READERS_MOST];
    const int count = norm ? list_gradients(f, n, norm, reader) : 0;

    for (int k = 0; k < count; k++) {
        const bool input = reader[k]->op == &op_BatchNormGradInput;

        draft_begin(&d[k], reader[k]);
        draft_in(&d[k], 1, n->in[0]);
        if (!input)
            draft_in(&d[k], 4, norm->in[3]);
        draft_in(&d[k], input ? 7 : 5, norm->in[4]);
        if (!draft_fits(f, &d[k]))
            return ST_OK;
    }
    for (int k = 0; k < count; k++)
        TRY(draft_settle(f, &d[k]));
    if (count)
        graph_remove(f->g, n);
    return f->g->status;
}

/* ---- gradients of scale and bias ---- */

/* Does a way lead from n's results to `by`?  Nodes stand in topological order. */
static bool leads_to(Fusing *f, const Node *n, const Node *by)
{
    const Graph *g = f->g;

    f->turn++;
    for (int o = 0; o < n->n_out; o++)
        f->stained[n->out[o].i] = f->turn;
    for (uint32_t k = n->index + 1; k <= by->index; k++) {
        const Node *r = g->node[k];
        bool reads = false;

        for (int i = 0; r && i < r->n_in; i++)
            reads |= has_in(r, i) && f->stained[r->in[i].i] == f->turn;
        if (reads && r == by)
            return true;
        for (int o = 0; reads && o < r->n_out; o++)
            f->stained[r->out[o].i] = f->turn;
    }
    return false;
}

/* Does a node that reads n's results stand before `by`? */
static bool is_read_before(const Fusing *f, const Node *n, const Node *by)
{
    for (int o = 0; o < n->n_out; o++)
        for (uint32_t i = f->readers.first[n->out[o].i]; i < f->readers.first[n->out[o].i + 1]; i++)
            if (f->readers.list[i].n->op && f->readers.list[i].n->index < by->index)
                return true;
    return false;
}

/* The input's gradient that is computed from what n's are; NULL: none. */
static Node *input_gradient(const Fusing *f, const Node *n)
{
    Node *by = NULL;

    for (uint32_t i = f->readers.first[n->in[0].i]; i < f->readers.first[n->in[0].i + 1]; i++) {
        Node *r = f->readers.list[i].n;

        if (r->op == &op_BatchNormGradInput && value_eq(r->in[5], n->in[0]) && r->n_out == 1 &&
            r->device == n->device && (r->replica == n->replica || n->replica < 0) && (!by || r->index > by->index))
            by = r;
    }
    return by;
}

/* The node is a replica's where the sums are its own, else the device's: any of its replicas may do it then. */
static Status take_params(Fusing *f, Node *n)
{
    Node *by = n->op == &op_BatchNormGradParams ? input_gradient(f, n) : NULL;
    bool broken;
    Draft d;

    if (!by || leads_to(f, n, by))
        return ST_OK;
    draft_begin(&d, by);
    for (int o = 0; o < n->n_out; o++)
        draft_out(&d, 1 + o, n->out[o]);
    if (!draft_fits(f, &d))
        return ST_OK;
    broken = is_read_before(f, n, by);
    graph_remove(f->g, n);
    TRY(draft_settle(f, &d));
    return broken ? graph_sort(f->g) : ST_OK;
}

/* ---- running statistics ---- */

/* v as x times a number, read once. */
static bool read_share(const Fusing *f, ValueId v, ValueId *x, double *number)
{
    const Node *n = maker(f, v);

    *x = n ? n->in[0] : NO_VALUE;
    return n && n->op == &op_Mul && f->uses[v.i] == 1 && value_const_number(f->g, n->in[1], number);
}

/* n as the next value of what output `o` of `merge` is the new one for. */
static Status take_running(Fusing *f, Node *n, Node *merge, int o, ValueId old, double keep, double take)
{
    const Node *before = maker(f, old);
    Node *part[2] = { maker(f, n->in[0]), maker(f, n->in[1]) };
    Draft d;

    if (has_out(merge, 3 + o) || !same_place(n, merge) || !same_place(n, part[0]) || !same_place(n, part[1]) ||
        (before && before->index >= merge->index) ||
        !shape_eq(&value(f->g, old)->shape, &value(f->g, merge->out[o])->shape))
        return ST_OK;
    if (merge->n_out > 3 && (node_float(merge, "keep") != keep || node_float(merge, "take") != take))
        return ST_OK;
    draft_begin(&d, merge);
    for (int i = merge->n_in; i < 1 + o; i++)
        draft_in(&d, i, NO_VALUE);
    for (int i = merge->n_out; i < 3 + o; i++)
        draft_out(&d, i, NO_VALUE);
    draft_in(&d, 1 + o, old);
    draft_out(&d, 3 + o, n->out[0]);
    if (!draft_fits(f, &d))
        return ST_OK;
    node_set_attr(f->g, merge, &(Attr)FLOAT("keep", keep));
    node_set_attr(f->g, merge, &(Attr)FLOAT("take", take));
    graph_remove(f->g, n);
    graph_remove(f->g, part[0]);
    graph_remove(f->g, part[1]);
    return draft_settle(f, &d);
}

static Status take_sum(Fusing *f, Node *n)
{
    ValueId x[2];
    double number[2];

    if (n->op != &op_Add || !read_share(f, n->in[0], &x[0], &number[0]) || !read_share(f, n->in[1], &x[1], &number[1]))
        return ST_OK;
    for (int i = 0; i < 2; i++) {
        Node *merge = maker(f, x[i]);

        if (merge && merge->op == &op_BatchNormMerge && value(f->g, x[i])->out_index < 2)
            return take_running(f, n, merge, value(f->g, x[i])->out_index, x[1 - i], number[1 - i], number[i]);
    }
    return ST_OK;
}

/* ---- entry ---- */

/* One kind of change to all nodes, whose order may change meanwhile. */
static Status apply(Fusing *f, Status (*step)(Fusing *, Node *))
{
    const uint32_t n_node = f->g->n_node;
    Node **all = arena_memdup(f->ctx->scratch, f->g->node, n_node * sizeof(Node *));

    if (!all)
        return FAIL_NOMEM();
    TRY(readers_find(&f->readers, f->g, f->ctx->scratch));
    for (uint32_t i = 0; i < n_node; i++)
        if (all[i]->op)
            TRY(step(f, all[i]));
    return graph_sort(f->g);
}

static Status run(Graph *g, PassCtx *ctx)
{
    static Status (*const steps[])(Fusing *, Node *) = { take_relu, take_params, take_sum };
    Fusing f = { .g = g, .ctx = ctx, .n_device = ctx->opt->devices > 1 ? ctx->opt->devices : 1 };

    if (!target_fuses(&ctx->opt->backend, &op_BatchNormGradStats) || !g->n_node)
        return ST_OK;
    f.uses = graph_count_uses(g, ctx->scratch);
    f.stained = ARENA_NEW(ctx->scratch, uint32_t, g->n_value);
    if (!f.uses || !f.stained)
        return FAIL_NOMEM();
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        TRY(apply(&f, steps[i]));
    return g->status;
}

const Pass pass_fuse_batch_norm = { .name = "fuse-batch-norm",
                                    .summary =
                                        "make Relu's gradient and running statistics part of batch-norm's operators",
                                    .modes = 1u << BUILD_TRAIN | 1u << BUILD_ACCUMULATE,
                                    .run = run };
