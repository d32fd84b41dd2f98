/* fuse-elementwise: elementwise nodes that work on the same elements become one node, which an accelerator computes in
 * one pass over memory.  Every intermediate value saves a write and its reads, every node a launch.
 *
 * Two nodes are joined if they are on one device for one replica, compute values of one shape, and one reads the
 * other's result or both read a tensor of that shape.  Scalars of a step are joined whatever they read.  Where
 * replicas take turns on a CPU, scalars of all of them are not, unless one reads the other: it would wait for what the
 * last replica computes.  Groups grow node by node.
 * Two groups are merged unless a path leads out of one and through other nodes into the other, for the merged node
 * would wait for itself.  Legal because Fused computes the same as its nodes; values that are read outside become
 * outputs.  The next value of a state that is read outside the group stays outside as well, so that it can wait for
 * those readers and be computed in place.
 *
 * Values that are needed at very different times are not computed together.  The part of a gradient that depends on the
 * forward pass alone would have to be stored until the backward pass, where it can be computed from stored values. */
#include "graph/ir/readers.h"
#include "graph/ops/fused.gen.h"
#include "graph/ops/fused.h"
#include "passes/options/replicas.h"
#include "passes/pass.h"

enum { NODES_MOST = 48, INPUTS_MOST = 16, OUTPUTS_MOST = 8, NO_GROUP = -1, APART = 16, SMALL = 1 << 12 };

typedef struct {
    uint32_t node[NODES_MOST]; /* sorted when the group becomes a node */
    int n;                     /* 0: merged into another */
    uint32_t first, last;      /* the least and the largest index */
} Group;

typedef struct {
    Graph *g;
    Arena *a;
    Group *group;
    int n_group;
    int *of;         /* [node] its group, or NO_GROUP */
    uint32_t *reads; /* [value] how often nodes read it */
    ValueId *state;  /* [value] the state whose next value it is */
    uint32_t *uses;  /* [value] */
    uint32_t *seen;  /* [node] the number of the walk that visited it last */
    uint32_t walk;
    uint32_t *stack;
    uint32_t *height; /* [node] number of nodes on the longest path from it */
    uint32_t *reach;  /* [node] the least index of a node in a group that ends there or behind; the node's, if less */
    uint32_t *reader; /* [value] 1 + the last node in a group that reads it */
    bool turns;       /* a CPU has several replicas */
    Draft draft;
} Fusion;

static const Shape *space_of(const Fusion *f, uint32_t node) { return value(f->g, f->g->node[node]->out[0])->shape; }

/* Have the nodes one place, shape and layout, and are they needed at about the same time?  Small values may wait. */
static bool fuse_elementwise_alike(const Fusion *f, uint32_t a, uint32_t b)
{
    const Node *x = f->g->node[a], *y = f->g->node[b];
    const uint32_t p = f->height[a], q = f->height[b];

    return same_place(x, y) && shape_eq(space_of(f, a), space_of(f, b)) &&
           value(f->g, x->out[0])->layout == value(f->g, y->out[0])->layout &&
           ((p > q ? p - q : q - p) <= APART || shape_numel(space_of(f, a)) <= SMALL);
}

/* ---- conditions for merging two groups ---- */

static const Group *group_of(const Fusion *f, const Node *n)
{
    return f->of[n->index] == NO_GROUP ? NULL : &f->group[f->of[n->index]];
}

/* Lists the inputs of two groups together (b may be NULL), each once, in order of use.  Returns their number; -1: they
 * are more than INPUTS_MOST. */
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
                int at = 0;

                while (at < n && !value_eq(in[at], x->in[j]))
                    at++;
                if (!has_value(x->in[j]) || (own && (own == a || own == b)) || at < n)
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

/* May the groups have one node, by its number of outputs, and by states: does no node outside read a state whose next
 * value they compute? */
static bool outputs_fit(const Fusion *f, const Group *a, const Group *b)
{
    const Group *part[2] = { a, b };
    int n = 0;

    for (int k = 0; k < 2; k++)
        for (int i = 0; i < part[k]->n; i++) {
            const ValueId v = f->g->node[part[k]->node[i]]->out[0], s = f->state[v.i];

            n += is_output(f, a, b, v);
            if (has_value(s) && f->reads[s.i] > uses_within(f, a, b, s))
                return false;
        }
    return n <= OUTPUTS_MOST;
}

/* No path from the group leads to a node of a smaller index, though through groups paths lead back: whoever reads one
 * node of a group waits for all of them. */
static uint32_t least_reached(const Fusion *f, const Group *from)
{
    uint32_t least = from->first;

    while (f->reach[least] < least)
        least = f->reach[least];
    return least;
}

/* Records how far back the group leads. */
static void note_reach(Fusion *f, const Group *q)
{
    for (uint32_t i = q->last; i > q->first && f->reach[i] > q->first; i--)
        f->reach[i] = q->first;
}

/* Puts on the stack the unvisited nodes that node `i` reads outside `to`, with all nodes of their groups, but for those
 * that end before `least`.  True: the node is outside `to` and reads `from`. */
static bool fuse_elementwise_expand(Fusion *f, uint32_t i, const Group *from, const Group *to, uint32_t least,
                                    uint32_t *n_stack)
{
    const Node *x = f->g->node[i];

    for (int j = 0; j < x->n_in; j++) {
        const Node *p = maker(f->g, x->in[j]);
        const Group *q = p ? group_of(f, p) : NULL;

        if (!p || q == to || (q ? q->last : p->index) < least)
            continue;
        if (q == from && group_of(f, x) != to)
            return true;
        if (q == from || f->seen[p->index] == f->walk)
            continue;
        for (int k = 0; k < (q ? q->n : 1); k++) {
            const uint32_t at = q ? q->node[k] : p->index;

            f->seen[at] = f->walk;
            f->stack[(*n_stack)++] = at;
        }
    }
    return false;
}

/* Does a path lead out of `from` and through other nodes into `to`?  Walks against the edges; a group is one node. */
static bool leads_around(Fusion *f, const Group *from, const Group *to)
{
    const uint32_t least = least_reached(f, from);
    uint32_t n_stack = 0;

    f->walk++;
    for (int i = 0; i < to->n; i++)
        fuse_elementwise_expand(f, to->node[i], from, to, least, &n_stack);
    while (n_stack)
        if (fuse_elementwise_expand(f, f->stack[--n_stack], from, to, least, &n_stack))
            return true;
    return false;
}

/* Merges the groups of two nodes when that is legal and small enough. */
static void try_merge(Fusion *f, uint32_t x, uint32_t y)
{
    Group *a = &f->group[f->of[x]], *b = &f->group[f->of[y]];
    ValueId in[INPUTS_MOST];

    if (a == b || !fuse_elementwise_alike(f, x, y) || a->n + b->n > NODES_MOST ||
        fuse_elementwise_list_inputs(f, a, b, in) < 0 || !outputs_fit(f, a, b) || leads_around(f, a, b) ||
        leads_around(f, b, a))
        return;
    for (int i = 0; i < b->n; i++) {
        a->node[a->n++] = b->node[i];
        f->of[b->node[i]] = (int)(a - f->group);
    }
    a->first = a->first < b->first ? a->first : b->first;
    a->last = a->last > b->last ? a->last : b->last;
    b->n = 0;
    note_reach(f, a);
}

/* ---- the new node ---- */

/* Turns the group's last node into the Fused one and removes the others, if the device computes it. */
static Status make_node(Fusion *f, PassCtx *ctx, Group *q)
{
    Graph *body = graph_create("program");
    Node *node[NODES_MOST];
    bool returned[NODES_MOST];
    Draft *d = &f->draft;
    Status st;

    if (!body)
        return FAIL_NOMEM();
    for (int i = 1; i < q->n; i++) /* by increasing index */
        for (int k = i; k && q->node[k - 1] > q->node[k]; k--) {
            const uint32_t swapped = q->node[k];

            q->node[k] = q->node[k - 1];
            q->node[k - 1] = swapped;
        }
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

/* Is it one node for several replicas that take turns on its device? */
static bool among_turns(const Fusion *f, const Node *n) { return f->turns && n->replica < 0; }

/* Merges the group of n with those of the nodes that it reads, and with those that read the same tensors. */
static void join_neighbours(Fusion *f, const Node *n)
{
    for (int i = 0; i < n->n_in; i++) {
        const Value *v = has_value(n->in[i]) ? value(f->g, n->in[i]) : NULL;

        if (v && v->producer && f->of[v->producer->index] != NO_GROUP)
            try_merge(f, v->producer->index, n->index);
    }
    for (int i = 0; i < n->n_in; i++) {
        const Value *v = has_value(n->in[i]) ? value(f->g, n->in[i]) : NULL;

        if (v && f->reader[n->in[i].i] && shape_eq(v->shape, space_of(f, n->index)) &&
            (shape_numel(v->shape) != 1 || !among_turns(f, n)))
            try_merge(f, f->reader[n->in[i].i] - 1, n->index);
        if (v)
            f->reader[n->in[i].i] = n->index + 1;
    }
}

/* Does the node add up values of replicas that take turns?  It takes in one when that is there, so that they need not
 * be there together. */
static bool adds_replicas(const Fusion *f, const Node *n)
{
    for (int i = 0; i < n->n_in && among_turns(f, n); i++) {
        const Node *p = maker(f->g, n->in[i]);

        if (p && p->replica >= 0)
            return true;
    }
    return false;
}

/* Makes a group of each node that may be fused, and merges it with others. */
static void fuse_elementwise_grow(Fusion *f)
{
    uint32_t scalar = UINT32_MAX; /* the last node that computes one element */

    FOR_NODES(f->g, n) {
        const Group alone = { .node = { n->index }, .n = 1, .first = n->index, .last = n->index };
        const Shape *space = n->op->elementwise && n->n_out == 1 ? value(f->g, n->out[0])->shape : NULL;
        ValueId in[INPUTS_MOST];

        if (!space || n->device >= f->draft.n_device || !shape_known(space) || shape_numel(space) == 0 ||
            fuse_elementwise_list_inputs(f, &alone, NULL, in) < 1 || !target_joins(f->draft.target, f->g, n) ||
            adds_replicas(f, n))
            continue;
        f->group[f->n_group] = alone;
        f->of[n->index] = f->n_group++;
        join_neighbours(f, n);
        if (shape_numel(space) != 1 || among_turns(f, n))
            continue;
        if (scalar != UINT32_MAX)
            try_merge(f, scalar, n->index);
        scalar = n->index;
    }
}

/* ---- entry ---- */

/* Allocates and fills the arrays. */
static Status fuse_elementwise_prepare(Fusion *f, PassCtx *ctx)
{
    f->a = ctx->scratch;
    pass_draft(&f->draft, f->g, ctx);
    f->group = ARENA_NEW(f->a, Group, f->g->n_node + 1);
    f->of = ARENA_NEW(f->a, int, f->g->n_node);
    f->seen = ARENA_NEW(f->a, uint32_t, f->g->n_node);
    f->stack = ARENA_NEW(f->a, uint32_t, f->g->n_node + NODES_MOST);
    f->height = ARENA_NEW(f->a, uint32_t, f->g->n_node);
    f->reach = ARENA_NEW(f->a, uint32_t, f->g->n_node);
    f->reader = ARENA_NEW(f->a, uint32_t, f->g->n_value);
    f->reads = ARENA_NEW(f->a, uint32_t, f->g->n_value);
    f->state = ARENA_NEW(f->a, ValueId, f->g->n_value);
    f->uses = graph_count_uses(f->g, f->a);
    if (!f->group || !f->of || !f->seen || !f->stack || !f->height || !f->reach || !f->reader || !f->reads ||
        !f->state || !f->uses)
        return FAIL_NOMEM();
    for (uint32_t i = f->g->n_node; i-- > 0;) { /* in topological order backwards */
        const Node *n = f->g->node[i];

        f->of[i] = NO_GROUP;
        f->reach[i] = i;
        for (int j = 0; j < n->n_in; j++) {
            const Node *p = maker(f->g, n->in[j]);

            if (n->op)
                f->reads[n->in[j].i]++;
            if (p && f->height[p->index] <= f->height[i])
                f->height[p->index] = f->height[i] + 1;
        }
    }
    for (int u = 0; u < f->g->n_update; u++)
        f->state[f->g->update[u].next.i] = f->g->update[u].state;
    return ST_OK;
}

static Status fuse_elementwise_run(Graph *g, PassCtx *ctx)
{
    const ReplicaOptions *replicas = replica_options(ctx->opt);
    const int devices = replicas->world ? replicas->world : replicas->devices;
    Fusion f = { .g = g, .turns = replicas->replicas > devices && !build_target(ctx->opt)->accelerator };

    if (!target_fuses(build_target(ctx->opt), &op_Fused))
        return ST_OK;
    TRY(graph_sort(g)); /* paths are searched by the nodes' order */
    TRY(fuse_elementwise_prepare(&f, ctx));
    fuse_elementwise_grow(&f);
    for (int i = 0; i < f.n_group; i++)
        if (f.group[i].n > 1)
            TRY(make_node(&f, ctx, &f.group[i]));
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_fuse_elementwise = { .name = "fuse-elementwise",
                                     .summary = "compute elementwise operators together",
                                     .run = fuse_elementwise_run };
