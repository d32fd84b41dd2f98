/* fold-constants: evaluates what depends on constants alone, and drops nodes that change nothing.
 *
 * Parameters are state by now, so no weight is folded away.  A result may be larger than its inputs (ConstantOfShape,
 * Expand): past a limit it is computed at run time instead of being stored. */
#include "graph/ir/rewrite.h"
#include "passes/simplify/fold.h"

enum { MAX_FOLDED = 1 << 24 };

/* The input that the node passes through unchanged, or NO_VALUE.  What makes a batch of one sample out of something
 * that all samples share stays, so that the gradients of all samples are added there as those of more samples are; and
 * so does the gate of a branch, which stops the gradient of one that is not taken. */
static ValueId passed_through(const Graph *g, const Node *n)
{
    const Value *x, *y;

    if (!n->op->same || n->op->branch || n->op->flags & OPF_ZERO_GRAD || !has_value(n->in[0]))
        return NO_VALUE;
    x = value(g, n->in[0]);
    y = value(g, n->out[0]);
    if (x->batch_axis == BATCH_NONE && y->batch_axis > 0)
        return NO_VALUE;
    return x->dtype == y->dtype && shape_known(x->shape) && shape_eq(x->shape, y->shape) ? n->in[0] : NO_VALUE;
}

/* [value] a graph output or the next value of a state: it keeps a node of its own, so that it keeps its name. */
static bool *find_results(const Graph *g, Arena *a)
{
    bool *result = ARENA_NEW(a, bool, g->n_value);

    for (int i = 0; result && i < g->n_output; i++)
        result[g->output[i].value.i] = true;
    for (int i = 0; result && i < g->n_update; i++)
        result[g->update[i].next.i] = true;
    return result;
}

static Status fold_constants_run(Graph *g, PassCtx *ctx)
{
    const bool *result = find_results(g, ctx->scratch);

    if (!result)
        return FAIL_NOMEM();
    TRY(rewrite_begin(g, ctx->scratch));
    FOR_NODES(g, n) {
        ValueId same;

        rewrite_read(g, n);
        same = passed_through(g, n);

        if (fold_possible(g, n)) {
            TRY(fold_node(g, ctx, n, MAX_FOLDED));
        } else if (has_value(same) && !result[n->out[0].i]) {
            graph_replace(g, n->out[0], same);
            graph_remove(g, n);
            ctx->n_changed++;
        }
    }
    TRY(rewrite_end(g));
    return graph_sort(g);
}

const Pass pass_fold_constants = { .name = "fold-constants",
                                   .summary = "evaluate what depends on constants alone",
                                   .run = fold_constants_run };
