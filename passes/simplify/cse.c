/* cse: one constant for equal constants, one node for nodes that compute the same.
 *
 * Legal because nodes are functions of their inputs and attributes; those that draw random numbers, talk to other
 * devices or say that they are no functions are left alone.  States are never merged, even with equal initial values:
 * they may differ after the first step.  One walk in order suffices: when a node is looked up, its inputs have been
 * replaced by their representatives already. */
#include <string.h>

#include "graph/base/hash.h"
#include "graph/ir/op.h"
#include "passes/pass.h"

enum { MAX_CONST_BYTES = 1 << 16 }; /* larger ones are weights: equal by accident at most, and slow to compare */

typedef struct {
    Graph *g;
    ValueId *alias;       /* by value id: its representative */
    uint32_t *slot, mask; /* open addressing: 1 + index into values or nodes */
} Merge;

static uint64_t tensor_hash(uint64_t h, const Tensor *t)
{
    h = hash_int(h, t->dtype);
    for (int i = 0; i < t->shape.rank; i++)
        h = hash_int(h, t->shape.dim[i]);
    return tensor_bytes(t) ? hash_bytes(h, t->data, tensor_bytes(t)) : h;
}

/* ---- nodes ---- */

/* The sum over attributes does not depend on their order. */
static uint64_t node_hash(const Node *n)
{
    uint64_t h = hash_text(hash_int(HASH_BEGIN, n->n_out), n->op->name), attrs = 0;

    for (int i = 0; i < n->n_in; i++)
        h = hash_int(h, n->in[i].i);
    for (int i = 0; i < n->n_attr; i++)
        attrs += attr_hash(&n->attr[i]);
    return hash_int(h, (int64_t)attrs);
}

/* Nodes of a branch that is never taken have no types, and stand for nobody. */
static bool same_type(const Graph *g, ValueId a, ValueId b)
{
    return value(g, a)->dtype == value(g, b)->dtype && shape_eq(value(g, a)->shape, value(g, b)->shape);
}

static bool node_same(const Graph *g, const Node *a, const Node *b)
{
    if (a->op != b->op || a->n_in != b->n_in || a->n_out != b->n_out || a->replica != b->replica ||
        a->device != b->device)
        return false;
    for (int i = 0; i < a->n_in; i++)
        if (!value_eq(a->in[i], b->in[i]))
            return false;
    for (int i = 0; i < a->n_out; i++)
        if (has_value(a->out[i]) != has_value(b->out[i]) ||
            (has_value(a->out[i]) && !same_type(g, a->out[i], b->out[i])))
            return false;
    return attrs_same(a, b);
}

static bool merge_node(Merge *m, Node *n)
{
    uint32_t at = (uint32_t)node_hash(n) & m->mask;
    const Node *first;

    for (; m->slot[at]; at = (at + 1) & m->mask) {
        first = m->g->node[m->slot[at] - 1];
        if (!node_same(m->g, first, n))
            continue;
        for (int i = 0; i < n->n_out; i++)
            m->alias[n->out[i].i] = first->out[i];
        return true;
    }
    m->slot[at] = n->index + 1;
    return false;
}

/* ---- constants ---- */

static bool merge_const(Merge *m, uint32_t id)
{
    const Tensor *t = m->g->value[id]->init;
    uint32_t at = (uint32_t)tensor_hash(HASH_BEGIN, t) & m->mask;

    for (; m->slot[at]; at = (at + 1) & m->mask)
        if (tensor_same(m->g->value[m->slot[at]]->init, t)) {
            m->alias[id] = (ValueId){ m->slot[at] };
            return true;
        }
    m->slot[at] = id;
    return false;
}

static bool mergeable_const(const Value *v)
{
    return v->kind == V_CONST && v->device < 0 && v->replica < 0 && tensor_bytes(v->init) <= MAX_CONST_BYTES &&
           dtype_size(v->dtype);
}

static Status make_table(Merge *m, Arena *a, uint32_t n)
{
    uint32_t cap = 16;

    while (cap < 2 * n)
        cap *= 2;
    m->mask = cap - 1;
    m->slot = ARENA_NEW(a, uint32_t, cap);
    return m->slot ? ST_OK : FAIL_NOMEM();
}

static void redirect(Merge *m)
{
    Graph *g = m->g;

    for (int i = 0; i < g->n_output; i++)
        g->output[i].value = m->alias[g->output[i].value.i];
    for (int i = 0; i < g->n_update; i++)
        g->update[i].next = m->alias[g->update[i].next.i];
}

static Status cse_run(Graph *g, PassCtx *ctx)
{
    Merge m = { .g = g, .alias = ARENA_NEW(ctx->scratch, ValueId, g->n_value) };

    if (!m.alias)
        return FAIL_NOMEM();
    TRY(make_table(&m, ctx->scratch, g->n_value));
    for (uint32_t i = 0; i < g->n_value; i++) {
        m.alias[i].i = i;
        if (i && mergeable_const(g->value[i]))
            ctx->n_changed += merge_const(&m, i);
    }
    TRY(make_table(&m, ctx->scratch, g->n_node));
    FOR_NODES(g, n) {
        for (int i = 0; i < n->n_in; i++)
            n->in[i] = m.alias[n->in[i].i];
        if (op_is_impure(n->op) || !merge_node(&m, n))
            continue;
        graph_remove(g, n);
        ctx->n_changed++;
    }
    redirect(&m);
    return graph_sort(g);
}

const Pass pass_cse = { .name = "cse",
                        .summary = "merge equal constants and nodes that compute the same",
                        .run = cse_run };
