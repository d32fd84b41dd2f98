/* fuse-cross-entropy: NllSum of LogSoftmax becomes one CrossEntropySum.
 *
 * The logarithms of probabilities never reach memory, nor does their gradient: the scores are read once forward and
 * once backward, in 16 bits where the model computes in them.  Legal where nothing else reads LogSoftmax's result. With
 * class weights the parts are left alone.  Scores whose classes were moved to axis 1 for the loss, from the end where a
 * product leaves them, are taken from there as rows: then nothing of their size is transposed.  After criterion, which
 * appends the loss, and before precision and autodiff, so that the gradient is fused too. */
#include "graph/ir/emit.h"
#include "graph/ops/cross_entropy.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/loss.gen.h"
#include "graph/ops/softmax.gen.h"
#include "graph/ir/readers.h"
#include "passes/batch_axis.h"

/* The LogSoftmax along the classes that the NllSum alone reads, or NULL. */
static const Node *softmax_of(const Graph *g, const Node *nll, const uint32_t *uses)
{
    const Node *n = made_by(g, nll->in[0], &op_LogSoftmax);

    if (!n || uses[nll->in[0].i] != 1 || node_int(n, "flatten") || node_int(n, "axis") != 1)
        return NULL;
    return has_in(nll, 2) || value(g, nll->in[0])->shape->dim[1] < 1 ? NULL : n;
}

/* The value whose last axis a Transpose moves to axis 1 to make v, or NO_VALUE. */
static ValueId classes_last(const Graph *g, ValueId v)
{
    const Node *n = made_by(g, v, &op_Transpose);
    const int64_t *perm;
    int rank;

    if (!n)
        return NO_VALUE;
    perm = node_ints(n, "perm", &rank);
    if (rank < 3 || perm[0] != 0 || perm[1] != rank - 1)
        return NO_VALUE;
    for (int i = 2; i < rank; i++)
        if (perm[i] != i - 1)
            return NO_VALUE;
    return n->in[0];
}

/* Scores [N, d..., C] as [N d..., C], targets [N, d...] as [N d...]: in the same order. */
static void take_rows(Graph *g, ValueId *x, ValueId *target, ValueId last)
{
    const Shape *s = value(g, last)->shape;
    const int64_t count = shape_count(s, 0, s->rank - 1);
    const Shape rows = SHAPE(count, s->dim[s->rank - 1]), samples = SHAPE(count);

    *x = emit_reshape(g, last, &rows);
    *target = emit_reshape(g, *target, &samples);
}

/* `leads`: the batch is along axis 0, so that rows keep it in one piece. */
static void fuse_cross_entropy_rewrite(Graph *g, const Node *nll, const Node *softmax, bool leads)
{
    const Attr *attrs = ATTRS(INT("ignore_index", node_int(nll, "ignore_index")),
                              FLOAT("label_smoothing", node_float(nll, "label_smoothing")));
    const ValueId num = nll->out[0], den = nll->out[1];
    ValueId x = softmax->in[0], target = nll->in[1], last = classes_last(g, x), y[3];

    if (has_value(last) && leads)
        take_rows(g, &x, &target, last);
    EMIT_MULTI(g, CrossEntropySum, attrs, 3, y, x, target);
    if (g->status)
        return;
    graph_replace(g, num, y[0]);
    if (has_value(den))
        graph_replace(g, den, y[1]);
}

static bool batch_leads(const Graph *g, const BuildOptions *opt)
{
    if (find_batch_dim(g, opt).axis)
        return false;
    for (int i = 0; i < g->n_input; i++)
        if (named_batch_axis(opt, value(g, g->input[i])) > 0)
            return false;
    return true;
}

static Status fuse_cross_entropy_run(Graph *g, PassCtx *ctx)
{
    const uint32_t n_node = g->n_node, *uses;

    if (!target_fuses(build_target(ctx->opt), &op_CrossEntropySum))
        return ST_OK;
    if (!(uses = graph_count_uses(g, ctx->scratch)))
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < n_node && !g->status; i++) {
        const Node *n = g->node[i], *softmax = n->op == &op_NllSum ? softmax_of(g, n, uses) : NULL;

        if (softmax) {
            graph_begin_purpose(g, n->phase, n->name);
            fuse_cross_entropy_rewrite(g, n, softmax, batch_leads(g, ctx->opt));
            ctx->n_changed++;
        }
    }
    return g->status || !ctx->n_changed ? g->status : graph_sort(g);
}

const Pass pass_fuse_cross_entropy = { .name = "fuse-cross-entropy",
                                       .summary = "merge LogSoftmax and NllSum into one node",
                                       .run = fuse_cross_entropy_run };
