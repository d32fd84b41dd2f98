/* take-turns: groups of parameters that have losses of their own (--group 'PATTERN:loss=NAME') are updated one after
 * another in a step, in the order of the groups, each by a loss that sees the earlier groups' new values.
 *
 * The nodes of a later loss that depend on parameters of earlier groups are copied.  The copies read Updated
 * (graph/ops/update.c) of these parameters, for which passes/train/add_optimizer.c puts in the next values.  Other
 * nodes, such as the generator of a GAN whose discriminator comes first, are computed once.  So the step equals a
 * program that calls forward, backward and the optimizer for each group in turn: the logged losses are the
 * differentiated ones, copies of random operators draw their own numbers, and batch-norm takes the statistics of
 * original and copy into its running ones.
 *
 * It runs before the passes that number random operators and chain running statistics, so that copies get theirs in a
 * program's order: nodes are ordered by the first loss that needs them.  An original whose copy alone is used is
 * removed. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/update.gen.h"
#include "passes/options/update.h"
#include "passes/pass.h"
#include "passes/train/criterion.h"
#include "passes/update_groups.h"

typedef struct {
    Graph *g;
    PassCtx *ctx;
    uint32_t n_node, n_value; /* of the model */
    int *turn;                /* [n_value] the first group of a trained parameter's loss; otherwise 0 */
    ValueId *updated;         /* [n_value] a parameter's value after the step, or NO_VALUE */
    bool *copied;             /* [n_node] a later loss has a copy of it */
    bool *listed;             /* [n_node] */
    Node **order; /* a program's order: nodes that the first loss needs, then those that only the second needs */
    uint32_t n_order;
} Turns;

static Status take_turns_find_turns(Turns *t)
{
    const Graph *g = t->g;
    PROBLEMS(none);

    for (uint32_t i = 1; i < t->n_value; i++) {
        const Value *v = g->value[i];

        if (v->kind != V_STATE || !v->trainable)
            continue;
        t->turn[i] = update_group_loss(t->ctx->opt, update_group_of(t->ctx->opt, v->name));
        if (!t->turn[i])
            problems_add(&none, "'%s'", v->name);
    }
    return problems_fail(
        &none, E_INVALID,
        "--turns: every parameter that is trained needs a group with a loss of its own; these have none");
}

/* [node] does one of these outputs depend on it? */
static bool *find_needed(const Turns *t, const bool *loss)
{
    bool *needed = ARENA_NEW(t->ctx->scratch, bool, t->n_node), *wanted = ARENA_NEW(t->ctx->scratch, bool, t->n_value);

    if (!needed || !wanted)
        return NULL;
    for (int i = 0; i < t->g->n_output; i++)
        wanted[t->g->output[i].value.i] |= loss[i];
    for (uint32_t i = t->n_node; i-- > 0;) {
        const Node *n = t->g->node[i];

        for (int o = 0; n->op && o < n->n_out; o++)
            needed[i] |= has_value(n->out[o]) && wanted[n->out[o].i];
        for (int k = 0; needed[i] && k < n->n_in; k++)
            wanted[n->in[k].i] |= has_value(n->in[k]);
    }
    return needed;
}

/* The value that turn k reads instead of v: v itself if no earlier turn changes it. */
static ValueId read_at_turn(Turns *t, const ValueId *copy, int k, ValueId v)
{
    if (!has_value(v) || has_value(copy[v.i]))
        return has_value(v) ? copy[v.i] : v;
    if (!t->turn[v.i] || t->turn[v.i] >= k)
        return v;
    if (!has_value(t->updated[v.i]))
        t->updated[v.i] = EMIT(t->g, Updated, NULL, v);
    return t->updated[v.i];
}

static Status take_turns_copy_node(Turns *t, ValueId *copy, const Node *n, const ValueId *in)
{
    Graph *g = t->g;
    const char **name = ARENA_NEW(t->ctx->scratch, const char *, n->n_out + 1);
    const Node *made;

    for (int o = 0; name && o < n->n_out; o++)
        name[o] = has_value(n->out[o]) ? NULL : ""; /* absent */
    made = name ? graph_add_node_like(g, n, n->n_in, in, n->n_out, name) : NULL;
    TRY(made ? g->status : graph_fail_nomem(g));
    for (int o = 0; o < n->n_out; o++) {
        const Value *of = has_value(n->out[o]) ? value(g, n->out[o]) : NULL;
        Value *v = of ? value(g, made->out[o]) : NULL;

        if (!of)
            continue;
        v->dtype = of->dtype;
        v->batch_axis = of->batch_axis;
        value_set_shape(g, v, of->shape);
        copy[n->out[o].i] = made->out[o];
    }
    t->copied[n->index] = true;
    t->ctx->n_changed++;
    return g->status;
}

/* Lists node i, which turn k needs: a copy if it reads changed values, otherwise the node itself, once. */
static Status add_to_order(Turns *t, ValueId *copy, int k, uint32_t i)
{
    Graph *g = t->g;
    Node *n = g->node[i];
    ValueId *in = ARENA_NEW(t->ctx->scratch, ValueId, n->n_in + 1);
    const uint32_t before = g->n_node;
    bool differs = false;

    if (!in)
        return FAIL_NOMEM();
    for (int j = 0; j < n->n_in; j++) {
        in[j] = read_at_turn(t, copy, k, n->in[j]);
        differs |= !value_eq(in[j], n->in[j]);
    }
    if (differs)
        TRY(take_turns_copy_node(t, copy, n, in));
    for (uint32_t made = before; made < g->n_node; made++)
        t->order[t->n_order++] = g->node[made];
    if (!differs && !t->listed[i])
        t->order[t->n_order++] = n;
    t->listed[i] |= !differs;
    return g->status;
}

/* Copies what turn k's loss, an output or a list of them, needs of the nodes that earlier turns change. */
static Status take_turn(Turns *t, int k)
{
    const UpdateOptions *updates = update_options(t->ctx->opt);
    Graph *g = t->g;
    const UpdateGroup *u = &updates->group[k - 1];
    bool *loss = ARENA_NEW(t->ctx->scratch, bool, g->n_output + 1), any = false;
    ValueId *copy = ARENA_NEW(t->ctx->scratch, ValueId, t->n_value);
    const bool *needed;

    if (!loss || !copy)
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_output; i++) {
        any |= loss[i] = criterion_in_loss(g, i, u->loss);
        for (int j = 1; loss[i] && j < k; j++)
            if (update_group_loss(t->ctx->opt, j) == j && criterion_in_loss(g, i, updates->group[j - 1].loss))
                return FAIL(E_INVALID,
                            "--turns: output '%s' is a loss of group '%s' and of '%s', a turn each: expected one",
                            g->output[i].name, updates->group[j - 1].pattern, u->pattern);
    }
    if (!any)
        return FAIL(E_INVALID, "--group '%s': the model has no output '%s' to be a loss", u->pattern, u->loss);
    if (!(needed = find_needed(t, loss)))
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < t->n_node; i++)
        if (needed[i])
            TRY(add_to_order(t, copy, k, i));
    for (int i = 0; i < g->n_output; i++)
        if (loss[i] && has_value(copy[g->output[i].value.i]))
            g->output[i].value = copy[g->output[i].value.i];
    return g->status;
}

/* Removes copied nodes that nothing reads. */
static Status drop_unused(Turns *t)
{
    uint32_t *uses = graph_count_uses(t->g, t->ctx->scratch);

    if (!uses)
        return FAIL_NOMEM();
    for (uint32_t i = t->n_node; i-- > 0;) {
        Node *n = t->g->node[i];
        bool used = !t->copied[i];

        for (int o = 0; n->op && o < n->n_out; o++)
            used |= has_value(n->out[o]) && uses[n->out[o].i];
        if (used || !n->op)
            continue;
        for (int j = 0; j < n->n_in; j++)
            uses[n->in[j].i] -= has_value(n->in[j]);
        graph_remove(t->g, n);
    }
    return ST_OK;
}

/* Puts the nodes into the found order; those that no loss needs come last. */
static Status put_in_order(Turns *t)
{
    Graph *g = t->g;
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->n_node; i++)
        if (!t->listed[i])
            t->order[t->n_order++] = g->node[i];
    for (uint32_t i = 0; i < t->n_order; i++)
        if (t->order[i]->op)
            g->node[n++] = t->order[i];
    g->n_node = n;
    return graph_sort(g);
}

static Status take_turns_run(Graph *g, PassCtx *ctx)
{
    const UpdateOptions *updates = update_options(ctx->opt);
    const int n_group = updates->n_group;
    Turns t = { .g = g,
                .ctx = ctx,
                .n_node = g->n_node,
                .n_value = g->n_value,
                .turn = ARENA_NEW(ctx->scratch, int, g->n_value),
                .updated = ARENA_NEW(ctx->scratch, ValueId, g->n_value),
                .copied = ARENA_NEW(ctx->scratch, bool, g->n_node + 1),
                .listed = ARENA_NEW(ctx->scratch, bool, g->n_node + 1) };

    if (!updates->turns)
        return ST_OK;
    /* at most each node and parameter again in each turn */
    t.order = ARENA_NEW(ctx->scratch, Node *, ((size_t)g->n_node + g->n_value) * ((size_t)n_group + 1));
    if (!t.turn || !t.updated || !t.copied || !t.listed || !t.order)
        return FAIL_NOMEM();
    TRY(take_turns_find_turns(&t));
    for (int k = 1; k <= n_group; k++)
        if (update_group_loss(ctx->opt, k) == k)
            TRY(take_turn(&t, k));
    TRY(drop_unused(&t));
    return put_in_order(&t);
}

const Pass pass_take_turns = { .name = "take-turns",
                               .summary = "later losses of a step see what earlier groups have become",
                               .modes = MODES_LEARN,
                               .run = take_turns_run };
