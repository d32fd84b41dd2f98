/* follow-file: what a training step of the model's file updates becomes state, and its updates those of the step
 * (--optimizer file).  Out of training these are dropped, with what only they need. */
#include <string.h>

#include "passes/pass.h"

static Status follow_file_follow(Graph *g, ValueId id)
{
    Value *v = value(g, id);
    const ValueId next = graph_output(g, v->next);
    const Value *to = has_value(next) ? value(g, next) : NULL;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (!to)
        return FAIL(E_INTERNAL, "there is no output '%s'", v->next);
    if (to->dtype != v->dtype || !shape_eq(to->shape, v->shape))
        return FAIL(E_SHAPE, "training_info: '%s' is %s%s, its next value '%s' %s%s", v->name, dtype_name(v->dtype),
                    shape_text(v->shape, a), v->next, dtype_name(to->dtype), shape_text(to->shape, b));
    v->kind = V_STATE;
    graph_add_update(g, id, next);
    return g->status;
}

static bool is_next(const Graph *g, const char *output)
{
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->next && !strcmp(g->value[i]->next, output))
            return true;
    return false;
}

static void drop_outputs(Graph *g)
{
    int kept = 0;

    for (int i = 0; i < g->n_output; i++)
        if (!is_next(g, g->output[i].name))
            g->output[kept++] = g->output[i];
    g->n_output = kept;
}

static Status follow_file_run(Graph *g, PassCtx *ctx)
{
    const BuildOptions *opt = ctx->opt;

    if (!follows_file(opt))
        return ST_OK;
    if (build_mode(opt) > BUILD_TRAIN)
        return FAIL(E_INVALID, "--optimizer file does not go with --accumulate: a step of the file has one batch");
    for (uint32_t i = 1; build_mode(opt) == BUILD_TRAIN && i < g->n_value; i++)
        if (g->value[i]->next)
            TRY(follow_file_follow(g, (ValueId){ i }));
    ctx->n_changed += g->n_update;
    drop_outputs(g);
    for (uint32_t i = 1; i < g->n_value; i++)
        g->value[i]->next = NULL;
    return g->status;
}

const Pass pass_follow_file = { .name = "follow-file",
                                .summary = "make the updates of the file's training_info those of the step",
                                .run = follow_file_run };
