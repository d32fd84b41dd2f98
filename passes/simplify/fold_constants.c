/* fold-constants: evaluates nodes that depend on constants alone, and removes nodes that change nothing.
 *
 * Parameters are states by now, so no weight is folded.  A result may be larger than its inputs (ConstantOfShape,
 * Expand); one above MAX_FOLDED bytes is computed at run time instead. */
#include "graph/ir/rewrite.h"
#include "passes/simplify/fold.h"

enum { MAX_FOLDED = 1 << 24 };

/* The input that the node passes through unchanged, or NO_VALUE.  Two kinds of nodes stay: one that makes a batch of
 * one sample from a value that all samples share, where the gradients of the samples are added, as with larger batches;
 * and the gate of a branch, which stops the gradient of a branch that is not taken. */
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

static Status fold_constants_run(Graph *g, PassCtx *ctx)
{
    bool *result = ARENA_NEW(ctx->scratch, bool, g->n_value); /* an output or the next value of a state */

    if (!result)
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_output; i++)
        result[g->output[i].value.i] = true;
    for (int i = 0; i < g->n_update; i++)
        result[g->update[i].next.i] = true;
    TRY(rewrite_begin(g, ctx->scratch));
    FOR_NODES(g, n) {
        ValueId same;

        rewrite_read(g, n);
        same = passed_through(g, n);
        if (fold_possible(g, n)) {
            TRY(fold_node(g, ctx, n, MAX_FOLDED));
        } else if (has_value(same) && !result[n->out[0].i]) { /* a result keeps its node, and with it its name */
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
                                   .idempotent = true,
                                   .run = fold_constants_run };
