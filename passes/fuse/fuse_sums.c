/* fuse-sums: a sum over axes of what an elementwise node makes becomes part of that node: Fused with `sum`.
 *
 * A gradient's product that is summed along rows, as softmax's, is then never stored; one that is stored too, as what a
 * bias is added to, is not read again.  The node may be a program already (passes/fuse/fuse_elementwise.c) or a single
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

/* A node with a sum, not yet part of the graph; its body is the caller's to free. */
typedef struct {
    Node node;
    Graph *body;
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
static Status single_body(Graph *body, Draft *d, const Fusion *f, const Node *p)
{
    ValueId *arg = ARENA_NEW(f->ctx->scratch, ValueId, p->n_in), *in = ARENA_NEW(f->ctx->scratch, ValueId, p->n_in),
            *x = d->node.in;
    int n = 0;

    if (!arg || !in)
        return FAIL_NOMEM();
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
            in[n++] = body_input(body, name);
        }
        arg[i] = in[k];
    }
    d->node.n_in = n;
    body_return(body, body_add_like(body, p, arg, "y0"));
    return body->status;
}

/* What p computes, in d, to which the sum is then added. */
static Status body_of(Draft *d, const Fusion *f, const Node *p)
{
    if (p->op != &op_Fused)
        return (d->body = graph_create("program")) ? single_body(d->body, d, f, p) : FAIL_NOMEM();
    memcpy(d->node.in, p->in, (size_t)p->n_in * sizeof *p->in);
    return graph_clone(&d->body, node_graph(p, "program"));
}

/* ---- the new node ---- */

/* Axes and attributes of `sum`. */
static Status set_attrs(Draft *d, const Fusion *f, const Node *sum)
{
    unsigned mask;
    int n = 0;

    TRY(reduce_axes(&mask, f->g, sum));
    for (int i = 0; i < MAX_RANK; i++)
        if (mask >> i & 1)
            d->axes[n++] = i;
    d->attr[0] = (Attr)GRAPH("program", d->body);
    d->attr[1] = (Attr)INT("sum", 1);
    d->attr[2] = (Attr)INTS("axes", n, d->axes);
    d->attr[3] = (Attr)INT("keepdims", node_int(sum, "keepdims"));
    d->attr[4] = (Attr)INT("wide", node_int(sum, "wide"));
    d->node.attr = d->attr;
    d->node.n_attr = N_ATTRS;
    return ST_OK;
}

/* The program's output `at` becomes the last, which is summed; when it is `kept` it stays in its place too. */
static Status sum_output(Graph *body, int at, bool kept)
{
    const ValueId x = body->output[at].value;

    if (!kept)
        body_drop_output(body, at);
    body_return(body, x);
    return body->status;
}

/* p with the sum of its output `at`. */
static Status draft_node(Draft *d, const Fusion *f, const Node *p, const Node *sum, int at)
{
    const bool kept = f->uses[p->out[at].i] > 1;
    int n = 0;

    d->body = NULL;
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
    TRY(body_of(d, f, p));
    TRY(sum_output(d->body, at, kept));
    return set_attrs(d, f, sum);
}

static Status become(Graph *g, Node *p, Node *sum, const Draft *d)
{
    graph_remove(g, sum);
    p->op = &op_Fused;
    p->n_attr = p->cap_attr = 0;
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
    Status st;
    Node *p;
    Draft d;

    TRY(summand(&p, f, sum));
    if (!p)
        return ST_OK;
    x = sum->in[0];
    st = draft_node(&d, f, p, sum, value(f->g, x)->out_index);
    if (!st && target_computes(&f->ctx->opt->backend, f->g, &d.node)) {
        f->ctx->n_changed++;
        st = become(f->g, p, sum, &d);
    }
    graph_free(d.body);
    return st;
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
