/* fold-constants: evaluates what depends on constants alone, and drops nodes that change nothing.
 *
 * Parameters are state by now, so no weight is folded away.  A result may be larger than its inputs (ConstantOfShape,
 * Expand): past a limit it is computed at run time instead of being stored. */
#include "passes/fold.h"

enum { MAX_FOLDED = 1 << 24 };

/* The input that the node passes through unchanged, or NO_VALUE.  What makes a batch of one sample out of something
 * that all samples share stays, so that the gradients of all samples are added there as those of more samples are. */
static ValueId passed_through(const Graph *g, const Node *n)
{
    bool movement = n->op == &op_Cast || n->op == &op_Expand || (n->op->flags & OPF_VIEW);
    const Value *x, *y;

    if (!movement || !has_value(n->in[0]))
        return NO_VALUE;
    x = value(g, n->in[0]);
    y = value(g, n->out[0]);
    if (x->batch_axis == BATCH_NOWHERE && y->batch_axis > 0)
        return NO_VALUE;
    return x->dtype == y->dtype && shape_known(&x->shape) && shape_eq(&x->shape, &y->shape) ? n->in[0] : NO_VALUE;
}

/* A graph output or the next value of a state keeps a node of its own, so that it keeps its name. */
static bool is_result(const Graph *g, ValueId v)
{
    for (int i = 0; i < g->n_output; i++)
        if (value_eq(g->output[i].value, v))
            return true;
    for (int i = 0; i < g->n_update; i++)
        if (value_eq(g->update[i].next, v))
            return true;
    return false;
}

static Status run(Graph *g, PassCtx *ctx)
{
    FOR_NODES(g, n) {
        ValueId same = passed_through(g, n);

        if (fold_possible(g, n)) {
            TRY(fold_node(g, ctx, n, MAX_FOLDED));
        } else if (has_value(same) && !is_result(g, n->out[0])) {
            graph_replace(g, n->out[0], same);
            graph_remove(g, n);
            ctx->n_changed++;
        }
    }
    return graph_sort(g);
}

const Pass pass_fold_constants = { .name = "fold-constants",
                                   .summary = "evaluate what depends on constants alone",
                                   .run = run };
