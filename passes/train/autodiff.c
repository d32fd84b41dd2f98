/* autodiff: adds the gradients of each loss by the parameters that it trains (graph/ir/autodiff.c). */
#include "graph/ir/autodiff.h"
#include "graph/ir/rewrite.h"
#include "graph/ir/stop_gradient.h"
#include "passes/model/parameters.h"
#include "passes/options/parameters.h"
#include "passes/options/update.h"
#include "passes/report.h"
#include "passes/update_groups.h"

static int collect_trainable(const Graph *g, ValueId *list)
{
    int n = 0;

    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_STATE && g->value[i]->trainable)
            list[n++] = (ValueId){ i };
    return n;
}

static int loss_of(const Graph *g, const BuildOptions *opt, ValueId param)
{
    return update_group_loss(opt, update_group_of(opt, value(g, param)->name));
}

/* Finds the value to differentiate for the groups of loss k (passes/update_groups.h). */
static Status find_loss(ValueId *out, Graph *g, const BuildOptions *opt, int k)
{
    const char *sum = build_mode(opt) == BUILD_TRAIN ? OUT_LOSS : OUT_LOSS_SUM, *name;

    if (!k) {
        *out = graph_output(g, OUT_SCALED_LOSS);
        *out = has_value(*out) ? *out : graph_output(g, sum);
        return has_value(*out) ? ST_OK : FAIL(E_INVALID, "training needs a loss: give --loss");
    }
    if (!(name = arena_printf(g->arena, OUT_OWN_LOSS_PREFIX "%s", update_options(opt)->group[k - 1].loss)))
        return FAIL_NOMEM();
    *out = graph_output(g, name);
    graph_remove_output(g, name);
    return has_value(*out) ? ST_OK : FAIL(E_INTERNAL, "there is no output '%s'", name);
}

static Status no_gradient(const BuildOptions *opt, int k, int n)
{
    const UpdateOptions *updates = update_options(opt);

    if (k)
        return FAIL(E_INVALID, "--group '%s': the loss '%s' depends on none of the %d parameters of the group",
                    updates->group[k - 1].pattern, updates->group[k - 1].loss, n);
    return FAIL(E_INVALID, "nothing to train: the loss depends on none of the %d trainable parameters", n);
}

/* Sets the gradients of loss k by the parameters whose loss it is; those of others stay. */
static Status differentiate(Graph *g, PassCtx *ctx, int k, int n, const ValueId *param, ValueId *grad)
{
    ValueId *wrt = ARENA_NEW(ctx->scratch, ValueId, n + 1), *found = ARENA_NEW(ctx->scratch, ValueId, n + 1), loss;
    int m = 0, n_found = 0;

    if (!wrt || !found)
        return FAIL_NOMEM();
    TRY(find_loss(&loss, g, ctx->opt, k));
    for (int i = 0; i < n; i++)
        if (loss_of(g, ctx->opt, param[i]) == k)
            wrt[m++] = param[i];
    if (!m && n) /* all parameters are in groups, or this group has none, which add-optimizer reports */
        return ST_OK;
    TRY(autodiff(g, ctx->scratch, loss, m, wrt, found));
    for (int i = 0, at = 0; i < n; i++) {
        if (loss_of(g, ctx->opt, param[i]) != k)
            continue;
        grad[i] = found[at++];
        n_found += has_value(grad[i]);
        if (!has_value(grad[i]))
            TRY(report_unreached(ctx->report, g, param[i], k ? update_options(ctx->opt)->group[k - 1].loss : NULL));
    }
    return n_found ? ST_OK : no_gradient(ctx->opt, k, m);
}

/* E_INVALID where the loss depends on nothing that a pattern of --train decides.  Patterns that match only fixed
 * tensors are reported by passes/model/parameters_obeyed.c. */
static Status check_train_patterns(const Graph *g, PassCtx *ctx, int n, const ValueId *param, const ValueId *grad)
{
    const ParameterOptions *parameters = parameter_options(ctx->opt);
    PROBLEMS(wrong);

    for (int k = 0; k < parameters->n_train; k++) {
        const char *pattern;
        bool any = false;
        int first = n;
        WayEnd end;

        for (int i = 0; i < n && !any; i++) {
            if (pattern_rule(ctx->opt, value(g, param[i])->name, &pattern) != PATTERN_TRAIN ||
                pattern != parameters->train[k])
                continue;
            any = has_value(grad[i]);
            first = i < first ? i : first;
        }
        if (any || first == n)
            continue;
        TRY(report_way_end(&end, g, param[first], ctx->scratch));
        problems_add(&wrong, "--train '%s' trains nothing: the path from '%s' to the loss ends at %s",
                     parameters->train[k], value(g, param[first])->name,
                     end.node ? node_text(g, end.node) : "an output");
    }
    return problems_fail(&wrong, E_INVALID, "parameters");
}

/* Removes the nodes that stop gradients, which the graph no longer needs. */
static Status drop_stops(Graph *g, Arena *scratch)
{
    TRY(rewrite_begin(g, scratch));
    FOR_NODES(g, n) {
        rewrite_read(g, n);
        if (op_stops(n->op))
            graph_replace(g, n->out[0], n->in[0]);
    }
    return rewrite_end(g);
}

static Status autodiff_run(Graph *g, PassCtx *ctx)
{
    ValueId *param = ARENA_NEW(ctx->scratch, ValueId, g->n_value), *grad;
    const int n = param ? collect_trainable(g, param) : 0;

    if (follows_file(ctx->opt))
        return ST_OK;
    if (!param || !(grad = ARENA_NEW(ctx->scratch, ValueId, n + 1)))
        return FAIL_NOMEM();
    for (int k = 0; k <= update_options(ctx->opt)->n_group; k++)
        if (update_group_loss(ctx->opt, k) == k)
            TRY(differentiate(g, ctx, k, n, param, grad));
    TRY(check_train_patterns(g, ctx, n, param, grad));
    graph_remove_output(g, OUT_SCALED_LOSS);
    TRY(drop_stops(g, ctx->scratch));
    for (int i = 0; i < n; i++) {
        const char *name = arena_printf(g->arena, OUT_GRAD_PREFIX "%s", value(g, param[i])->name);

        if (!name)
            return FAIL_NOMEM();
        if (has_value(grad[i]))
            graph_add_output(g, name, grad[i]);
        ctx->n_changed += has_value(grad[i]);
    }
    return g->status;
}

const Pass pass_autodiff = { .name = "autodiff",
                             .summary = "append the gradients of the loss by every trainable parameter",
                             .modes = MODES_TRAIN,
                             .run = autodiff_run };
