/* dce: removes dead nodes and unused constants.
 *
 * Legal because nodes have no effects: the results of a step are its outputs and updates, and a node that neither
 * depends on is dead.  There are exceptions.  An embedder's operator with effects (OPF_IMPURE) stays where there is a
 * batch.  A node that checks sizes (OpDef.check_sizes) stays until it is lowered.  Inputs and states stay, as the
 * interface of the graph and the contents of a checkpoint.  Idle constants of a file stay in the model.  Ids stay
 * valid: a removed constant becomes a temporary without a producer. */
#include "graph/ir/op.h"
#include "passes/pass.h"

/* Walks backwards, so that the producers of inputs of dead nodes die in the same walk.  ctx->opt is NULL for a model.
 */
static Status dce_run(Graph *g, PassCtx *ctx)
{
    const bool has_batch = !ctx->opt || build_mode(ctx->opt) != BUILD_APPLY;
    uint32_t *n_use = graph_count_uses(g, ctx->scratch);

    if (!n_use)
        return FAIL_NOMEM();
    for (uint32_t i = g->n_node; i-- > 0;) {
        Node *n = g->node[i];

        bool dead = n->op && !n->op->check_sizes && !(n->op->flags & OPF_IMPURE && has_batch);

        for (int k = 0; dead && k < n->n_out; k++)
            dead = !has_value(n->out[k]) || !n_use[n->out[k].i];
        if (!dead)
            continue;
        for (int k = 0; k < n->n_in; k++)
            if (has_value(n->in[k]))
                n_use[n->in[k].i]--;
        graph_remove(g, n);
        ctx->n_changed++;
    }
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_CONST && !n_use[i] && (ctx->opt || !g->value[i]->idle))
            value_make_temp(g->value[i]);
    return graph_sort(g);
}

const Pass pass_dce = { .name = "dce",
                        .summary = "remove nodes and constants that no output and no update needs",
                        .idempotent = true,
                        .run = dce_run };
