/* predictions: removes from a model that computes its loss itself the outputs that need targets: losses, and single
 * numbers, which measure a batch.  Nodes and inputs that only they need are removed as well. */
#include "graph/ir/op.h"
#include "passes/train/criterion.h"

static Status drop_losses(Graph *g, PassCtx *ctx)
{
    const bool own = loss_is_output(ctx->opt);
    bool *is_loss = ARENA_NEW(ctx->scratch, bool, (size_t)g->n_output + 1);
    int kept = 0;

    if (!is_loss)
        return FAIL_NOMEM();
    TRY(criterion_find_losses(is_loss, g, ctx->opt));
    for (int i = 0; i < g->n_output; i++) {
        const bool measures = own && value(g, g->output[i].value)->shape->rank == 0;

        if (!is_loss[i] && !measures)
            g->output[kept++] = g->output[i];
    }
    ctx->n_changed += g->n_output - kept;
    g->n_output = kept;
    return ST_OK;
}

/* Removes nodes that no output needs, from the end.  Nodes that embedders declare impure stay, with the nodes they
 * read. */
static void drop_unread(Graph *g, uint32_t *n_use)
{
    for (uint32_t i = g->n_node; i-- > 0;) {
        Node *n = g->node[i];
        bool read = !n->op || n->op->check_sizes || n->op->flags & OPF_IMPURE;

        for (int o = 0; o < n->n_out; o++)
            read |= has_value(n->out[o]) && n_use[n->out[o].i];
        if (read)
            continue;
        for (int k = 0; k < n->n_in; k++)
            if (has_value(n->in[k]))
                n_use[n->in[k].i]--;
        graph_remove(g, n);
    }
}

static Status predictions_run(Graph *g, PassCtx *ctx)
{
    uint32_t *n_use;
    int kept = 0;

    TRY(drop_losses(g, ctx));
    if (!(n_use = graph_count_uses(g, ctx->scratch)))
        return FAIL_NOMEM();
    drop_unread(g, n_use);
    for (int i = 0; i < g->n_input; i++)
        if (n_use[g->input[i].i])
            g->input[kept++] = g->input[i];
        else
            value_make_temp(value(g, g->input[i]));
    g->n_input = kept;
    return graph_sort(g);
}

const Pass pass_predictions = { .name = "predictions",
                                .summary = "drop losses of the model's own, and inputs that only they need",
                                .modes = 1u << BUILD_PREDICT,
                                .run = predictions_run };
