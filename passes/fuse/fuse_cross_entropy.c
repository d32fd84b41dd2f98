/* fuse-cross-entropy: NllSum of LogSoftmax becomes one CrossEntropySum.
 *
 * The logarithms of probabilities then never reach memory, nor does their gradient: the scores are read once forward
 * and once backward, in 16 bits if the model computes in them.  Legal where nothing else reads LogSoftmax's result. The
 * pass leaves losses with class weights.  If a Transpose moved the classes from the last axis to axis 1 for the loss,
 * the node reads the scores as rows from before it, and nothing of their size is transposed.  The pass runs behind
 * criterion, which appends the loss, and before precision and autodiff, so that the gradient is fused too. */
#include "graph/ir/emit.h"
#include "graph/ir/readers.h"
#include "graph/ops/cross_entropy.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/loss.gen.h"
#include "graph/ops/softmax.gen.h"
#include "passes/batch_axis.h"

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

/* Replaces NllSum by CrossEntropySum.  If the batch is along axis 0 (`leads`), scores [N, d..., C] become [N d..., C]
 * and targets [N, d...] become [N d...]: the order stays, and so does the batch, in one piece. */
static void fuse_cross_entropy_rewrite(Graph *g, const Node *nll, const Node *softmax, bool leads)
{
    const Attr *attrs = ATTRS(INT("ignore_index", node_int(nll, "ignore_index")),
                              FLOAT("label_smoothing", node_float(nll, "label_smoothing")));
    const ValueId num = nll->out[0], den = nll->out[1];
    ValueId x = softmax->in[0], target = nll->in[1], last = classes_last(g, x), y[3];

    if (has_value(last) && leads) {
        const Shape *s = value(g, last)->shape;
        const int64_t count = shape_count(s, 0, s->rank - 1);
        const Shape rows = SHAPE(count, s->dim[s->rank - 1]), samples = SHAPE(count);

        x = emit_reshape(g, last, &rows);
        target = emit_reshape(g, target, &samples);
    }
    EMIT_MULTI(g, CrossEntropySum, attrs, 3, y, x, target);
    if (g->status)
        return;
    graph_replace(g, num, y[0]);
    if (has_value(den))
        graph_replace(g, den, y[1]);
}

static Status fuse_cross_entropy_run(Graph *g, PassCtx *ctx)
{
    const uint32_t n_node = g->n_node, *uses;
    bool leads = !find_batch_dim(g, ctx->opt).axis;

    if (!target_fuses(build_target(ctx->opt), &op_CrossEntropySum))
        return ST_OK;
    if (!(uses = graph_count_uses(g, ctx->scratch)))
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_input; i++)
        leads &= named_batch_axis(ctx->opt, value(g, g->input[i])) <= 0;
    for (uint32_t i = 0; i < n_node && !g->status; i++) {
        const Node *n = g->node[i], *softmax = n->op == &op_NllSum ? made_by(g, n->in[0], &op_LogSoftmax) : NULL;

        if (!softmax || uses[n->in[0].i] != 1 || node_int(softmax, "flatten") || node_int(softmax, "axis") != 1 ||
            has_in(n, 2) || in_value(g, n, 0)->shape->dim[1] < 1)
            continue;
        graph_begin_purpose(g, n->phase, n->name);
        fuse_cross_entropy_rewrite(g, n, softmax, leads);
        ctx->n_changed++;
    }
    return g->status || !ctx->n_changed ? g->status : graph_sort(g);
}

const Pass pass_fuse_cross_entropy = { .name = "fuse-cross-entropy",
                                       .summary = "merge LogSoftmax and NllSum into one node",
                                       .run = fuse_cross_entropy_run };
