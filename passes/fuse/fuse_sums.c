/* fuse-sums: a sum over axes of an elementwise node's result becomes part of that node: Fused with `sum`.
 *
 * The gradient of softmax sums a product along rows; fused, the product is never stored.  A tensor that is stored
 * anyway, such as a gradient whose sum is that of a bias, is not read again.  The elementwise node may be a program
 * already (passes/fuse/fuse_elementwise.c) or a single operator.
 *
 * Legal where the sum reads nothing else, on one device for one replica: then it waits for nothing that the node does
 * not wait for.  A value that only the sum reads is no output any more, and in 16 bits it is not rounded before the
 * sum.  A node fuses one sum, if the device computes such a node. */
#include "graph/ir/readers.h"
#include "graph/ops/fused.gen.h"
#include "graph/ops/fused.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/reduce.h"
#include "passes/pass.h"

/* *out: the elementwise node that makes the summed value, if it may fuse the sum n; else NULL. */
static Status summand(Node **out, const Graph *g, const Node *n)
{
    Node *p = n->op == &op_ReduceSum ? maker(g, n->in[0]) : NULL;
    const Value *x;
    unsigned mask;

    *out = NULL;
    if (!p || !same_place(p, n) || (p->op == &op_Fused ? fused_sums(p) : !p->op->elementwise || p->n_out != 1))
        return ST_OK;
    x = in_value(g, n, 0);
    if (!dtype_is_float(x->dtype) || !shape_known(x->shape) || shape_numel(x->shape) <= 0 ||
        (has_in(n, 1) && !value_const(g, n->in[1])))
        return ST_OK;
    TRY(reduce_axes(&mask, g, n));
    *out = mask ? p : NULL;
    return ST_OK;
}

/* Drafts p with the sum.  `body` becomes the new program; it is p's program, or empty if p is a single operator. */
static Status fuse_sums_write_node(Draft *d, const uint32_t *uses, Node *p, Graph *body, const Node *sum,
                                   int64_t axes[MAX_RANK])
{
    const Graph *g = d->g;
    unsigned mask;
    int n = 0, at;
    ValueId x;

    TRY(reduce_axes(&mask, g, sum));
    for (int i = 0; i < MAX_RANK; i++)
        if (mask >> i & 1)
            axes[n++] = i;
    draft_begin(d, p, &op_Fused);
    if (p->op != &op_Fused)
        TRY(fused_write(d, body, 1, &p, (const bool[]){ true }));
    at = value(g, sum->in[0])->out_index; /* the summed output of the program; the sum becomes the last */
    x = body->output[at].value;
    if (uses[sum->in[0].i] <= 1) {
        body_drop_output(body, at);
        d->node.n_out--;
        for (int o = at; o < d->node.n_out; o++)
            draft_out(d, o, d->node.out[o + 1]);
    }
    body_return(body, x);
    draft_out(d, d->node.n_out, sum->out[0]);
    draft_attr(d, &(Attr)GRAPH("program", body));
    draft_attr(d, &(Attr)INT("sum", 1));
    draft_attr(d, &(Attr)INTS("axes", n, axes));
    draft_attr(d, &(Attr)INT("keepdims", node_int(sum, "keepdims")));
    draft_attr(d, &(Attr)INT("wide", node_int(sum, "wide")));
    return body->status;
}

/* uses[value id]: how often it is used. */
static Status take_sum(Draft *d, PassCtx *ctx, const uint32_t *uses, Node *sum)
{
    int64_t axes[MAX_RANK];
    Graph *body = NULL;
    Status st = ST_OK;
    Node *p;

    TRY(summand(&p, d->g, sum));
    if (!p)
        return ST_OK;
    if (p->op == &op_Fused)
        TRY(graph_clone(&body, node_graph(p, "program")));
    else if (!(body = graph_create("program")))
        return FAIL_NOMEM();
    if (!(st = fuse_sums_write_node(d, uses, p, body, sum, axes))) {
        draft_absorb(d, sum);
        ctx->n_changed += draft_try_apply(d);
    }
    graph_free(body);
    return st ? st : d->g->status;
}

static Status fuse_sums_run(Graph *g, PassCtx *ctx)
{
    const uint32_t *uses;
    Draft d;

    if (!target_fuses(build_target(ctx->opt), &op_Fused))
        return ST_OK;
    if (!(uses = graph_count_uses(g, ctx->scratch)))
        return FAIL_NOMEM();
    pass_draft(&d, g, ctx);
    FOR_NODES(g, n)
        TRY(take_sum(&d, ctx, uses, n));
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_fuse_sums = { .name = "fuse-sums",
                              .summary = "merge sums into the elementwise operators whose results they add",
                              .run = fuse_sums_run };
