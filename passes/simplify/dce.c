/* dce: removes nodes that nothing reads and constants that nothing uses.
 *
 * Legal because nodes have no effects: a step's results are its outputs and its updates, and what reaches neither does
 * not matter.  Those of embedders that have effects say so, and stay where there is a batch for them.  What sizes
 * decided is no result, but holds for all of them: it stays until it is checked and lowered. Inputs and states stay:
 * they are the interface of the graph and the contents of a checkpoint; and what a model's file has for nobody stays in
 * the model.  Ids stay too; a constant that is gone is a temporary that nothing computes. */
#include "graph/ir/op.h"
#include "passes/pass.h"

static void use(uint32_t *n_use, const Node *n, uint32_t by)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_value(n->in[i]))
            n_use[n->in[i].i] += by;
}

static bool is_dead(const Node *n, const uint32_t *n_use)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && n_use[n->out[i].i])
            return false;
    return true;
}

/* Models have no options: nothing is built of them yet. */
static bool is_kept(const Value *v, const PassCtx *ctx) { return v->idle && !ctx->opt; }

/* Backwards, so that what only dead nodes read dies in the same walk. */
static Status dce_run(Graph *g, PassCtx *ctx)
{
    const bool has_batch = !ctx->opt || build_mode(ctx->opt) != BUILD_APPLY;
    uint32_t *n_use = graph_count_uses(g, ctx->scratch);

    if (!n_use)
        return FAIL_NOMEM();
    for (uint32_t i = g->n_node; i-- > 0;) {
        Node *n = g->node[i];

        if (!n->op || n->op->check_sizes || (n->op->flags & OPF_IMPURE && has_batch) || !is_dead(n, n_use))
            continue;
        use(n_use, n, (uint32_t)-1);
        graph_remove(g, n);
        ctx->n_changed++;
    }
    for (uint32_t i = 1; i < g->n_value; i++)
        if (g->value[i]->kind == V_CONST && !n_use[i] && !is_kept(g->value[i], ctx)) {
            g->value[i]->kind = V_TEMP;
            g->value[i]->init = NULL;
            g->value[i]->producer = NULL;
        }
    return graph_sort(g);
}

const Pass pass_dce = { .name = "dce", .summary = "remove what no output and no update needs", .run = dce_run };
