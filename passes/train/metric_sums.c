/* The sums of the run's metrics, as outputs of a step. */
#include "passes/train/metric_sums.h"

#include "graph/ir/emit.h"
#include "graph/ops/arg.gen.h"
#include "passes/options/outputs.h"
#include "passes/update_groups.h"

Status metrics_check(const RecipeOptions *o)
{
    for (const MetricChoice *m = o->metric; m->def; m++)
        if (m->def->target != o->loss->target && !(m->def->binary && o->loss->binary))
            return FAIL(E_INVALID, "--metric %s needs %s: it does not go with --loss %s", m->def->recipe.name,
                        m->def->target == TARGET_VALUES ? "a target of the output's shape"
                        : m->def->binary                ? "class scores, or a binary loss (bce, bce-logits)"
                                                        : "class scores",
                        o->loss->recipe.name);
    return ST_OK;
}

/* Adds an output called `name`, or NAME.k of the k-th metric behind the first. */
static Status add_output(Output *out, int *n, Graph *g, const char *name, int k, ValueId v)
{
    char text[GROUP_NAME];

    if (!(name = arena_strdup(g->arena, group_name(text, name, k))))
        return FAIL_NOMEM();
    out[(*n)++] = (Output){ .name = name, .value = v };
    return ST_OK;
}

Status metrics_emit(Output *out, int *n, const LossBody *scores, const BuildOptions *opt)
{
    const RecipeOptions *o = recipe_options(opt);
    Graph *g = scores->g;

    *n = 0;
    for (int k = 0; k < metric_count(o) && !g->status; k++) {
        const MetricChoice *m = &o->metric[k];
        LossBody b = { .g = g,
                       .y = scores->y,
                       .target = scores->target,
                       .batch = scores->batch,
                       .soft = scores->soft && m->def->soft,
                       .binary = scores->binary,
                       .exact = o->exact && build_mode(opt) == BUILD_EVAL && !output_options(opt)->outputs_apart };
        RecipeSettings settings;
        ValueId weight = NO_VALUE;

        TRY(recipe_take(&settings, &m->def->recipe, "metric", m->args, o->settings, g->arena));
        if (scores->soft && !b.soft)
            b.target = EMIT(g, ArgMax, ATTRS(INT("axis", 1), INT("keepdims", 0)), scores->target);
        m->def->emit(&b, &settings);
        if (!m->def->table)
            loss_finish_sum(&b.sum, &weight, &b);
        TRY(g->status);
        TRY(add_output(out, n, g, OUT_METRIC_SUM, k, b.sum));
        if (has_value(weight))
            TRY(add_output(out, n, g, OUT_METRIC_WEIGHT, k, weight));
    }
    return g->status;
}
