/* group_updates: the updates of all parameters of an accelerator become one node.
 *
 * There a launch costs as much as the update of a small parameter, and a model has hundreds: SgdUpdate nodes that agree
 * in all but the parameter become one SgdUpdateAll, AdamUpdate nodes one AdamUpdateAll.  A gradient that is only
 * multiplied by a scalar before (clipping) is taken as it is, and the node multiplies.  The arithmetic of each element
 * stays the same.
 *
 * Legal because each update reads its own states alone; a node to whose inputs a way leads from another update's
 * outputs stays out, so no cycle closes.  Not done on the CPU, where a gradient should die as soon as its parameter has
 * been updated. */
#include <string.h>

#include "graph/op.h"
#include "graph/rewrite.h"
#include "passes/pass.h"

/* Where an update operator has what. */
typedef struct {
    const OpDef *one, *all;
    int n_state, state[3]; /* inputs: of the first output, the second ... */
    int n_shared, shared[2];
    int apply; /* input; optional */
} Kind;

enum { GRADIENT = 1 };

static const Kind kinds[] = {
    { &op_SgdUpdate, &op_SgdUpdateAll, 1, { 0 }, 1, { 2 }, 4 },
    { &op_SgdUpdate, &op_SgdUpdateAll, 2, { 0, 3 }, 1, { 2 }, 4 },
    { &op_AdamUpdate, &op_AdamUpdateAll, 3, { 0, 3, 4 }, 2, { 2, 5 }, 6 },
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

typedef struct {
    Graph *g;
    const uint32_t *uses;
    bool *after; /* [node] an update's output is needed first */
} Grouping;

static const Kind *kind_of(const Node *n)
{
    for (int k = 0; k < N_KINDS; k++)
        if (kinds[k].one == n->op && kinds[k].n_state == n->n_out)
            return &kinds[k];
    return NULL;
}

/* The Mul by a scalar that makes n's gradient and nothing else, or NULL. */
static Node *scaling(const Grouping *s, const Node *n)
{
    Node *p = value(s->g, n->in[GRADIENT])->producer;

    if (!p || p->op != &op_Mul || s->uses[n->in[GRADIENT].i] != 1 || p->device != n->device)
        return NULL;
    return in_value(s->g, p, 1)->shape.rank == 0 && in_value(s->g, p, 0)->shape.rank != 0 ? p : NULL;
}

static ValueId scale_of(const Grouping *s, const Node *n)
{
    const Node *mul = scaling(s, n);

    return mul ? mul->in[1] : NO_VALUE;
}

/* Whether the update happens; NO_VALUE: always. */
static ValueId apply_of(const Node *n)
{
    int i = kind_of(n)->apply;

    return has_in(n, i) ? n->in[i] : NO_VALUE;
}

static bool same_attrs(const Node *a, const Node *b)
{
    for (const AttrDecl *d = a->op->attrs; d->name; d++)
        if (d->type == A_INT ? node_int(a, d->name) != node_int(b, d->name)
                             : node_float(a, d->name) != node_float(b, d->name))
            return false;
    return true;
}

static bool fits(const Grouping *s, const Node *a, const Node *b)
{
    const Kind *k = kind_of(a);

    if (kind_of(b) != k || a->device != b->device || in_value(s->g, a, 0)->dtype != in_value(s->g, b, 0)->dtype ||
        !value_eq(scale_of(s, a), scale_of(s, b)) || !value_eq(apply_of(a), apply_of(b)) || !same_attrs(a, b))
        return false;
    for (int i = 0; i < k->n_shared; i++)
        if (!value_eq(a->in[k->shared[i]], b->in[k->shared[i]]))
            return false;
    return true;
}

/* Nodes stand in topological order. */
static Status find_after(Grouping *s, Arena *a)
{
    const Graph *g = s->g;
    bool *stained = ARENA_NEW(a, bool, g->n_value);

    if (!stained || !(s->after = ARENA_NEW(a, bool, g->n_node)))
        return FAIL_NOMEM();
    FOR_NODES(g, n) {
        for (int i = 0; i < n->n_in; i++)
            s->after[n->index] |= has_value(n->in[i]) && stained[n->in[i].i];
        for (int o = 0; o < n->n_out; o++)
            stained[n->out[o].i] = s->after[n->index] || kind_of(n);
    }
    return ST_OK;
}

/* The node of the last one becomes that of all; the others, and multiplications that are now part of it, are removed.
 * Nothing happens when the device does not compute such a node. */
static Status merge(Grouping *s, PassCtx *ctx, Node *const *list, int count)
{
    Graph *g = s->g;
    Node *last = list[count - 1], one = *last;
    const Kind *k = kind_of(last);
    const ValueId scale = scale_of(s, last), apply = apply_of(last);
    int states = count * k->n_state, shared = states + count,
        n_in = shared + k->n_shared +
               (has_value(apply)   ? 2
                : has_value(scale) ? 1
                                   : 0);
    ValueId *in = ARENA_NEW(ctx->scratch, ValueId, n_in), *out = ARENA_NEW(ctx->scratch, ValueId, states);
    Node **mul = ARENA_NEW(ctx->scratch, Node *, count);

    if (!in || !out || !mul)
        return FAIL_NOMEM();
    for (int i = 0; i < count; i++) {
        mul[i] = scaling(s, list[i]);
        in[states + i] = mul[i] ? mul[i]->in[0] : list[i]->in[GRADIENT];
        for (int j = 0; j < k->n_state; j++) {
            in[i * k->n_state + j] = list[i]->in[k->state[j]];
            out[i * k->n_state + j] = list[i]->out[j];
        }
    }
    for (int i = 0; i < k->n_shared; i++)
        in[shared + i] = last->in[k->shared[i]];
    if (has_value(scale))
        in[shared + k->n_shared] = scale;
    if (has_value(apply))
        in[shared + k->n_shared + 1] = apply;
    last->op = k->all;
    last->in = in;
    last->n_in = n_in;
    last->out = out;
    last->n_out = states;
    node_set_int(g, last, "count", count);
    if (g->status || !target_computes(&ctx->opt->backend, g, last)) {
        *last = one;
        return g->status;
    }
    node_set_inputs(g, last, n_in, in);
    node_set_outputs(g, last, states, out);
    for (int i = 0; i < count; i++) {
        if (mul[i])
            graph_remove(g, mul[i]);
        if (list[i] != last)
            graph_remove(g, list[i]);
    }
    ctx->n_changed += count - 1;
    return g->status;
}

static Status run(Graph *g, PassCtx *ctx)
{
    Grouping s = { .g = g };
    Node **all = ARENA_NEW(ctx->scratch, Node *, g->n_node), **group = ARENA_NEW(ctx->scratch, Node *, g->n_node);
    int n = 0;

    if (!ctx->opt->backend.accelerator)
        return ST_OK;
    if (!all || !group || !(s.uses = graph_count_uses(g, ctx->scratch)))
        return FAIL_NOMEM();
    TRY(find_after(&s, ctx->scratch));
    FOR_NODES(g, x)
        if (kind_of(x) && !s.after[x->index] && target_computes(&ctx->opt->backend, g, x))
            all[n++] = x;
    for (int i = 0; i < n; i++) {
        int count = 0;

        for (int k = i; k < n; k++)
            if (all[k] && all[k]->op && kind_of(all[k]) && (!count || fits(&s, group[0], all[k])))
                group[count++] = all[k];
        if (count < 2 || group[0] != all[i])
            continue;
        TRY(merge(&s, ctx, group, count));
    }
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_group_updates = { .name = "group-updates",
                                  .summary = "one node updates all parameters of an accelerator",
                                  .modes = 1u << BUILD_TRAIN | 1u << BUILD_APPLY,
                                  .run = run };
