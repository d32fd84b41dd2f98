/* lower: composite operators become simpler ones, which brings their gradient and their placement for free.
 *
 * An operator's `lower` emits the simpler nodes and redirects its outputs to them; it may decline by changing nothing.
 * Shapes that depend on data stay unknown until the interpreter runs; what needs lowering then has no kernel, and says
 * so. */
#include "graph/ir/lower.h"
#include "passes/pass.h"

static Status lower_run(Graph *g, PassCtx *ctx)
{
    TRY(graph_lower(g, ctx->scratch, &(Lowering){ .n_lowered = &ctx->n_changed }));
    return graph_sort(g);
}

const Pass pass_lower = { .name = "lower",
                          .summary = "rewrite composite operators into simpler ones",
                          .run = lower_run };
