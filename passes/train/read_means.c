/* read-means: outside of training the model reads, instead of each parameter, the mean of it that training keeps beside
 * it (--eval-weights ema, graph/recipes/optimizer.c).
 *
 * Parameters become the states of that name; which have one only those know who keep states.  All that is decided of a
 * parameter, its layout and its pieces, is so of its mean. */
#include <string.h>

#include "passes/options/update.h"
#include "passes/pass.h"

static Status read_means_run(Graph *g, PassCtx *ctx)
{
    const BuildOptions *opt = ctx->opt;
    const UpdateOptions *updates = update_options(opt);

    for (uint32_t i = 1; updates->has_mean && i < g->n_value; i++) {
        const Value *v = g->value[i];
        const char *mean;

        if (v->kind != V_STATE || !v->trainable || !updates->has_mean(updates->states, v->name))
            continue;
        if (!(mean = arena_printf(g->arena, "%s." EMA_SUFFIX, v->name)))
            return FAIL_NOMEM();
        graph_rename(g, (ValueId){ i }, mean);
        TRY(g->status);
        if (strcmp(g->value[i]->name, mean))
            return FAIL(E_MODEL, "the model has a value of its own named '%s'", mean);
        ctx->n_changed++;
    }
    return g->status;
}

const Pass pass_read_means = { .name = "read-means",
                               .summary = "evaluate the means of parameters",
                               .modes =
                                   1u << BUILD_INFER | 1u << BUILD_PREDICT | 1u << BUILD_CONTINUE | 1u << BUILD_EVAL,
                               .run = read_means_run };
