/* Memory plan: gives every value an address before the first step, so that a step allocates nothing.
 *
 * Values that share storage are gathered into buffers.  A view shares the buffer of its input.  An operator that may
 * overwrite an input (OpDef.inplace) takes its buffer when that input is used for the last time.  The next value of a
 * state is computed in the state's own storage when nothing needs the old one any more; otherwise it is copied there at
 * the end of the step.  A buffer is alive from the node that makes it to the last node that uses one of its values, in
 * the order of execution.  That holds for several devices too, because only collectives read values of other devices,
 * and all their devices reach a collective together.  Then the buffers of each device are packed into one arena
 * (pack.c).
 *
 * After a step that failed midway, a state that was being updated in place is undefined. */
#include "passes/plan/plan_memory.h"

#include <string.h>

#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "passes/plan/pack.h"

typedef struct {
    const Graph *g;
    Arena *keep, *a; /* keep: of the plan; a: of tables that only planning needs */
    MemoryPlan *plan;
    size_t align;
    MemBuffer *buffer; /* the plan's buffers */
    uint32_t n_buffer, cap_buffer;
    uint32_t *of;             /* [value] -> buffer */
    size_t *at;               /* [value] offset in its buffer */
    uint32_t *last_use;       /* [value] position of the last node that reads it; n_node: needed after the step */
    int *update_of;           /* [value] the update whose next value it is, under any shape, or -1 */
    uint32_t *scratch_buffer; /* [node] */
    uint32_t *writer;         /* [buffer] 1 + the last node with an output in it */
    uint32_t *input;          /* [buffer] 1 + the first input of the present node in it, 0 for none; the others */
    uint32_t *next_input;     /* follow, by input of the present node */
} Planner;

int value_device(const Graph *g, ValueId v)
{
    const Value *x = value(g, v);
    int device = x->producer ? x->producer->device : x->device;

    if (x->producer && x->producer->op && x->producer->op->flags & OPF_COLLECTIVE) {
        const Exchange e = exchange_of(x->producer);

        device = exchange_device(&e, x->out_index);
    }
    return device < 0 ? 0 : device;
}

/* ---- buffers ---- */

static uint32_t add_buffer(Planner *p, MemKind kind, ValueId root, int device, size_t bytes, uint32_t first,
                           uint32_t last)
{
    p->buffer[p->n_buffer] = (MemBuffer){ .bytes = bytes,
                                          .first = first,
                                          .last = last,
                                          .root = root,
                                          .device = (int16_t)device,
                                          .kind = (uint8_t)kind,
                                          .writable = kind == MEM_ARENA };
    return p->n_buffer++;
}

static void plan_memory_join(Planner *p, ValueId v, uint32_t buffer, size_t at)
{
    p->of[v.i] = buffer;
    p->at[v.i] = at;
    if (p->buffer[buffer].last < p->last_use[v.i])
        p->buffer[buffer].last = p->last_use[v.i];
}

/* Finds the last reader of each value, and marks the states that occur in the graph. */
static void find_last_uses(Planner *p)
{
    const Graph *g = p->g;

    FOR_NODES(g, n) {
        for (int i = 0; i < n->n_in; i++) {
            p->last_use[n->in[i].i] = n->index;
            p->plan->occurs[n->in[i].i] = true;
        }
        for (int i = 0; i < n->n_out; i++)
            p->last_use[n->out[i].i] = n->index;
    }
    for (int i = 0; i < g->n_output; i++) {
        p->last_use[g->output[i].value.i] = g->n_node;
        p->plan->occurs[g->output[i].value.i] = true;
    }
    for (int i = 0; i < g->n_update; i++) {
        p->plan->occurs[g->update[i].state.i] = p->plan->occurs[g->update[i].next.i] = true;
        if (!value_eq(g->update[i].next, g->update[i].state))
            p->last_use[g->update[i].next.i] = g->n_node;
    }
    p->plan->occurs[0] = false;
}

static void add_roots(Planner *p)
{
    const Graph *g = p->g;
    static const MemKind kind[] = { [V_INPUT] = MEM_INPUT, [V_STATE] = MEM_STATE, [V_CONST] = MEM_CONST };

    for (uint32_t i = 1; i < g->n_value; i++) {
        const Value *v = g->value[i];
        size_t bytes;

        if (v->kind == V_TEMP || !p->plan->occurs[i] || !shape_known(v->shape) ||
            !(bytes = value_bytes(g, (ValueId){ i })))
            continue;
        plan_memory_join(p, (ValueId){ i },
                         add_buffer(p, kind[v->kind], (ValueId){ i }, value_device(g, (ValueId){ i }), bytes, 0, 0), 0);
    }
    for (int u = 0; u < g->n_update; u++)
        if (!value_eq(g->update[u].next, g->update[u].state))
            p->buffer[p->of[g->update[u].state.i]].writable = true;
    p->buffer[0].writable = false;
}

/* May output o of n (of `bytes`) be computed over buffer b?  Every input in that buffer must be one that the operator
 * may overwrite, used here for the last time, and coincide with the output. */
static bool may_overwrite(const Planner *p, const Node *n, int o, uint32_t b, size_t bytes)
{
    const MemBuffer *buf = &p->buffer[b];

    if (!b || !buf->writable || buf->bytes != bytes || buf->last > n->index ||
        buf->device != value_device(p->g, n->out[o]))
        return false;
    if (p->writer[b] == n->index + 1)
        return false;
    for (uint32_t next = p->input[b]; next; next = p->next_input[next - 1]) {
        int j = (int)next - 1;

        if (!node_overwrites(p->g, n, o, j) || p->at[n->in[j].i] || value_bytes(p->g, n->in[j]) != bytes)
            return false;
    }
    return true;
}

/* The buffer that output o takes over, or 0.  The storage of the state whose next value it is comes first; no other
 * value goes there, because the next value could not follow.  Only inputs that o may overwrite are tried: a node may
 * have thousands of each. */
static uint32_t overwritten(const Planner *p, const Node *n, int o, size_t bytes)
{
    int u = p->update_of[n->out[o].i];
    uint32_t state = u < 0 ? 0 : p->of[p->g->update[u].state.i];
    int from = 0, to = n->n_in;

    if (may_overwrite(p, n, o, state, bytes))
        return state;
    if (n->op->flags & OPF_INPLACE_EACH) {
        from = o;
        to = o < n->n_in ? o + 1 : o;
    } else if (n->op->flags & OPF_COLLECTIVE) {
        const Exchange e = exchange_of(n);

        from = exchange_tensor(&e, o) * e.parts;
        to = from + e.parts;
    }
    for (int j = from; j < to; j++) {
        uint32_t b = has_value(n->in[j]) && node_overwrites(p->g, n, o, j) ? p->of[n->in[j].i] : 0;

        if (p->buffer[b].kind == MEM_ARENA && may_overwrite(p, n, o, b, bytes))
            return b;
    }
    return 0;
}

/* Output o is a view of input 0 where the node is a view.  Host memory can be read from every device, so a collective
 * that spreads an input of the graph or a constant is a view, too. */
static void plan_memory_add_output(Planner *p, const Node *n, int o)
{
    ValueId v = n->out[o];
    size_t bytes = has_value(v) ? value_bytes(p->g, v) : 0;
    int64_t offset = -1;
    uint32_t b;

    if (!bytes)
        return;
    if (n->n_in) {
        const uint8_t kind = p->buffer[has_value(n->in[0]) ? p->of[n->in[0].i] : 0].kind;

        if (!(n->op->flags & OPF_COLLECTIVE) || kind == MEM_INPUT || kind == MEM_CONST)
            offset = node_view_of(p->g, n, o);
    }
    if (offset >= 0)
        plan_memory_join(p, v, p->of[n->in[0].i], p->at[n->in[0].i] + (size_t)offset);
    else if ((b = overwritten(p, n, o, bytes)))
        plan_memory_join(p, v, b, 0);
    else
        plan_memory_join(p, v, add_buffer(p, MEM_ARENA, v, value_device(p->g, v), bytes, n->index, n->index), 0);
    p->writer[p->of[v.i]] = n->index + 1;
}

/* Lists by buffer the inputs of the node that lie there; `there` false: empties these lists. */
static void note_inputs(Planner *p, const Node *n, bool there)
{
    for (int j = n->n_in; j-- > 0;) {
        uint32_t b = p->of[n->in[j].i];

        p->next_input[j] = there ? p->input[b] : 0;
        p->input[b] = there ? (uint32_t)j + 1 : 0;
    }
}

static void add_temporaries(Planner *p)
{
    FOR_NODES(p->g, n) {
        const size_t scratch = p->plan->scratch_bytes[n->index];

        note_inputs(p, n, true);
        for (int o = 0; o < n->n_out; o++)
            plan_memory_add_output(p, n, o);
        note_inputs(p, n, false);
        if (scratch)
            p->scratch_buffer[n->index] =
                add_buffer(p, MEM_ARENA, NO_VALUE, n->device < 0 ? 0 : n->device, scratch, n->index, n->index);
    }
}

/* ---- sums beside other nodes ---- */

/* Keeps the operands of a sum over replicas until its result is needed.  On a device that has streams, nodes behind the
 * sum in the order run beside it, and would have to wait for it if they wrote there. */
static Status outlast_sums(Planner *p)
{
    const Graph *g = p->g;
    uint32_t *first = ARENA_NEW(p->a, uint32_t, g->n_value); /* the first node that reads a value; n_node: none */

    if (!first)
        return FAIL_NOMEM();
    for (uint32_t v = 0; v < g->n_value; v++)
        first[v] = g->n_node;
    for (uint32_t r = g->n_node; r-- > 0;)
        for (int i = 0; i < g->node[r]->n_in; i++)
            first[g->node[r]->in[i].i] = r;
    FOR_NODES(g, n) {
        uint32_t until = g->n_node;
        const Exchange e = exchange_of(n);

        if (!exchange_reduces(&e))
            continue;
        for (int o = 0; o < n->n_out; o++)
            until = first[n->out[o].i] < until ? first[n->out[o].i] : until;
        for (int i = 0; i < n->n_in; i++) {
            MemBuffer *b = &p->buffer[p->of[n->in[i].i]];

            if (b->kind == MEM_ARENA && b->last < until)
                b->last = until;
        }
    }
    arena_give_back(p->a, first, g->n_value * sizeof *first);
    return ST_OK;
}

/* ---- the end of the step ---- */

static MemRef ref_at(const Planner *p, uint32_t b, size_t at, size_t bytes)
{
    const MemBuffer *buf = &p->buffer[b];

    if (!b)
        return (MemRef){ 0 };
    return (MemRef){ buf->kind, buf->device, buf->root, buf->kind == MEM_ARENA ? buf->offset + at : at, bytes };
}

static MemRef ref_value(const Planner *p, ValueId v)
{
    return ref_at(p, p->of[v.i], p->at[v.i], p->of[v.i] ? value_bytes(p->g, v) : 0);
}

/* Whether the next value is not computed in the state's storage. */
static bool is_copied(const Planner *p, const Update *u)
{
    uint32_t b = p->of[u->state.i];

    return b && !value_eq(u->state, u->next) && (p->of[u->next.i] != b || p->at[u->next.i]);
}

/* The buffer of a copy of v, which is read after the step although a copy overwrites its storage (`lost`, by buffer) at
 * the end; 0: v is read where it is. */
static uint32_t add_snapshot(Planner *p, ValueId v, const bool *lost)
{
    const uint32_t b = p->of[v.i];

    return b && lost[b]
               ? add_buffer(p, MEM_ARENA, v, p->buffer[b].device, value_bytes(p->g, v), p->g->n_node, p->g->n_node)
               : 0;
}

/* Where v is to be read after the step; plans the copy into its snapshot. */
static MemRef late_ref(Planner *p, ValueId v, uint32_t snapshot)
{
    const MemRef from = ref_value(p, v), to = ref_at(p, snapshot, 0, from.bytes);

    if (!snapshot)
        return from;
    p->plan->copy[p->plan->n_copy++] = (MemCopy){ from, to };
    return to;
}

static Status pack_device(Planner *p, int device, Arena *a)
{
    MemDevice *d = &p->plan->device[device];
    PackItem *item;
    uint32_t n = 0;

    for (uint32_t b = 1; b < p->n_buffer; b++)
        n += p->buffer[b].device == device && p->buffer[b].kind == MEM_ARENA;
    if (!(item = ARENA_NEW(a, PackItem, n)))
        return FAIL_NOMEM();
    n = 0;
    for (uint32_t b = 1; b < p->n_buffer; b++) {
        const MemBuffer *buf = &p->buffer[b];

        if (buf->device == device && buf->kind == MEM_STATE)
            d->state_bytes += buf->bytes;
        if (buf->device == device && buf->kind == MEM_ARENA)
            item[n++] = (PackItem){ buf->bytes, buf->first, buf->last, 0 };
    }
    TRY(pack(item, n, p->align, &d->arena_bytes, &d->live_bytes, a));
    n = 0;
    for (uint32_t b = 1; b < p->n_buffer; b++)
        if (p->buffer[b].device == device && p->buffer[b].kind == MEM_ARENA)
            p->buffer[b].offset = item[n++].offset;
    return ST_OK;
}

/* Reserves storage for values that are read after the step, packs, and writes the addresses down. */
static Status plan_memory_finish(Planner *p)
{
    const Graph *g = p->g;
    MemoryPlan *plan = p->plan;
    uint32_t n = 0;
    uint32_t *copied = ARENA_NEW(p->a, uint32_t, g->n_update); /* updates whose next value lies elsewhere */
    bool *lost = ARENA_NEW(p->a, bool, p->n_buffer); /* a copy overwrites the old value of the state at the end */
    uint32_t *output = ARENA_NEW(p->a, uint32_t, g->n_output), *next = ARENA_NEW(p->a, uint32_t, g->n_update);
    MemRef *from = ARENA_NEW(p->a, MemRef, g->n_update);
    Status st = ST_OK;

    if (!copied || !lost || !output || !next || !from)
        return FAIL_NOMEM();
    for (int u = 0; u < g->n_update; u++)
        if (is_copied(p, &g->update[u])) {
            copied[n++] = (uint32_t)u;
            lost[p->of[g->update[u].state.i]] = true;
        }
    if (!(plan->copy = ARENA_NEW(p->keep, MemCopy, (size_t)g->n_output + 2 * (size_t)n)))
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_output; i++)
        output[i] = add_snapshot(p, g->output[i].value, lost);
    for (uint32_t i = 0; i < n; i++)
        next[i] = add_snapshot(p, g->update[copied[i]].next, lost);
    for (int d = 0; d < plan->n_device && !st; d++) {
        Arena *a = arena_create_beside(p->a);

        st = a ? pack_device(p, d, a) : FAIL_NOMEM();
        arena_free(a);
    }
    TRY(st);
    if (!(plan->value = ARENA_NEW(p->keep, MemRef, g->n_value)))
        return FAIL_NOMEM();
    for (uint32_t v = 1; v < g->n_value; v++)
        plan->value[v] = ref_value(p, (ValueId){ v });
    for (uint32_t i = 0; i < g->n_node; i++)
        plan->scratch[i] = p->buffer[p->scratch_buffer[i]].offset;
    for (int i = 0; i < g->n_output; i++)
        plan->output[i] = late_ref(p, g->output[i].value, output[i]);
    for (uint32_t i = 0; i < n; i++)
        from[i] = late_ref(p, g->update[copied[i]].next, next[i]);
    for (uint32_t i = 0; i < n; i++)
        plan->copy[plan->n_copy++] = (MemCopy){ from[i], ref_value(p, g->update[copied[i]].state) };
    plan->buffer = p->buffer;
    plan->n_buffer = p->n_buffer;
    return ST_OK;
}

/* ---- entry ---- */

static Status plan_memory_check(const Graph *g)
{
    PROBLEMS(problems);

    for (uint32_t i = 0; i < g->n_node; i++) {
        const Node *n = g->node[i];

        for (int o = 0; n->op && o < n->n_out; o++)
            if (has_value(n->out[o]) && !shape_known(value(g, n->out[o])->shape))
                problems_add(&problems, "%s", node_text(g, n));
        if (!n->op || n->index != i)
            return FAIL(E_INTERNAL, "plan_memory: the graph is not sorted");
    }
    return problems_fail(&problems, E_UNSUPPORTED, "shapes that depend on data cannot be planned");
}

/* The number of devices of the graph, at least 1. */
static int count_devices(const Graph *g)
{
    int n = 1;

    for (uint32_t v = 1; v < g->n_value; v++)
        if (value_device(g, (ValueId){ v }) >= n)
            n = value_device(g, (ValueId){ v }) + 1;
    FOR_NODES(g, x)
        n = x->device >= n ? x->device + 1 : n;
    return n;
}

/* Finds the values that are the next value of a state, or that it is a view of the whole of. */
static void find_next_values(Planner *p)
{
    const Graph *g = p->g;

    for (uint32_t v = 0; v < g->n_value; v++)
        p->update_of[v] = -1;
    for (int u = 0; u < g->n_update; u++)
        p->update_of[g->update[u].next.i] = u;
    for (uint32_t i = g->n_node; i-- > 0;) {
        const Node *n = g->node[i];
        int u = n->op && n->n_out && n->n_in ? p->update_of[n->out[0].i] : -1;

        if (u >= 0 && p->update_of[n->in[0].i] < 0 && node_view_of(g, n, 0) == 0 &&
            value_bytes(g, n->in[0]) == value_bytes(g, n->out[0]))
            p->update_of[n->in[0].i] = u;
    }
}

static Status allocate_plan(Planner *p, const size_t *scratch_bytes)
{
    const Graph *g = p->g;
    MemoryPlan *plan;

    if (!(plan = p->plan = ARENA_NEW(p->keep, MemoryPlan, 1)))
        return FAIL_NOMEM();
    plan->n_device = count_devices(g);
    plan->align = p->align;
    plan->device = ARENA_NEW(p->keep, MemDevice, plan->n_device);
    plan->occurs = ARENA_NEW(p->keep, bool, g->n_value);
    plan->output = ARENA_NEW(p->keep, MemRef, g->n_output);
    plan->scratch = ARENA_NEW(p->keep, size_t, g->n_node);
    plan->scratch_bytes = scratch_bytes ? scratch_bytes : ARENA_NEW(p->keep, size_t, g->n_node);
    return plan->device && plan->occurs && plan->output && plan->scratch && plan->scratch_bytes ? ST_OK : FAIL_NOMEM();
}

static Status plan_memory_allocate(Planner *p)
{
    const Graph *g = p->g;
    size_t most = 1 + (size_t)g->n_output + (size_t)g->n_update; /* more buffers than there will be */
    int most_inputs = 0;

    for (uint32_t v = 1; v < g->n_value; v++)
        most += g->value[v]->kind != V_TEMP;
    FOR_NODES(g, x) {
        most += (size_t)x->n_out + (p->plan->scratch_bytes[x->index] != 0);
        most_inputs = x->n_in > most_inputs ? x->n_in : most_inputs;
    }
    p->cap_buffer = (uint32_t)most;
    p->buffer = ARENA_NEW(p->a, MemBuffer, p->cap_buffer);
    p->writer = ARENA_NEW(p->a, uint32_t, p->cap_buffer);
    p->input = ARENA_NEW(p->a, uint32_t, p->cap_buffer);
    p->next_input = ARENA_NEW(p->a, uint32_t, most_inputs);
    p->n_buffer = 1;
    p->of = ARENA_NEW(p->a, uint32_t, g->n_value);
    p->at = ARENA_NEW(p->a, size_t, g->n_value);
    p->last_use = ARENA_NEW(p->a, uint32_t, g->n_value);
    p->update_of = ARENA_NEW(p->a, int, g->n_value);
    p->scratch_buffer = ARENA_NEW(p->a, uint32_t, g->n_node);
    if (!p->buffer || !p->writer || !p->input || !p->next_input || !p->of || !p->at || !p->last_use || !p->update_of ||
        !p->scratch_buffer)
        return FAIL_NOMEM();
    find_next_values(p);
    return ST_OK;
}

/* Makes the plan in p->plan.  Once all values have their buffers, the tables that only add_temporaries reads are given
 * back, and the buffers become the plan's, with room for a snapshot of every value that is read after the step. */
static Status plan_within(Planner *p, const size_t *scratch)
{
    const Graph *g = p->g;
    MemBuffer *kept;

    TRY(plan_memory_check(g));
    TRY(allocate_plan(p, scratch));
    TRY(plan_memory_allocate(p));
    find_last_uses(p);
    add_roots(p);
    add_temporaries(p);
    arena_give_back(p->a, p->writer, p->cap_buffer * sizeof *p->writer);
    arena_give_back(p->a, p->input, p->cap_buffer * sizeof *p->input);
    arena_give_back(p->a, p->last_use, g->n_value * sizeof *p->last_use);
    arena_give_back(p->a, p->update_of, g->n_value * sizeof *p->update_of);
    if (!(kept = ARENA_NEW(p->keep, MemBuffer, p->n_buffer + (size_t)g->n_output + (size_t)g->n_update)))
        return FAIL_NOMEM();
    memcpy(kept, p->buffer, p->n_buffer * sizeof *kept);
    arena_give_back(p->a, p->buffer, p->cap_buffer * sizeof *p->buffer);
    p->buffer = kept;
    TRY(outlast_sums(p));
    return plan_memory_finish(p);
}

Status plan_memory(MemoryPlan **out, const Graph *g, const size_t *scratch, size_t align, Arena *arena)
{
    Planner p = { .g = g, .keep = arena, .a = arena_create_beside(arena), .align = align };
    Status st = p.a ? plan_within(&p, scratch) : FAIL_NOMEM();

    arena_free(p.a);
    if (!st)
        *out = p.plan;
    return st;
}
