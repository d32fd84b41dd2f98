/* cse: merges equal constants, and nodes that compute the same.
 *
 * Legal because nodes are functions of their inputs and attributes, except nodes that draw random numbers, communicate
 * or have effects; those stay.  States are never merged, even with equal initial values: they may differ after the
 * first step.  One walk in order suffices: when a node is looked up, its inputs are already replaced by their
 * representatives. */
#include <string.h>

#include "graph/base/hash.h"
#include "graph/ir/op.h"
#include "graph/ir/readers.h"
#include "passes/pass.h"

enum { MAX_CONST_BYTES = 1 << 16 }; /* larger ones are weights, rarely equal and slow to compare */

/* Equal nodes can differ in types: one in a branch never taken has none.  They must not merge. */
static bool node_same(const Graph *g, const Node *a, const Node *b)
{
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out || a->replica != b->replica ||
        a->device != b->device)
        return false;
    for (int i = 0; i < a->n_in; i++)
        if (!value_eq(a->in[i], b->in[i]))
            return false;
    for (int i = 0; i < a->n_out; i++) {
        const Value *x = value(g, a->out[i]), *y = value(g, b->out[i]);

        if (has_value(a->out[i]) != has_value(b->out[i]) ||
            (has_value(a->out[i]) && (x->dtype != y->dtype || !shape_eq(x->shape, y->shape))))
            return false;
    }
    return attrs_same(a, b);
}

/* If the table has a node equal to n, aliases n's outputs to its outputs and returns true; otherwise adds n. */
static bool merge_node(const Graph *g, ValueId *alias, uint32_t *slot, uint32_t mask, const Node *n)
{
    uint64_t h = hash_text(hash_int(HASH_BEGIN, n->n_out), n->op->name), attrs = 0;
    const Node *first;
    uint32_t at;

    for (int i = 0; i < n->n_in; i++)
        h = hash_int(h, n->in[i].i);
    for (int i = 0; i < n->n_attr; i++)
        attrs += attr_hash(&n->attr[i]); /* a sum, which has no order */
    at = (uint32_t)hash_int(h, (int64_t)attrs) & mask;
    for (; slot[at]; at = (at + 1) & mask) {
        first = g->node[slot[at] - 1];
        if (!node_same(g, first, n))
            continue;
        for (int i = 0; i < n->n_out; i++)
            alias[n->out[i].i] = first->out[i];
        return true;
    }
    slot[at] = n->index + 1;
    return false;
}

/* Does the same for constant `id`; its slot holds the value id. */
static bool merge_const(const Graph *g, ValueId *alias, uint32_t *slot, uint32_t mask, uint32_t id)
{
    const Tensor *t = g->value[id]->init;
    uint64_t h = hash_int(HASH_BEGIN, t->dtype);
    uint32_t at;

    for (int i = 0; i < t->shape.rank; i++)
        h = hash_int(h, t->shape.dim[i]);
    at = (uint32_t)(tensor_bytes(t) ? hash_bytes(h, t->data, tensor_bytes(t)) : h) & mask;
    for (; slot[at]; at = (at + 1) & mask)
        if (tensor_same(g->value[slot[at]]->init, t)) {
            alias[id] = (ValueId){ slot[at] };
            return true;
        }
    slot[at] = id;
    return false;
}

/* A table with open addressing for n entries: 1 + a node's index, or a constant's value id; 0 is free.  It has *mask +
 * 1 slots, a power of two. */
static uint32_t *make_table(uint32_t *mask, Arena *a, uint32_t n)
{
    uint32_t cap = 16;

    while (cap < 2 * n)
        cap *= 2;
    *mask = cap - 1;
    return ARENA_NEW(a, uint32_t, cap);
}

static Status cse_run(Graph *g, PassCtx *ctx)
{
    ValueId *alias = ARENA_NEW(ctx->scratch, ValueId, g->n_value); /* by value id: its representative */
    uint32_t mask, *slot = make_table(&mask, ctx->scratch, g->n_value);
    Uses u;

    if (!alias || !slot)
        return FAIL_NOMEM();
    TRY(uses_find(&u, g, ctx->scratch));
    for (uint32_t i = 0; i < g->n_value; i++) {
        const Value *v = i ? g->value[i] : NULL;

        alias[i].i = i;
        if (v && v->kind == V_CONST && v->device < 0 && v->replica < 0 && tensor_bytes(v->init) <= MAX_CONST_BYTES &&
            dtype_size(v->dtype))
            ctx->n_changed += merge_const(g, alias, slot, mask, i) && uses_count(&u, (ValueId){ i }) > 0;
    }
    if (!(slot = make_table(&mask, ctx->scratch, g->n_node)))
        return FAIL_NOMEM();
    FOR_NODES(g, n) {
        for (int i = 0; i < n->n_in; i++)
            n->in[i] = alias[n->in[i].i];
        if (op_is_impure(n->op) || !merge_node(g, alias, slot, mask, n))
            continue;
        graph_remove(g, n);
        ctx->n_changed++;
    }
    for (int i = 0; i < g->n_output; i++)
        g->output[i].value = alias[g->output[i].value.i];
    for (int i = 0; i < g->n_update; i++)
        g->update[i].next = alias[g->update[i].next.i];
    return graph_sort(g);
}

const Pass pass_cse = { .name = "cse",
                        .summary = "merge equal constants and nodes that compute the same",
                        .idempotent = true,
                        .run = cse_run };
