/* prepare-training: operators that behave differently in training are told which it is.
 *
 * Running mean and variance of BatchNormalization are states that are not trained; its outputs 1 and 2 update them.  In
 * training BatchNormalization works in training mode (ONNX's default is off, and exporters leave it so) unless its
 * node, running mean or running variance is frozen, or the file has others in training mode and not this one: a file
 * that says the mode of some means those of the rest.  Elsewhere running statistics are used and Dropout is the
 * identity (in training, passes/key_random.c turns it on).  What is a parameter was decided before
 * (passes/parameters.c). */
#include <string.h>

#include "graph/rewrite.h"
#include "passes/inference.h"
#include "passes/parameters.h"

typedef struct {
    Graph *g;
    PassCtx *ctx;
    int *update_of; /* [value] 1 + the update of the state, 0: none */
    bool mixed;     /* the file has batch-norms in training mode, and others that are not */
} Prepare;

static bool training(const PassCtx *ctx) { return ctx->opt->mode >= BUILD_TRAIN; }

/* BUILD_APPLY has no batch: nothing that a batch changes is updated there. */
static bool sees_batch(const PassCtx *ctx)
{
    return ctx->opt->mode == BUILD_TRAIN || ctx->opt->mode == BUILD_ACCUMULATE;
}

static bool frozen(const Prepare *p, const char *name)
{
    return pattern_rule(p->ctx->opt, name, NULL) == PATTERN_FREEZE;
}

/* ---- batch-norm ---- */

static bool is_batchnorm(const Node *n) { return n->op == &op_BatchNormalization; }

static Status add_output(Graph *g, Node *n, int i, const char *name)
{
    Shape unknown = shape_unknown();
    ValueId *grown;

    if (has_out(n, i))
        return ST_OK;
    if (!(grown = ARENA_NEW(g->arena, ValueId, i + 1 > n->n_out ? i + 1 : n->n_out)))
        return FAIL_NOMEM();
    memcpy(grown, n->out, (size_t)n->n_out * sizeof *grown);
    n->out = grown;
    n->n_out = i + 1 > n->n_out ? i + 1 : n->n_out;
    n->out[i] = graph_add_value(g, V_TEMP, name, DT_NONE, &unknown);
    TRY(g->status);
    value(g, n->out[i])->producer = n;
    value(g, n->out[i])->out_index = i;
    return ST_OK;
}

/* Statistics used by two layers are updated by one after the other, as a framework that calls a module twice does. */
static Status update_statistic(Prepare *p, Node *n, int in, int out)
{
    Graph *g = p->g;
    ValueId state = n->in[in];
    int *update = &p->update_of[state.i];

    TRY(add_output(g, n, out, arena_printf(g->arena, "%s.next", value(g, state)->name)));
    if (!*update) {
        graph_add_update(g, state, n->out[out]);
        *update = g->n_update;
    } else {
        node_set_input(g, n, in, g->update[*update - 1].next);
        g->update[*update - 1].next = n->out[out];
    }
    return g->status;
}

static Status train_batchnorm(Prepare *p, Node *n)
{
    node_set_int(p->g, n, "training_mode", 1);
    node_set_int(p->g, n, "sync", !p->ctx->opt->bn_local);
    node_set_int(p->g, n, "unbiased", p->ctx->opt->bn_unbiased);
    if (sees_batch(p->ctx)) {
        TRY(update_statistic(p, n, 3, 1));
        TRY(update_statistic(p, n, 4, 2));
    }
    p->ctx->n_changed++;
    return node_infer(p->g, n);
}

static Status freeze_batchnorm(Prepare *p, Node *n)
{
    p->ctx->n_changed += node_int(n, "training_mode") != 0;
    TRY(batch_norm_use_running(p->g, n));
    return node_infer(p->g, n);
}

static bool make_statistic(Prepare *p, ValueId v)
{
    if (value(p->g, v)->kind == V_CONST)
        value(p->g, v)->kind = V_STATE;
    return value(p->g, v)->kind == V_STATE && !value(p->g, v)->trainable;
}

static Status prepare_batchnorm(Prepare *p, Node *n)
{
    bool freeze = frozen(p, n->name) || frozen(p, in_value(p->g, n, 3)->name) || frozen(p, in_value(p->g, n, 4)->name);

    if (p->mixed && !node_int(n, "training_mode")) {
        TRY(report_note(p->ctx->report, NOTE_OTHER, n->name,
                        "in evaluation mode in a file that has others in training mode: its running "
                        "statistics stay as they are"));
        freeze = true;
    }
    if (freeze || !make_statistic(p, n->in[3]) || !make_statistic(p, n->in[4]))
        return freeze_batchnorm(p, n);
    return training(p->ctx) ? train_batchnorm(p, n) : freeze_batchnorm(p, n);
}

static bool has_mixed_modes(const Graph *g)
{
    bool has[2] = { false, false };

    FOR_NODES(g, n)
        if (is_batchnorm(n))
            has[node_int(n, "training_mode") != 0] = true;
    return has[0] && has[1];
}

static Status run(Graph *g, PassCtx *ctx)
{
    Prepare p = { .g = g, .ctx = ctx, .mixed = has_mixed_modes(g) };
    uint32_t n_node = g->n_node;

    if (!(p.update_of = ARENA_NEW(ctx->scratch, int, g->n_value)))
        return FAIL_NOMEM();
    for (int i = g->n_update; i-- > 0;)
        p.update_of[g->update[i].state.i] = i + 1;
    TRY(rewrite_begin(g, ctx->scratch));
    for (uint32_t i = 0; i < n_node; i++) {
        rewrite_read(g, g->node[i]);
        if (g->node[i]->op && is_batchnorm(g->node[i]))
            TRY(prepare_batchnorm(&p, g->node[i]));
    }
    TRY(rewrite_end(g));
    if (!sees_batch(ctx))
        FOR_NODES(g, n)
            if (n->op == &op_Dropout)
                dropout_switch_off(n);
    return graph_sort(g);
}

const Pass pass_prepare_training = { .name = "prepare-training",
                                     .summary = "make running statistics state, set training or evaluation mode",
                                     .run = run };
