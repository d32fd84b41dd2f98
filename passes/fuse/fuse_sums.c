/* fuse-sums: a sum over axes of what an elementwise node makes becomes part of that node: Fused with `sum`.
 *
 * A gradient's product that is summed along rows, as softmax's, is then never stored; one that is stored too, as what a
 * bias is added to, is not read again.  The node may be a program already (passes/fuse/fuse_elementwise.c) or a single
 * operator.
 *
 * Legal where the sum reads nothing else, on one device for one replica: it then waits for nothing that the node does
 * not wait for. What nothing but the sum reads is no output any more; in 16 bits it is then not rounded before it is
 * summed.  A node takes in one sum.  The device must compute such a node. */
#include "graph/ops/fused.h"
#include "graph/ops/fused.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/reduce.h"
#include "graph/ir/readers.h"
#include "passes/pass.h"

typedef struct {
    Graph *g;
    PassCtx *ctx;
    uint32_t *uses; /* [value] */
    Draft draft;
} Fusion;

/* ---- which ---- */

static Status sums_some(bool *out, const Graph *g, const Node *n)
{
    const Value *x = in_value(g, n, 0);
    unsigned mask;

    *out = dtype_is_float(x->dtype) && shape_known(x->shape) && shape_numel(x->shape) > 0 &&
           (!has_in(n, 1) || value_const(g, n->in[1]));
    if (*out)
        TRY(reduce_axes(&mask, g, n));
    *out = *out && mask;
    return ST_OK;
}

/* The node that makes what n sums, when it can take the sum in; else NULL. */
static Status summand(Node **out, const Fusion *f, const Node *n)
{
    Node *p = n->op == &op_ReduceSum ? maker(f->g, n->in[0]) : NULL;
    bool sums;

    *out = NULL;
    if (!p || !same_place(p, n))
        return ST_OK;
    if (p->op == &op_Fused ? fused_sums(p) : !p->op->elementwise || p->n_out != 1)
        return ST_OK;
    TRY(sums_some(&sums, f->g, n));
    *out = sums ? p : NULL;
    return ST_OK;
}

/* ---- the new node ---- */

/* The program's output `at` becomes the last, which is summed; when it is `kept` it stays in its place too. */
static void sum_output(Draft *d, Graph *body, int at, bool kept, ValueId sum)
{
    const ValueId x = body->output[at].value;

    if (!kept) {
        body_drop_output(body, at);
        d->node.n_out--;
        for (int o = at; o < d->node.n_out; o++)
            draft_out(d, o, d->node.out[o + 1]);
    }
    body_return(body, x);
    draft_out(d, d->node.n_out, sum);
}

/* p with `sum`; `body`, empty unless p has a program, becomes the new one. */
static Status fuse_sums_write_node(Fusion *f, Node *p, Graph *body, const Node *sum, int64_t axes[MAX_RANK])
{
    Draft *d = &f->draft;
    unsigned mask;
    int n = 0;

    TRY(reduce_axes(&mask, f->g, sum));
    for (int i = 0; i < MAX_RANK; i++)
        if (mask >> i & 1)
            axes[n++] = i;
    draft_begin(d, p, &op_Fused);
    if (p->op != &op_Fused)
        TRY(fused_write(d, body, 1, &p, (const bool[]){ true }));
    sum_output(d, body, value(f->g, sum->in[0])->out_index, f->uses[sum->in[0].i] > 1, sum->out[0]);
    draft_attr(d, &(Attr)GRAPH("program", body));
    draft_attr(d, &(Attr)INT("sum", 1));
    draft_attr(d, &(Attr)INTS("axes", n, axes));
    draft_attr(d, &(Attr)INT("keepdims", node_int(sum, "keepdims")));
    draft_attr(d, &(Attr)INT("wide", node_int(sum, "wide")));
    return body->status;
}

/* ---- entry ---- */

static Status take_sum(Fusion *f, Node *sum)
{
    int64_t axes[MAX_RANK];
    Graph *body = NULL;
    Status st = ST_OK;
    Node *p;

    TRY(summand(&p, f, sum));
    if (!p)
        return ST_OK;
    if (p->op == &op_Fused)
        TRY(graph_clone(&body, node_graph(p, "program")));
    else if (!(body = graph_create("program")))
        return FAIL_NOMEM();
    if (!(st = fuse_sums_write_node(f, p, body, sum, axes))) {
        draft_absorb(&f->draft, sum);
        f->ctx->n_changed += draft_try_apply(&f->draft);
    }
    graph_free(body);
    return st ? st : f->g->status;
}

static Status fuse_sums_run(Graph *g, PassCtx *ctx)
{
    Fusion f = { .g = g, .ctx = ctx };

    if (!target_fuses(build_target(ctx->opt), &op_Fused))
        return ST_OK;
    if (!(f.uses = graph_count_uses(g, ctx->scratch)))
        return FAIL_NOMEM();
    pass_draft(&f.draft, g, ctx);
    FOR_NODES(g, n)
        TRY(take_sum(&f, n));
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_fuse_sums = { .name = "fuse-sums",
                              .summary = "sum what elementwise operators compute while they do",
                              .run = fuse_sums_run };
