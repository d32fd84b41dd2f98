/* fuse_elementwise: elementwise nodes that work on the same elements become one node, which an accelerator computes in
 * one pass over memory: every intermediate saves a write and its reads, every node a launch.
 *
 * Nodes belong together when they stand on one device for one replica, compute values of one shape, and one reads what
 * another makes or both read the same tensor of that shape; the scalars of a step are gathered whatever they read.
 * Groups grow node by node.  Two are merged unless a way leads out of one and by other nodes into the other: the merged
 * node would wait for itself.  Legal because Fused computes what its nodes do; what is used outside becomes an output.
 * The next value of a state that is read outside the group stays outside too, so that it can wait for those readers and
 * be computed in place.
 *
 * What is needed much later is not computed together with what is needed now: the part of a gradient that depends on
 * the forward pass alone would have to be stored until then, where it can be computed from what is stored anyway. */
#include "graph/ops/fused.h"
#include "graph/ops/fused.gen.h"
#include "graph/ir/readers.h"
#include "passes/pass.h"

enum { NODES_MOST = 48, INPUTS_MOST = 16, OUTPUTS_MOST = 8, NO_GROUP = -1, APART = 16, SMALL = 1 << 12 };

typedef struct {
    uint32_t node[NODES_MOST]; /* by increasing index, when the group is made a node */
    int n;                     /* 0: merged into another */
    uint32_t first, last;      /* indices */
} Group;

typedef struct {
    Graph *g;
    Arena *a;
    Group *group;
    int n_group;
    int *of;         /* [node] its group, or NO_GROUP */
    uint32_t *reads; /* [value] by nodes */
    ValueId *state;  /* [value] whose next value it is */
    uint32_t *uses;  /* [value] */
    uint32_t *seen;  /* [node] the walk that came here last */
    uint32_t walk;
    uint32_t *stack;
    uint32_t *height; /* [node] nodes on the longest way from it to an end */
    uint32_t *reader; /* [value] 1 + the last node in a group that reads it */
    Draft draft;
} Fusion;

/* ---- updates ---- */

/* [value] how often nodes read it. */
static uint32_t *count_reads(const Graph *g, Arena *a)
{
    uint32_t *reads = ARENA_NEW(a, uint32_t, g->n_value);

    if (reads)
        FOR_NODES(g, n)
            for (int i = 0; i < n->n_in; i++)
                reads[n->in[i].i]++;
    return reads;
}

static Status find_updates(Fusion *f)
{
    const Graph *g = f->g;

    if (!(f->reads = count_reads(g, f->a)) || !(f->state = ARENA_NEW(f->a, ValueId, g->n_value)))
        return FAIL_NOMEM();
    for (int u = 0; u < g->n_update; u++)
        f->state[g->update[u].next.i] = g->update[u].state;
    return ST_OK;
}

/* Nodes stand in topological order. */
static void find_heights(Fusion *f)
{
    const Graph *g = f->g;

    for (uint32_t i = g->n_node; i-- > 0;)
        for (int j = 0; j < g->node[i]->n_in; j++) {
            const Node *p = maker(g, g->node[i]->in[j]);

            if (p && f->height[p->index] <= f->height[i])
                f->height[p->index] = f->height[i] + 1;
        }
}

static const Shape *space_of(const Fusion *f, uint32_t node) { return value(f->g, f->g->node[node]->out[0])->shape; }

/* Are they needed at about the same time?  It does not matter of what is small. */
static bool together(const Fusion *f, uint32_t a, uint32_t b)
{
    uint32_t x = f->height[a], y = f->height[b];

    return (x > y ? x - y : y - x) <= APART || shape_numel(space_of(f, a)) <= SMALL;
}

static bool fuse_elementwise_alike(const Fusion *f, uint32_t a, uint32_t b)
{
    const Node *x = f->g->node[a], *y = f->g->node[b];

    return same_place(x, y) && shape_eq(space_of(f, a), space_of(f, b)) &&
           value(f->g, x->out[0])->layout == value(f->g, y->out[0])->layout && together(f, a, b);
}

/* ---- may two groups be one? ---- */

static const Group *group_of(const Fusion *f, const Node *n)
{
    return f->of[n->index] == NO_GROUP ? NULL : &f->group[f->of[n->index]];
}

static bool fuse_elementwise_listed(const ValueId *list, int n, ValueId v)
{
    for (int i = 0; i < n; i++)
        if (value_eq(list[i], v))
            return true;
    return false;
}

/* The inputs of two groups together (b may be NULL), each once, in order of use; -1 when there are more than
 * INPUTS_MOST. */
static int fuse_elementwise_list_inputs(const Fusion *f, const Group *a, const Group *b, ValueId in[INPUTS_MOST])
{
    const Group *part[2] = { a, b };
    int n = 0;

    for (int k = 0; k < 2 && part[k]; k++)
        for (int i = 0; i < part[k]->n; i++) {
            const Node *x = f->g->node[part[k]->node[i]];

            for (int j = 0; j < x->n_in; j++) {
                const Node *p = maker(f->g, x->in[j]);
                const Group *own = p ? group_of(f, p) : NULL;

                if (!has_value(x->in[j]) || (own && (own == a || own == b)) || fuse_elementwise_listed(in, n, x->in[j]))
                    continue;
                if (n == INPUTS_MOST)
                    return -1;
                in[n++] = x->in[j];
            }
        }
    return n;
}

static uint32_t uses_within(const Fusion *f, const Group *a, const Group *b, ValueId v)
{
    const Group *part[2] = { a, b };
    uint32_t n = 0;

    for (int k = 0; k < 2 && part[k]; k++)
        for (int i = 0; i < part[k]->n; i++) {
            const Node *x = f->g->node[part[k]->node[i]];

            for (int j = 0; j < x->n_in; j++)
                n += value_eq(x->in[j], v);
        }
    return n;
}

static bool is_output(const Fusion *f, const Group *a, const Group *b, ValueId v)
{
    return f->uses[v.i] > uses_within(f, a, b, v);
}

static int fuse_elementwise_count_outputs(const Fusion *f, const Group *a, const Group *b)
{
    const Group *part[2] = { a, b };
    int n = 0;

    for (int k = 0; k < 2 && part[k]; k++)
        for (int i = 0; i < part[k]->n; i++)
            n += is_output(f, a, b, f->g->node[part[k]->node[i]]->out[0]);
    return n;
}

/* Do nodes outside read a state whose next value is computed inside? */
static bool parts_update(const Fusion *f, const Group *a, const Group *b)
{
    const Group *part[2] = { a, b };

    for (int k = 0; k < 2; k++)
        for (int i = 0; i < part[k]->n; i++) {
            ValueId s = f->state[f->g->node[part[k]->node[i]]->out[0].i];

            if (has_value(s) && f->reads[s.i] > uses_within(f, a, b, s))
                return true;
        }
    return false;
}

/* Puts a node, or all nodes of its group, on the stack unless the walk was there. */
static void fuse_elementwise_visit(Fusion *f, const Node *p, uint32_t *n_stack)
{
    const Group *q = group_of(f, p);

    if (f->seen[p->index] == f->walk)
        return;
    for (int k = 0; k < (q ? q->n : 1); k++) {
        uint32_t i = q ? q->node[k] : p->index;

        f->seen[i] = f->walk;
        f->stack[(*n_stack)++] = i;
    }
}

/* Puts on the stack what node `i` reads from outside `to`, which it may belong to; true when that comes from `from` and
 * the node does not belong to `to`.  What ends before `from` begins is left aside. */
static bool fuse_elementwise_expand(Fusion *f, uint32_t i, const Group *from, const Group *to, uint32_t *n_stack)
{
    const Node *x = f->g->node[i];

    for (int j = 0; j < x->n_in; j++) {
        const Node *p = maker(f->g, x->in[j]);
        const Group *q = p ? group_of(f, p) : NULL;

        if (!p || q == to || (q ? q->last : p->index) < from->first)
            continue;
        if (q != from)
            fuse_elementwise_visit(f, p, n_stack);
        else if (group_of(f, x) != to)
            return true;
    }
    return false;
}

/* Does a way lead out of `from` and by other nodes into `to`?  Walks against the edges, groups as one node. */
static bool leads_around(Fusion *f, const Group *from, const Group *to)
{
    uint32_t n_stack = 0;

    f->walk++;
    for (int i = 0; i < to->n; i++)
        fuse_elementwise_expand(f, to->node[i], from, to, &n_stack);
    while (n_stack)
        if (fuse_elementwise_expand(f, f->stack[--n_stack], from, to, &n_stack))
            return true;
    return false;
}

static void fuse_elementwise_merge(Fusion *f, Group *into, Group *from)
{
    for (int i = 0; i < from->n; i++) {
        into->node[into->n++] = from->node[i];
        f->of[from->node[i]] = (int)(into - f->group);
    }
    into->first = into->first < from->first ? into->first : from->first;
    into->last = into->last > from->last ? into->last : from->last;
    from->n = 0;
}

/* Merges the groups of two nodes when that is legal and small enough. */
static void try_merge(Fusion *f, uint32_t x, uint32_t y)
{
    Group *a = &f->group[f->of[x]], *b = &f->group[f->of[y]];
    ValueId in[INPUTS_MOST];

    if (a == b || !fuse_elementwise_alike(f, x, y) || a->n + b->n > NODES_MOST ||
        fuse_elementwise_list_inputs(f, a, b, in) < 0 || fuse_elementwise_count_outputs(f, a, b) > OUTPUTS_MOST ||
        parts_update(f, a, b) || leads_around(f, a, b) || leads_around(f, b, a))
        return;
    fuse_elementwise_merge(f, a, b);
}

/* ---- the new node ---- */

static void sort_nodes(Group *q)
{
    for (int i = 1; i < q->n; i++)
        for (int k = i; k && q->node[k - 1] > q->node[k]; k--) {
            uint32_t t = q->node[k];

            q->node[k] = q->node[k - 1];
            q->node[k - 1] = t;
        }
}

/* The group's last node becomes the new one, the others go; nothing happens when the device does not compute it. */
static Status make_node(Fusion *f, PassCtx *ctx, Group *q)
{
    Graph *body = graph_create("program");
    Node *node[NODES_MOST];
    bool returned[NODES_MOST];
    Draft *d = &f->draft;
    Status st;

    if (!body)
        return FAIL_NOMEM();
    sort_nodes(q);
    for (int i = 0; i < q->n; i++) {
        node[i] = f->g->node[q->node[i]];
        returned[i] = is_output(f, q, NULL, node[i]->out[0]);
    }
    draft_begin(d, node[q->n - 1], &op_Fused);
    if (!(st = fused_write(d, body, q->n, node, returned))) {
        for (int i = 0; i < q->n - 1; i++)
            draft_absorb(d, node[i]);
        ctx->n_changed += draft_try_apply(d);
    }
    graph_free(body);
    return st ? st : f->g->status;
}

/* ---- growing ---- */

static bool is_candidate(const Fusion *f, const Node *n)
{
    const Group alone = { .node = { n->index }, .n = 1 };
    const Shape *space = value(f->g, n->out[0])->shape;
    ValueId in[INPUTS_MOST];

    return n->op->elementwise && n->n_out == 1 && n->device < f->draft.n_device && shape_known(space) &&
           shape_numel(space) != 0 && fuse_elementwise_list_inputs(f, &alone, NULL, in) >= 1 &&
           target_joins(f->draft.target, f->g, n);
}

static void join_neighbours(Fusion *f, const Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const Value *v = has_value(n->in[i]) ? value(f->g, n->in[i]) : NULL;

        if (v && v->producer && f->of[v->producer->index] != NO_GROUP)
            try_merge(f, v->producer->index, n->index);
    }
    for (int i = 0; i < n->n_in; i++) {
        const Value *v = has_value(n->in[i]) ? value(f->g, n->in[i]) : NULL;

        if (v && f->reader[n->in[i].i] && shape_eq(v->shape, space_of(f, n->index)))
            try_merge(f, f->reader[n->in[i].i] - 1, n->index);
        if (v)
            f->reader[n->in[i].i] = n->index + 1;
    }
}

static void fuse_elementwise_grow(Fusion *f)
{
    uint32_t scalar = UINT32_MAX; /* the last node that computes one element */

    FOR_NODES(f->g, n) {
        Group *own = &f->group[f->n_group];

        if (!is_candidate(f, n))
            continue;
        f->of[n->index] = f->n_group++;
        *own = (Group){ .node = { n->index }, .n = 1, .first = n->index, .last = n->index };
        join_neighbours(f, n);
        if (shape_numel(space_of(f, n->index)) != 1)
            continue;
        if (scalar != UINT32_MAX)
            try_merge(f, scalar, n->index);
        scalar = n->index;
    }
}

/* ---- entry ---- */

static Status fuse_elementwise_allocate(Fusion *f, PassCtx *ctx)
{
    f->a = ctx->scratch;
    pass_draft(&f->draft, f->g, ctx);
    f->group = ARENA_NEW(f->a, Group, f->g->n_node + 1);
    f->of = ARENA_NEW(f->a, int, f->g->n_node);
    f->seen = ARENA_NEW(f->a, uint32_t, f->g->n_node);
    f->stack = ARENA_NEW(f->a, uint32_t, f->g->n_node + NODES_MOST);
    f->height = ARENA_NEW(f->a, uint32_t, f->g->n_node);
    f->reader = ARENA_NEW(f->a, uint32_t, f->g->n_value);
    f->uses = graph_count_uses(f->g, f->a);
    if (!f->group || !f->of || !f->seen || !f->stack || !f->height || !f->reader || !f->uses)
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < f->g->n_node; i++)
        f->of[i] = NO_GROUP;
    find_heights(f);
    return find_updates(f);
}

static Status fuse_elementwise_run(Graph *g, PassCtx *ctx)
{
    Fusion f = { .g = g };

    if (!target_fuses(build_target(ctx->opt), &op_Fused))
        return ST_OK;
    TRY(fuse_elementwise_allocate(&f, ctx));
    fuse_elementwise_grow(&f);
    for (int i = 0; i < f.n_group; i++)
        if (f.group[i].n > 1)
            TRY(make_node(&f, ctx, &f.group[i]));
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_fuse_elementwise = { .name = "fuse-elementwise",
                                     .summary = "compute elementwise operators together",
                                     .run = fuse_elementwise_run };
