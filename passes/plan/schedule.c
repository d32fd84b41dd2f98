/* schedule: the order of execution.  Any topological order computes the same; this one keeps little memory alive.
 *
 * - The replicas of a device run in turn: all that replica 0 can do comes before replica 1's first node, so one
 *   replica's activations are alive at a time.  Turns are counted from the end: the last replicas of all devices run at
 *   the same time, because their gradients complete the collectives.
 * - When a replica of the present turn waits for a collective (synchronised batch-norm, the loss's denominator), later
 *   replicas run only the nodes that it needs.
 * - Nodes of a device rather than a replica (collectives, partial sums, the optimizer) run as soon as possible: they
 *   end the life of gradients.
 * - Nodes computed from state, constants and scalars alone run right before their first use, not at the start of the
 *   step.
 * - Nodes computed from one state for the update of that state alone are a group.  It runs at once when its other
 *   inputs are there (no gradient waits for the last one) and every other reader of that state has run, so that the
 *   update may happen in place. */
#include "passes/plan/schedule.h"

#include <string.h>

#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "passes/plan/schedule_groups.h"

typedef struct {
    uint64_t *key;
    uint32_t n;
} Heap;

typedef struct {
    uint32_t pending; /* inputs from outside that are not computed yet */
    uint32_t readers; /* uses of the group's states outside that have not run */
    uint32_t n_node;
    Node **node; /* in order */
} Group;

typedef struct {
    Graph *g;
    uint32_t n;
    int n_replica;
    uint32_t *first, *edge; /* the nodes that use an output of node i: edge[first[i]..first[i+1]) */
    int *owner;             /* [node] group or NO_GROUP */
    int *writer;            /* [value] group that computes a state's next value, or NO_GROUP */
    bool *lazy, *done, *urgent, *queued;
    uint32_t *missing;   /* [node] inputs that have not been computed, lazy ones aside */
    uint64_t *key;       /* [node] turn, ordinal in its replica, index */
    uint32_t *turn_left; /* [turn] nodes that have not run */
    int turn, n_turn;    /* the lowest turn that is not done */
    uint32_t blocker;    /* a node of that turn: none of lower index is left */
    Group *group;
    Heap ready, hot, groups; /* keys; hot: urgent nodes of later turns */
    Node **order;
    uint32_t n_order;
    uint32_t *stack;
} Schedule;

/* ---- a heap of keys whose low 24 bits name a node or a group ---- */

static void heap_push(Heap *h, uint64_t x)
{
    uint32_t i = h->n++;

    for (; i && h->key[(i - 1) / 2] > x; i = (i - 1) / 2)
        h->key[i] = h->key[(i - 1) / 2];
    h->key[i] = x;
}

static void heap_pop(Heap *h)
{
    uint64_t x = h->key[--h->n];
    uint32_t i = 0;

    for (uint32_t c; (c = 2 * i + 1) < h->n; i = c) {
        if (c + 1 < h->n && h->key[c + 1] < h->key[c])
            c++;
        if (h->key[c] >= x)
            break;
        h->key[i] = h->key[c];
    }
    h->key[i] = x;
}

enum { INDEX_BITS = 24, TURN_SHIFT = 2 * INDEX_BITS };
static uint32_t key_index(uint64_t key) { return (uint32_t)(key & ((1u << INDEX_BITS) - 1)); }
static int key_turn(uint64_t key) { return (int)(key >> TURN_SHIFT); } /* 0: belongs to no replica */

/* ---- before the walk ---- */

static bool belongs_to_replica(const Schedule *s, const Node *n) { return schedule_in_replica(s->n_replica, n); }

static Status link_consumers(Schedule *s, Arena *a)
{
    Graph *g = s->g;
    uint32_t n_edge = 0;

    FOR_NODES(g, n)
        n_edge += (uint32_t)n->n_in;
    s->first = ARENA_NEW(a, uint32_t, s->n + 2);
    s->edge = ARENA_NEW(a, uint32_t, n_edge);
    if (!s->first || !s->edge)
        return FAIL_NOMEM();
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            if (schedule_producer(g, n->in[i]))
                s->first[schedule_producer(g, n->in[i])->index + 2]++;
    for (uint32_t i = 2; i < s->n + 2; i++)
        s->first[i] += s->first[i - 1];
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in; i++)
            if (schedule_producer(g, n->in[i]))
                s->edge[s->first[schedule_producer(g, n->in[i])->index + 1]++] = n->index;
    return ST_OK;
}

/* Lists the nodes of each group. */
static Status create_groups(Schedule *s, Arena *a)
{
    TRY(schedule_groups(&s->owner, &s->writer, s->g, s->first, s->edge, a));
    if (!(s->group = ARENA_NEW(a, Group, s->g->n_update)))
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < s->n; i++)
        if (s->owner[i] != NO_GROUP)
            s->group[s->owner[i]].n_node++;
    for (int u = 0; u < s->g->n_update; u++) {
        if (!(s->group[u].node = ARENA_NEW(a, Node *, s->group[u].n_node)))
            return FAIL_NOMEM();
        s->group[u].n_node = 0;
    }
    FOR_NODES(s->g, n)
        if (s->owner[n->index] != NO_GROUP)
            s->group[s->owner[n->index]].node[s->group[s->owner[n->index]].n_node++] = n;
    return ST_OK;
}

/* Does the node join the pieces of a parameter for one use? */
static bool joins_states(const Graph *g, const Node *n)
{
    if (!exchange_of(n).joined)
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (value(g, n->in[i])->producer)
            return false;
    return true;
}

/* Is the node computed from state, constants and scalar inputs alone?  A collective of states may read inputs, which
 * stand for pieces of devices that are not shown (passes/partition/value_copies.c). */
static bool is_lazy(const Schedule *s, const Node *n)
{
    if (s->owner[n->index] != NO_GROUP || (n->op->flags & OPF_COLLECTIVE && !joins_states(s->g, n)))
        return false;
    for (int i = 0; i < n->n_in; i++) {
        const Value *v = has_value(n->in[i]) ? value(s->g, n->in[i]) : NULL;

        if (v && v->kind == V_INPUT && shape_numel(v->shape) != 1 && !(n->op->flags & OPF_COLLECTIVE))
            return false;
        if (v && v->producer && !s->lazy[v->producer->index])
            return false;
    }
    return true;
}

static void count_missing(Schedule *s)
{
    Graph *g = s->g;

    FOR_NODES(g, n)
        s->lazy[n->index] = is_lazy(s, n);
    FOR_NODES(g, n) {
        int owner = s->owner[n->index];

        for (int i = 0; i < n->n_in; i++) {
            const Node *p = schedule_producer(g, n->in[i]);
            int writer = s->writer[n->in[i].i];

            if (p && !s->lazy[p->index] && (owner == NO_GROUP || s->owner[p->index] != owner))
                ++*(owner == NO_GROUP ? &s->missing[n->index] : &s->group[owner].pending);
            if (writer != NO_GROUP && writer != owner)
                s->group[writer].readers++;
        }
    }
}

/* The turn of each replica, from 1: its rank among the replicas of its device, aligned at the last one. */
static Status schedule_find_turns(Schedule *s, Arena *a)
{
    Graph *g = s->g;
    int n_replica = s->n_replica, n_device = 1, *device, *turn, *count;
    uint32_t *ordinal;

    FOR_NODES(g, n)
        n_device = n->device >= n_device ? n->device + 1 : n_device;
    device = ARENA_NEW(a, int, n_replica);
    turn = ARENA_NEW(a, int, n_replica);
    ordinal = ARENA_NEW(a, uint32_t, n_replica);
    count = ARENA_NEW(a, int, n_device);
    if (!device || !turn || !ordinal || !count)
        return FAIL_NOMEM();
    for (int r = 0; r < n_replica; r++)
        device[r] = n_device - 1;
    FOR_NODES(g, n)
        if (n->replica >= 0 && device[n->replica] > (n->device < 0 ? 0 : n->device))
            device[n->replica] = n->device < 0 ? 0 : n->device; /* not the host's side, of a higher number */
    for (int r = 0; r < n_replica; r++) {
        turn[r] = ++count[device[r]];
        s->n_turn = count[device[r]] > s->n_turn ? count[device[r]] : s->n_turn;
    }
    for (int r = 0; r < n_replica; r++)
        turn[r] += s->n_turn - count[device[r]];
    if (!(s->turn_left = ARENA_NEW(a, uint32_t, s->n_turn + 2)))
        return FAIL_NOMEM();
    FOR_NODES(g, n) {
        bool shared = !belongs_to_replica(s, n);
        uint64_t t = shared ? 0 : (uint64_t)turn[n->replica], k = shared ? n->index : ordinal[n->replica]++;

        s->key[n->index] = t << TURN_SHIFT | k << INDEX_BITS | n->index;
        if (t && !s->lazy[n->index])
            s->turn_left[t]++;
    }
    s->turn = 1;
    return ST_OK;
}

/* ---- the walk ---- */

static void node_ready(Schedule *s, uint32_t i)
{
    if (s->missing[i] || s->done[i] || s->lazy[i] || s->owner[i] != NO_GROUP)
        return;
    if (!s->queued[i])
        heap_push(&s->ready, s->key[i]);
    s->queued[i] = true;
    if (s->urgent[i])
        heap_push(&s->hot, s->key[i]);
}

static void group_ready(Schedule *s, int u)
{
    Group *group = &s->group[u];

    if (!group->pending && !group->readers && group->n_node)
        heap_push(&s->groups, (uint64_t)group->node[0]->index << INDEX_BITS | (uint64_t)u);
}

/* Appends node n and queues the nodes and groups that its end makes ready. */
static void schedule_append(Schedule *s, Node *n)
{
    int own = s->owner[n->index];

    s->done[n->index] = true;
    s->order[s->n_order++] = n;
    if (belongs_to_replica(s, n) && !s->lazy[n->index])
        s->turn_left[key_turn(s->key[n->index])]--;
    for (int i = 0; i < n->n_in; i++) {
        int writer = s->writer[n->in[i].i];

        if (writer != NO_GROUP && writer != own && !--s->group[writer].readers)
            group_ready(s, writer);
    }
    if (s->lazy[n->index])
        return;
    for (uint32_t e = s->first[n->index]; e < s->first[n->index + 1]; e++) {
        uint32_t c = s->edge[e];
        int owner = s->owner[c];

        if (owner == NO_GROUP && !--s->missing[c])
            node_ready(s, c);
        else if (owner != NO_GROUP && owner != own && !--s->group[owner].pending)
            group_ready(s, owner);
    }
}

/* Appends the lazy nodes that node n needs, then n. */
static void run_node(Schedule *s, Node *n)
{
    uint32_t depth = 0;

    s->stack[depth++] = n->index;
    while (depth) {
        Node *top = s->g->node[s->stack[depth - 1]];
        const Node *need = NULL;

        for (int i = 0; i < top->n_in && !need; i++) {
            const Node *p = schedule_producer(s->g, top->in[i]);

            need = p && s->lazy[p->index] && !s->done[p->index] ? p : NULL;
        }
        if (need)
            s->stack[depth++] = need->index;
        else {
            schedule_append(s, top);
            depth--;
        }
    }
}

static void run_group(Schedule *s, int u)
{
    Group *group = &s->group[u];

    for (uint32_t i = 0; i < group->n_node; i++)
        run_node(s, group->node[i]);
    group->n_node = 0;
}

/* Marks as urgent the nodes that the present turn's first remaining node waits for. */
static void mark_urgent(Schedule *s)
{
    uint32_t depth = 0;

    for (; s->blocker < s->n; s->blocker++)
        if (!s->done[s->blocker] && key_turn(s->key[s->blocker]) == s->turn && !s->lazy[s->blocker])
            break;
    if (s->blocker == s->n || s->urgent[s->blocker])
        return;
    s->urgent[s->blocker] = true;
    s->stack[depth++] = s->blocker;
    while (depth) {
        uint32_t i = s->stack[--depth];

        node_ready(s, i);
        for (int k = 0; k < s->g->node[i]->n_in; k++) {
            const Node *p = schedule_producer(s->g, s->g->node[i]->in[k]);

            if (!p || s->done[p->index] || s->lazy[p->index] || s->urgent[p->index])
                continue;
            s->urgent[p->index] = true;
            s->stack[depth++] = p->index;
        }
    }
}

static void pop_done(const Schedule *s, Heap *h)
{
    while (h->n && s->done[key_index(h->key[0])])
        heap_pop(h);
}

/* The next ready node, or NULL. */
static Node *schedule_choose(Schedule *s)
{
    Heap *from = &s->ready;

    pop_done(s, &s->ready);
    if (!s->ready.n)
        return NULL;
    for (; s->turn <= s->n_turn && !s->turn_left[s->turn]; s->turn++)
        s->blocker = 0;
    if (key_turn(s->ready.key[0]) > s->turn) {
        mark_urgent(s);
        pop_done(s, &s->hot);
        from = s->hot.n ? &s->hot : &s->ready;
    }
    return s->g->node[key_index(from->key[0])];
}

/* Runs lazy nodes that only outputs need, and groups whose readers are among them: all that remains when nothing is
 * ready. */
static bool run_leftover(Schedule *s)
{
    uint32_t before = s->n_order;

    for (uint32_t i = 0; i < s->n; i++)
        if (s->lazy[i] && !s->done[i])
            run_node(s, s->g->node[i]);
    for (int u = 0; u < s->g->n_update && s->n_order == before; u++)
        if (s->group[u].n_node && !s->group[u].pending)
            run_group(s, u);
    return s->n_order > before;
}

static Status schedule_walk(Schedule *s)
{
    Node *n;

    for (uint32_t i = 0; i < s->n; i++)
        node_ready(s, i);
    for (int u = 0; u < s->g->n_update; u++)
        group_ready(s, u);
    while (s->n_order < s->n) {
        if (s->groups.n) {
            int u = (int)key_index(s->groups.key[0]);

            heap_pop(&s->groups);
            run_group(s, u);
        } else if ((n = schedule_choose(s))) {
            run_node(s, n);
        } else if (!run_leftover(s)) {
            return FAIL(E_INTERNAL, "schedule: %u of %u nodes cannot be ordered", s->n - s->n_order, s->n);
        }
    }
    return ST_OK;
}

static Status schedule_prepare(Schedule *s, Arena *a)
{
    s->lazy = ARENA_NEW(a, bool, s->n);
    s->done = ARENA_NEW(a, bool, s->n);
    s->urgent = ARENA_NEW(a, bool, s->n);
    s->queued = ARENA_NEW(a, bool, s->n);
    s->missing = ARENA_NEW(a, uint32_t, s->n);
    s->key = ARENA_NEW(a, uint64_t, s->n);
    s->order = ARENA_NEW(a, Node *, s->n);
    s->stack = ARENA_NEW(a, uint32_t, s->n + 1);
    s->ready.key = ARENA_NEW(a, uint64_t, s->n);
    s->hot.key = ARENA_NEW(a, uint64_t, s->n);
    s->groups.key = ARENA_NEW(a, uint64_t, 3 * (size_t)s->g->n_update);
    if (!s->lazy || !s->done || !s->urgent || !s->queued || !s->missing || !s->key || !s->order || !s->stack ||
        !s->ready.key || !s->hot.key || !s->groups.key)
        return FAIL_NOMEM();
    s->n_replica = schedule_replicas(s->g);
    TRY(link_consumers(s, a));
    TRY(create_groups(s, a));
    count_missing(s);
    return schedule_find_turns(s, a);
}

Status schedule_graph(Graph *g, Arena *scratch)
{
    Schedule s = { .g = g };

    TRY(graph_sort(g));
    s.n = g->n_node;
    if (s.n >= 1u << INDEX_BITS)
        return FAIL(E_UNSUPPORTED, "schedule: %u nodes, at most %u can be ordered", s.n, (1u << INDEX_BITS) - 1);
    if (!s.n)
        return ST_OK;
    TRY(schedule_prepare(&s, scratch));
    TRY(schedule_walk(&s));
    memcpy(g->node, s.order, s.n * sizeof *s.order);
    for (uint32_t i = 0; i < s.n; i++)
        g->node[i]->index = i;
    return ST_OK;
}

static Status run(Graph *g, PassCtx *ctx) { return schedule_graph(g, ctx->scratch); }

const Pass pass_schedule = { .name = "schedule",
                             .summary = "order the nodes so that little memory is alive",
                             .run = run };
