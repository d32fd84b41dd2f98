/* layout-weights: the weights of convolutions are stored from step to step as the target wants them.
 *
 * State outlives programs, so its layout must be the same in all of them: it is chosen here, from the forward graph,
 * which every mode has at this point, and what passes/train/add_optimizer.c keeps beside a parameter follows it.  A
 * weight is found through the conversions that lead to a convolution; one that anything else reads too is stored by
 * rows. */
#include "graph/ir/readers.h"
#include "passes/options/collectives.h"
#include "passes/plan/layout.h"

/* Does the node read a weight for others, with which it is the same in all programs? */
static bool passes_on(const Node *n)
{
    return n->op->same & (SAME_TENSOR | SAME_TYPED) || n->op->flags & OPF_NEXT_STATE;
}

static ValueId layout_weights_source(const Graph *g, ValueId v)
{
    const Node *p;

    while ((p = maker(g, v)) && passes_on(p))
        v = p->in[0];
    return v;
}

/* States that something else than the weight input of a convolution reads. */
static void mark_uses(Graph *g, bool *other)
{
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in && !passes_on(n); i++)
            if (has_in(n, i) && !(i < 8 && n->op->filter_in >> i & 1))
                other[layout_weights_source(g, n->in[i]).i] = true;
}

static Status layout_weights_run(Graph *g, PassCtx *ctx)
{
    bool *other = ARENA_NEW(ctx->scratch, bool, g->n_value);

    if (!build_target(ctx->opt)->layouts || collective_options(ctx->opt)->shard)
        return ST_OK;
    if (!other)
        return FAIL_NOMEM();
    mark_uses(g, other);
    FOR_NODES(g, n) {
        NodeLayouts list[TARGET_LAYOUTS];

        if (!n->op->filter_in || !target_layouts(build_target(ctx->opt), g, n, list))
            continue;
        for (int i = 0; i < n->n_in; i++) {
            ValueId w = n->op->filter_in >> i & 1 && has_in(n, i) ? layout_weights_source(g, n->in[i]) : NO_VALUE;

            if (!has_value(w) || value(g, w)->kind != V_STATE || other[w.i] ||
                !layout_suits(list[0].filter, value(g, w)->shape))
                continue;
            value(g, w)->layout = list[0].filter;
            ctx->n_changed++;
        }
    }
    return ST_OK;
}

const Pass pass_layout_weights = { .name = "layout-weights",
                                   .summary = "store the weights of convolutions as they want them",
                                   .run = layout_weights_run };
