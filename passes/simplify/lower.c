/* lower: rewrites composite operators into simpler ones, which bring their gradients and placements.
 *
 * OpDef.lower emits the simpler nodes and redirects the outputs to them; it may decline by changing nothing.  A node
 * whose shapes depend on data is not lowered; if its operator has no kernel, the interpreter reports that. */
#include "graph/ir/lower.h"
#include "passes/pass.h"

static Status lower_run(Graph *g, PassCtx *ctx)
{
    TRY(graph_lower(g, ctx->scratch, &(Lowering){ .n_lowered = &ctx->n_changed }));
    return graph_sort(g);
}

const Pass pass_lower = {
    .name = "lower", .summary = "rewrite composite operators into simpler ones", .idempotent = true, .run = lower_run
};
