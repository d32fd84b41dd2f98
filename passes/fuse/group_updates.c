/* group-updates: updates by one formula with the same scalars become one Update node.
 *
 * A launch of an accelerator costs as much as the update of a small parameter, and a model has hundreds: there one node
 * updates all parameters of a device.  On the host a gradient should be freed as soon as its parameter is updated, so
 * only updates of small parameters are grouped, as long as their gradients take little memory.
 *
 * If a gradient is only multiplied by a scalar before the update (clipping), the product becomes part of the formula,
 * for single nodes too, and a pass over memory is saved.  The arithmetic of each element stays the same.
 *
 * Legal because each update reads its own states alone.  A node that depends on another update's outputs is not
 * grouped, so no cycle closes. */
#include "graph/base/hash.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/update.gen.h"
#include "graph/ops/update.h"
#include "passes/names.h"
#include "passes/pass.h"

/* Limits on the host: the bytes of a gradient that may wait, and of all gradients of a group. */
enum { SMALL_BYTES = 1 << 16, GROUP_BYTES = 1 << 20 };

typedef struct Group Group;
struct Group {
    Node *first; /* represents the group */
    int count;
    int64_t bytes; /* the gradients' size */
    Group *next;   /* the next older group */
    Group *beside; /* another kind of group in the same slot */
};

typedef struct {
    Graph *g;
    PassCtx *ctx;
    const uint32_t *uses;
    bool *after;   /* [node] depends on an update's output */
    Group **group; /* [node] */
    Group *groups; /* the newest first */
    Group **slot;  /* [n_slot] hash table by the shared scalars: the newest group of each kind */
    size_t n_slot;
    const Graph *formula; /* the last one that was scaled, and the formula that first multiplies the gradient by one */
    Graph *scaled;        /* more scalar */
    Draft draft;
} Grouping;

/* ---- gradients times a scalar; a node of one parameter has its gradient at input n_out ---- */

/* *out: a copy of the formula that multiplies its input `grad` by a new last input. */
static Status scale_formula(Graph **out, const Graph *formula, int grad)
{
    Graph *body;
    ValueId in[2];
    const Node *mul;
    Status st;

    TRY(graph_clone(&body, formula));
    in[0] = body->input[grad];
    in[1] = body_input(body, "scale");
    mul = graph_add_node(body, &op_Mul, "scaled", NULL, 2, in, 1, NULL);
    FOR_NODES(body, x)
        for (int i = 0; mul && x != mul && i < x->n_in; i++)
            if (value_eq(x->in[i], in[0]))
                node_set_input(body, x, i, mul->out[0]);
    if ((st = body->status ? body->status : graph_sort(body)))
        graph_free(body);
    else
        *out = body;
    return st;
}

/* Fuses the product with a scalar that makes the gradient of n, if n alone reads it and the device computes the
 * formula. */
static Status take_scale(Grouping *s, Node *n)
{
    const ValueId grad = n->in[n->n_out];
    const Graph *formula = node_graph(n, "formula");
    Node *mul = value(s->g, grad)->producer;

    if (!mul || mul->op != &op_Mul || s->uses[grad.i] != 1 || mul->device != n->device ||
        in_value(s->g, mul, 1)->shape->rank != 0 || in_value(s->g, mul, 0)->shape->rank == 0)
        return ST_OK;
    if (s->formula != formula) {
        graph_free(s->scaled);
        s->scaled = NULL;
        s->formula = NULL;
        TRY(scale_formula(&s->scaled, formula, n->n_out));
        s->formula = formula;
    }
    draft_begin(&s->draft, n, n->op);
    draft_in(&s->draft, n->n_out, mul->in[0]);
    draft_in(&s->draft, n->n_in, mul->in[1]);
    draft_attr(&s->draft, &(Attr)GRAPH("formula", s->scaled));
    draft_absorb(&s->draft, mul);
    s->ctx->n_changed += draft_try_apply(&s->draft);
    return s->g->status;
}

/* ---- groups ---- */

/* Have the updates one formula, type and device, and the same scalars? */
static bool group_updates_fits(const Grouping *s, const Node *a, const Node *b)
{
    if (a->n_in != b->n_in || a->n_out != b->n_out || a->device != b->device ||
        in_value(s->g, a, 0)->dtype != in_value(s->g, b, 0)->dtype ||
        !body_same(node_graph(a, "formula"), node_graph(b, "formula")))
        return false;
    for (int i = a->n_out + 1; i < a->n_in; i++)
        if (!value_eq(a->in[i], b->in[i]))
            return false;
    return true;
}

/* Adds n to a group, perhaps a new one; on the host the update of a large parameter stays alone. */
static Status choose_group(Grouping *s, const Node *n)
{
    const bool all = build_target(s->ctx->opt)->accelerator;
    const int64_t bytes = (int64_t)value_bytes(s->g, n->in[n->n_out]);
    uint64_t h = hash_int(hash_int(HASH_BEGIN, n->n_in), n->device);
    Group **at, *x;

    if (!all && bytes > SMALL_BYTES)
        return ST_OK;
    for (int i = n->n_out + 1; i < n->n_in; i++)
        h = hash_int(h, n->in[i].i);
    at = &s->slot[h & (s->n_slot - 1)];
    while (*at && !group_updates_fits(s, (*at)->first, n))
        at = &(*at)->beside;
    x = *at;
    if (!x || (!all && x->bytes + bytes > GROUP_BYTES)) {
        if (!(x = ARENA_NEW(s->ctx->scratch, Group, 1)))
            return FAIL_NOMEM();
        x->first = s->g->node[n->index];
        x->next = s->groups;
        x->beside = *at ? (*at)->beside : NULL;
        s->groups = *at = x;
    }
    x->count++;
    x->bytes += bytes;
    s->group[n->index] = x;
    return ST_OK;
}

/* Sets s->after. */
static Status find_after(Grouping *s, Arena *a)
{
    const Graph *g = s->g;
    bool *updated = ARENA_NEW(a, bool, g->n_value);

    if (!updated || !(s->after = ARENA_NEW(a, bool, g->n_node)))
        return FAIL_NOMEM();
    FOR_NODES(g, n) {
        for (int i = 0; i < n->n_in; i++)
            s->after[n->index] |= has_value(n->in[i]) && updated[n->in[i].i];
        for (int o = 0; o < n->n_out; o++)
            updated[n->out[o].i] = s->after[n->index] || n->op == &op_Update;
    }
    return ST_OK;
}

/* Turns the last node into the update of all `count`, and removes the others, if the device computes such a node. */
static Status group_updates_merge(Grouping *s, Node *const *list, int count)
{
    Draft *d = &s->draft;
    Node *last = list[count - 1];
    const int states = last->n_out, n_scalar = last->n_in - states - 1;
    const UpdateForm all = { count, states };
    const char *name;

    draft_begin(d, last, last->op);
    draft_clear(d);
    for (int p = 0; p < count; p++)
        for (int k = 0; k < states; k++) {
            draft_in(d, update_state(&all, p, k), list[p]->in[k]);
            draft_out(d, update_state(&all, p, k), list[p]->out[k]);
        }
    for (int p = 0; p < count; p++)
        draft_in(d, update_grad(&all, p), list[p]->in[states]);
    for (int i = 0; i < n_scalar; i++)
        draft_in(d, update_scalar(&all, i), last->in[states + 1 + i]);
    draft_attr(d, &(Attr)INT("count", count));
    for (int p = 0; p + 1 < count; p++)
        draft_absorb(d, list[p]);
    if (!(name = names_of_group(s->g->arena, "update", list, count)))
        return FAIL_NOMEM();
    if (draft_try_apply(d)) {
        last->name = name;
        s->ctx->n_changed += count - 1;
    }
    return s->g->status;
}

static Status merge_all(Grouping *s)
{
    Graph *g = s->g;
    Node **list = ARENA_NEW(s->ctx->scratch, Node *, g->n_node), **at = list;
    Node ***begin = ARENA_NEW(s->ctx->scratch, Node **, g->n_node); /* [node that is a group's first] */
    const uint32_t n_node = g->n_node;

    if (!list || !begin)
        return FAIL_NOMEM();
    for (Group *x = s->groups; x; x = x->next) {
        begin[x->first->index] = at;
        at += x->count;
        x->count = 0;
    }
    for (uint32_t i = 0; i < n_node; i++) {
        Group *x = g->node[i] ? s->group[i] : NULL;

        if (x)
            begin[x->first->index][x->count++] = g->node[i];
    }
    for (Group *x = s->groups; x; x = x->next)
        if (x->count > 1)
            TRY(group_updates_merge(s, begin[x->first->index], x->count));
    return ST_OK;
}

static Status group(Grouping *s)
{
    Graph *g = s->g;
    size_t n_update = 0;

    FOR_NODES(g, n)
        n_update += n->op == &op_Update;
    for (s->n_slot = 1; s->n_slot < n_update;)
        s->n_slot *= 2;
    s->slot = ARENA_NEW(s->ctx->scratch, Group *, s->n_slot);
    s->uses = graph_count_uses(g, s->ctx->scratch);
    s->group = ARENA_NEW(s->ctx->scratch, Group *, g->n_node);
    if (!s->slot || !s->uses || !s->group)
        return FAIL_NOMEM();
    TRY(find_after(s, s->ctx->scratch));
    pass_draft(&s->draft, g, s->ctx);
    FOR_NODES(g, n) {
        if (n->op != &op_Update || node_int(n, "count") > 1 || s->after[n->index] ||
            !target_computes(build_target(s->ctx->opt), g, n))
            continue;
        TRY(take_scale(s, n));
        TRY(choose_group(s, n));
    }
    TRY(merge_all(s));
    return s->ctx->n_changed ? graph_sort(g) : ST_OK;
}

static Status group_updates_run(Graph *g, PassCtx *ctx)
{
    Grouping s = { .g = g, .ctx = ctx };
    Status st = group(&s);

    graph_free(s.scaled);
    return st;
}

const Pass pass_group_updates = { .name = "group-updates",
                                  .summary = "one node updates all parameters of an accelerator, or many small ones",
                                  .modes = MODES_UPDATE,
                                  .run = group_updates_run };
