/* A model out of training: BatchNormalization by running statistics, Dropout as the identity, no stochastic depth.
 *
 * An ONNX operator's mode is part of the file.  A model that was exported in training mode stays in it wherever it
 * runs, and normalises a single sample by itself; a file for inference must have the other mode in the graph. */
#include "passes/model/inference.h"

#include "graph/ir/rewrite.h"
#include "graph/ir/stop_gradient.h"
#include "passes/pass.h"

extern const Pass pass_dce;

static Status switch_off(Graph *g, Arena *scratch)
{
    const uint32_t *uses = graph_count_uses(g, scratch);

    if (!uses)
        return FAIL_NOMEM();
    FOR_NODES(g, n) {
        if (!n->op->train || op_stops(n->op)) /* StopGradient stays for whoever trains the file again */
            continue;
        TRY(n->op->train(g, n, &(TrainMode){ 0 }));
        while (n->n_out > n->op->out_min && !(has_out(n, n->n_out - 1) && uses[n->out[n->n_out - 1].i]))
            n->n_out--; /* an output of training mode that nobody reads */
    }
    return g->status;
}

Status inference_make(Graph *g)
{
    PassCtx ctx = { .scratch = arena_create() };
    DropSites sites = { 0 };
    Status st;

    if (!ctx.scratch)
        return FAIL_NOMEM();
    TRY_TO(done, st, drop_sites_find(&sites, g, ctx.scratch));
    TRY_TO(done, st, drop_sites_remove(g, &sites, ctx.scratch));
    TRY_TO(done, st, rewrite_begin(g, ctx.scratch));
    TRY_TO(done, st, switch_off(g, ctx.scratch));
    TRY_TO(done, st, rewrite_end(g));
    TRY_TO(done, st, pass_dce.run(g, &ctx));
done:
    rewrite_drop(g);
    arena_free(ctx.scratch);
    return st;
}
