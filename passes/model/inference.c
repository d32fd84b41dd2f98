/* A model out of training: BatchNormalization by running statistics, Dropout as the identity, no stochastic depth.
 *
 * An ONNX operator's mode is part of the file, so a model that was exported for training goes on as in training
 * wherever it is run, one sample normalised by itself.  What is written for inference must say so in the graph. */
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
        if (!n->op->train || op_stops(n->op)) /* where gradients stop is kept for whoever trains the file again */
            continue;
        TRY(n->op->train(g, n, &(TrainMode){ 0 }));
        while (n->n_out > n->op->out_min && !(has_out(n, n->n_out - 1) && uses[n->out[n->n_out - 1].i]))
            n->n_out--; /* of training, and for nobody */
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
