/* fuse-sums: a sum over axes of what an elementwise node makes becomes part of that node: Fused with `sum`.
 *
 * A gradient's product that is summed along rows, as softmax's, is then never stored; one that is stored too, as what a
 * bias is added to, is not read again.  The node may be a program already (passes/fuse_elementwise.c) or a single
 * operator.
 *
 * Legal where the sum reads nothing else, on one device for one replica: it then waits for nothing that the node does
 * not wait for. What nothing but the sum reads is no output any more; in 16 bits it is then not rounded before it is
 * summed.  A node takes in one sum.  The device must compute such a node. */
#include <string.h>

#include "graph/op.h"
#include "graph/ops/fused.h"
#include "graph/ops/reduce.h"
#include "passes/pass.h"

enum { N_ATTRS = 5 };

/* A node with a sum, not yet part of the graph. */
typedef struct {
    Node node;
    Attr attr[N_ATTRS];
    int64_t axes[MAX_RANK];
} Draft;

typedef struct {
    Graph *g;
    PassCtx *ctx;
    uint32_t *uses; /* [value] */
    int n_devices;
} Fusion;

/* ---- which ---- */

static Status sums_some(bool *out, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    unsigned mask;

    *out = dtype_is_float(x->dtype) && shape_known(&x->shape) && shape_numel(&x->shape) > 0 &&
           (!has_in(n, 1) || value_const(g, n->in[1]));
    if (*out)
        TRY(reduce_axes(&mask, g, n));
    *out = *out && mask;
    return ST_OK;
}

/* The node that makes what n sums, when it can take the sum in; else NULL. */
static Status summand(Node **out, const Fusion *f, const Node *n)
{
    Node *p = n->op == &op_ReduceSum ? in_value(f->g, n, 0)->producer : NULL;
    bool sums;

    *out = NULL;
    if (!p || p->device != n->device || p->replica != n->replica || n->device >= f->n_devices)
        return ST_OK;
    if (p->op == &op_Fused ? fused_sums(p) : !p->op->elementwise || p->n_out != 1)
        return ST_OK;
    TRY(sums_some(&sums, f->g, n));
    *out = sums ? p : NULL;
    return ST_OK;
}

/* ---- the program ---- */

/* A single node as the program of a Fused; its inputs, each once, in d. */
static Status single_body(Graph **out, Draft *d, const Fusion *f, const Node *p)
{
    ValueId *arg = ARENA_NEW(f->ctx->scratch, ValueId, p->n_in), *in = ARENA_NEW(f->ctx->scratch, ValueId, p->n_in),
            *x = d->node.in;
    Graph *body = arg && in ? graph_create("body") : NULL;
    const char *y = "y0";
    Node *copy;
    int n = 0;

    if (!body)
        return FAIL_NOMEM();
    *out = body;
    for (int i = 0; i < p->n_in; i++) {
        int k = 0;
        char name[24];

        if (!has_in(p, i))
            continue;
        while (k < n && !value_eq(x[k], p->in[i]))
            k++;
        if (k == n) {
            snprintf(name, sizeof name, "x%d", n);
            x[n] = p->in[i];
            in[n++] = graph_add_input(body, name, in_value(f->g, p, i)->dtype, &in_value(f->g, p, i)->shape);
        }
        arg[i] = in[k];
    }
    d->node.n_in = n;
    if ((copy = graph_add_node(body, p->op, NULL, NULL, p->n_in, arg, 1, &y)))
        for (int i = 0; i < p->n_attr; i++)
            node_set_attr(body, copy, &p->attr[i]);
    if (copy)
        graph_add_output(body, "y0", copy->out[0]);
    return body->status;
}

static Status body_of(Graph **out, Draft *d, const Fusion *f, const Node *p)
{
    *out = NULL;
    if (p->op != &op_Fused)
        return single_body(out, d, f, p);
    memcpy(d->node.in, p->in, (size_t)p->n_in * sizeof *p->in);
    return fused_body(out, f->g, p);
}

/* Names of what is an output no longer, and of those behind it. */
static Status drop_output(Graph *body, int at)
{
    char name[24];

    graph_rename(body, body->output[at].value, "sum");
    for (int i = at + 1; i < body->n_output; i++) {
        snprintf(name, sizeof name, "y%d", i - 1);
        graph_rename(body, body->output[i].value, name);
    }
    return body->status;
}

/* ---- the new node ---- */

/* Axes and attributes of `sum`. */
static Status set_sum(Draft *d, const Fusion *f, const Node *sum, const char *program, const char *of)
{
    unsigned mask;
    int n = 0;

    TRY(reduce_axes(&mask, f->g, sum));
    for (int i = 0; i < MAX_RANK; i++)
        if (mask >> i & 1)
            d->axes[n++] = i;
    d->attr[0] = (Attr){ .name = "program", .type = A_STRING, .s = program };
    d->attr[1] = (Attr){ .name = "sum", .type = A_STRING, .s = of };
    d->attr[2] = (Attr){ .name = "axes", .type = A_INTS, .ints = d->axes, .n = n };
    d->attr[3] = (Attr){ .name = "keepdims", .type = A_INT, .i = node_int(sum, "keepdims") };
    d->attr[4] = (Attr){ .name = "wide", .type = A_INT, .i = node_int(sum, "wide") };
    d->node.attr = d->attr;
    d->node.n_attr = N_ATTRS;
    return ST_OK;
}

static Status set_attrs(Draft *d, const Fusion *f, const Node *sum, Graph *body, int at, bool kept)
{
    const ValueId x = body->output[at].value;
    const char *program, *of;

    if (!kept)
        TRY(drop_output(body, at));
    TRY(fused_program(&program, body));
    program = arena_strdup(f->ctx->scratch, program);
    of = arena_strdup(f->ctx->scratch, value(body, x)->name);
    return program && of ? set_sum(d, f, sum, program, of) : FAIL_NOMEM();
}

/* p with the sum of its output `at`. */
static Status draft_node(Draft *d, const Fusion *f, const Node *p, const Node *sum, int at)
{
    const bool kept = f->uses[p->out[at].i] > 1;
    Graph *body;
    Status st;
    int n = 0;

    d->node = *p;
    d->node.op = &op_Fused;
    d->node.in = ARENA_NEW(f->ctx->scratch, ValueId, p->n_in);
    d->node.out = ARENA_NEW(f->ctx->scratch, ValueId, p->n_out + 1);
    if (!d->node.in || !d->node.out)
        return FAIL_NOMEM();
    for (int i = 0; i < p->n_out; i++)
        if (i != at || kept)
            d->node.out[n++] = p->out[i];
    d->node.out[n++] = sum->out[0];
    d->node.n_out = n;
    if (!(st = body_of(&body, d, f, p)))
        st = set_attrs(d, f, sum, body, at, kept);
    graph_free(body);
    return st;
}

static Status become(Graph *g, Node *p, Node *sum, const Draft *d)
{
    graph_remove(g, sum);
    p->op = &op_Fused;
    p->n_attr = 0;
    for (int i = 0; i < N_ATTRS; i++)
        node_set_attr(g, p, &d->attr[i]);
    p->in = arena_memdup(g->arena, d->node.in, (size_t)d->node.n_in * sizeof *p->in);
    p->out = arena_memdup(g->arena, d->node.out, (size_t)d->node.n_out * sizeof *p->out);
    if (!p->in || !p->out)
        return FAIL_NOMEM();
    p->n_in = d->node.n_in;
    p->n_out = d->node.n_out;
    for (int i = 0; i < p->n_out; i++) {
        value(g, p->out[i])->producer = p;
        value(g, p->out[i])->out_index = i;
    }
    return g->status;
}

/* ---- entry ---- */

static Status take_sum(Fusion *f, Node *sum)
{
    ValueId x;
    Node *p;
    Draft d;

    TRY(summand(&p, f, sum));
    if (!p)
        return ST_OK;
    x = sum->in[0];
    TRY(draft_node(&d, f, p, sum, value(f->g, x)->out_index));
    if (!target_computes(&f->ctx->opt->backend, f->g, &d.node))
        return ST_OK;
    f->ctx->n_changed++;
    return become(f->g, p, sum, &d);
}

static Status run(Graph *g, PassCtx *ctx)
{
    Fusion f = { .g = g, .ctx = ctx, .n_devices = ctx->opt->devices > 1 ? ctx->opt->devices : 1 };

    if (!target_fuses(&ctx->opt->backend, &op_Fused))
        return ST_OK;
    if (!(f.uses = graph_count_uses(g, ctx->scratch)))
        return FAIL_NOMEM();
    FOR_NODES(g, n)
        TRY(take_sum(&f, n));
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_fuse_sums = { .name = "fuse-sums",
                              .summary = "sum what elementwise operators compute while they do",
                              .run = run };
