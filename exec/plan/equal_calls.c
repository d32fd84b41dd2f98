/* A table of calls by what their kernels see of their nodes.  Lists of attributes are compared by address, since nodes
 * of a graph share them (graph/ir/attr.c); constants likewise. */
#include "exec/plan/equal_calls.h"

#include "graph/base/hash.h"
#include "graph/ir/op.h"

struct EqualCalls {
    const Graph *g;
    Arena *arena;
    const Call **slot; /* open addressing */
    uint32_t n, cap;
};

EqualCalls *equal_calls_create(const Graph *g)
{
    Arena *arena = arena_create_beside(g->arena);
    EqualCalls *a = arena ? ARENA_NEW(arena, EqualCalls, 1) : NULL;

    if (!a) {
        arena_free(arena);
        return NULL;
    }
    a->g = g;
    a->arena = arena;
    return a;
}

void equal_calls_free(EqualCalls *a)
{
    if (a)
        arena_free(a->arena);
}

static ValueId nth_value(const Node *n, int i) { return i < n->n_in ? n->in[i] : n->out[i - n->n_in]; }

static uint64_t hash_value(uint64_t h, const Graph *g, ValueId id)
{
    const Value *v = value(g, id);

    if (!has_value(id))
        return hash_int(h, -1);
    h = hash_int(h, v->dtype * N_LAYOUTS + (int64_t)v->layout);
    h = hash_int(h, (int64_t)(uintptr_t)value_const(g, id));
    return hash_bytes(h, v->shape->dim, (size_t)(v->shape->rank < 0 ? 0 : v->shape->rank) * sizeof *v->shape->dim);
}

static uint64_t hash_call(const Graph *g, const Call *c)
{
    const Node *n = c->node;
    uint64_t h = hash_int(hash_int(HASH_BEGIN, (int64_t)(uintptr_t)c->kernel), (int64_t)(uintptr_t)n->attr);

    for (int i = 0; i < n->n_in + n->n_out; i++)
        h = hash_value(h, g, nth_value(n, i));
    return h;
}

static bool value_alike(const Graph *g, ValueId a, ValueId b)
{
    const Value *x = value(g, a), *y = value(g, b);

    if (!has_value(a) || !has_value(b))
        return value_eq(a, b);
    return x->dtype == y->dtype && x->layout == y->layout && shape_eq(x->shape, y->shape) &&
           value_const(g, a) == value_const(g, b);
}

static bool call_alike(const Graph *g, const Call *a, const Call *b)
{
    const Node *n = a->node, *m = b->node;

    if (a->kernel != b->kernel || n->op != m->op || n->n_in != m->n_in || n->n_out != m->n_out ||
        n->n_attr != m->n_attr || n->attr != m->attr)
        return false;
    for (int i = 0; i < n->n_in + n->n_out; i++)
        if (!value_alike(g, nth_value(n, i), nth_value(m, i)))
            return false;
    return true;
}

/* Where it is, or would be. */
static uint32_t equal_calls_slot_of(const EqualCalls *a, const Call *c)
{
    uint32_t i = (uint32_t)hash_call(a->g, c) & (a->cap - 1);

    while (a->slot[i] && !call_alike(a->g, a->slot[i], c))
        i = (i + 1) & (a->cap - 1);
    return i;
}

/* Makes room for one more.  When out of memory, later nodes count as equal to none. */
static bool equal_calls_reserve(EqualCalls *a)
{
    const EqualCalls old = *a;

    if (a->n * 2 < a->cap)
        return true;
    a->cap = old.cap ? old.cap * 2 : 64;
    if (!(a->slot = ARENA_NEW(a->arena, const Call *, a->cap))) {
        *a = old;
        return false;
    }
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slot[i])
            a->slot[equal_calls_slot_of(a, old.slot[i])] = old.slot[i];
    arena_give_back(a->arena, old.slot, old.cap * sizeof *old.slot);
    return true;
}

const Call *equal_calls_find(EqualCalls *a, const Call *c)
{
    uint32_t at;

    if (!equal_calls_reserve(a))
        return NULL;
    at = equal_calls_slot_of(a, c);
    if (a->slot[at])
        return a->slot[at];
    a->slot[at] = c;
    a->n++;
    return NULL;
}
