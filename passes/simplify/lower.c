/* lower: composite operators become simpler ones, which brings their gradient and their placement for free.
 *
 * An operator's `lower` emits the simpler nodes and redirects its outputs to them; it may decline by changing nothing.
 * Nodes that it emits are visited too.  The original is removed when nothing reads it any more. */
#include "graph/op.h"
#include "graph/rewrite.h"
#include "passes/pass.h"

static bool unused(const Graph *g, const Node *n, const uint32_t *uses)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && uses[n->out[i].i])
            return false;
    (void)g;
    return true;
}

/* Shapes that depend on data stay unknown until the interpreter runs; what needs lowering then has no kernel, and says
 * so. */
static bool inputs_known(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_value(n->in[i]) && !shape_known(value(g, n->in[i])->shape))
            return false;
    return true;
}

static Status run(Graph *g, PassCtx *ctx)
{
    const uint32_t *uses;
    uint32_t before;

    TRY(rewrite_begin(g, ctx->scratch));
    FOR_NODES(g, n) {
        before = g->n_node;
        rewrite_read(g, n);
        if (!n->op->lower || !inputs_known(g, n))
            continue;
        graph_begin_purpose(g, n->phase, n->name);
        TRY(n->op->lower(g, n));
        TRY(g->status);
        ctx->n_changed += g->n_node != before;
    }
    TRY(rewrite_end(g));
    if (!(uses = graph_count_uses(g, ctx->scratch)))
        return FAIL_NOMEM();
    FOR_NODES(g, n)
        if (n->op->lower && unused(g, n, uses))
            graph_remove(g, n);
    return graph_sort(g);
}

const Pass pass_lower = { .name = "lower", .summary = "rewrite composite operators into simpler ones", .run = run };
