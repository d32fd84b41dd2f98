/* Chooses kernels: of those that fit, the one of least rank; the reference comes last and fits whatever the operator
 * allows. */
#include "kernels/backend.h"

#include <stdlib.h>
#include <string.h>

#include "graph/base/arena.h"

/* Value number i of the node's inputs and then outputs; NULL: absent. */
static const Value *value_of(const Graph *g, const Node *n, int i)
{
    const ValueId v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];

    return has_value(v) ? value(g, v) : NULL;
}

bool kernel_channels_last(const Graph *g, const Node *n)
{
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const Value *v = value_of(g, n, i);

        if (v && v->layout != LAYOUT_ROWS && v->layout != LAYOUT_CHANNELS_LAST)
            return false;
    }
    return true;
}

bool kernel_same_layout(const Graph *g, const Node *n)
{
    const Value *y = value(g, n->out[0]);

    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const Value *v = value_of(g, n, i);

        if (v && !(v->layout == y->layout && shape_eq(v->shape, y->shape)) &&
            (i >= n->n_in || shape_numel(v->shape) != 1))
            return false;
    }
    return true;
}

static bool knows_layouts(const Kernel *k, const Graph *g, const Node *n)
{
    return node_layout(g, n) == LAYOUT_ROWS || (k->layouts && k->layouts(g, n));
}

static bool backend_fits(const Kernel *k, const Graph *g, const Node *n)
{
    ValueId typed = n->n_in && has_value(n->in[0]) ? n->in[0] : n->n_out ? n->out[0] : NO_VALUE;

    if (k->op != n->op)
        return false;
    if (k->dtypes && has_value(typed) && !(k->dtypes & DTYPE_BIT(value(g, typed)->dtype)))
        return false;
    return !k->supports || k->supports(g, n);
}

static const Kernel *backend_find(const Kernel *const *list, int len, const Graph *g, const Node *n, bool any_layout)
{
    const Kernel *best = NULL;

    for (int i = 0; i < len; i++)
        if ((!best || list[i]->rank < best->rank) && (any_layout || knows_layouts(list[i], g, n)) &&
            backend_fits(list[i], g, n))
            best = list[i];
    return best;
}

const Kernel *kernel_find(const Kernel *const *list, int len, const Graph *g, const Node *n)
{
    return backend_find(list, len, g, n, false);
}

/* To the reference everything is stored by rows, and a Reorder changes nothing: layouts do not matter then. */
const Kernel *kernel_reference(const Graph *g, const Node *n)
{
    const Kernel *k;

    if (n->op->kernel)
        return backend_fits(n->op->kernel, g, n) ? n->op->kernel : NULL;
    k = backend_find(kernels_ref, kernels_ref_len, g, n, true);
    return k ? k : kernel_half.supports(g, n) ? &kernel_half : NULL;
}

bool kernel_exists(const Kernel *const *list, int len, const OpDef *op, const Target *t)
{
    const unsigned types = DTYPES_F32_F64 | (t->precision != DT_NONE ? DTYPE_BIT(t->precision) : 0);

    for (int i = 0; i < len; i++)
        if (list[i]->op == op && (!list[i]->dtypes || list[i]->dtypes & types))
            return true;
    return false;
}

Status kernel_state(void **state, const void *plan, size_t size)
{
    void *copy = malloc(size);

    if (!copy)
        return FAIL_NOMEM();
    *state = memcpy(copy, plan, size);
    return ST_OK;
}

void *kernel_table(const Graph *g, size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes) || !memory_budget_take(arena_budget(g->arena), bytes))
        return NULL;
    return calloc(n ? n : 1, size);
}
