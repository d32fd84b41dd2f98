/* Parts of different lengths: cutting where they come in, constants that follow the length, random numbers, and padding
 * where parts are put together. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/op.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/layout.gen.h"
#include "passes/partition/value_copies.h"

/* Slices the first elements along each axis, as many as `to` has. */
static ValueId slice_to(Expander *x, ValueId v, ValueId copy, const Shape *to, int r)
{
    const Shape *from = value(x->g, copy)->shape;
    const int d = x->p->device_of[r];
    int64_t zero[MAX_RANK] = { 0 }, end[MAX_RANK], axis[MAX_RANK];
    ValueId in[4] = { copy };
    int n = 0;
    Node *made;

    for (int k = 0; k < to->rank; k++)
        if (from->dim[k] != to->dim[k]) {
            end[n] = to->dim[k];
            axis[n++] = k;
        }
    if (!n || x->g->status)
        return copy;
    in[1] = emit_ints(x->g, n, zero);
    in[2] = emit_ints(x->g, n, end);
    in[3] = emit_ints(x->g, n, axis);
    made = emit_copies(x, &op_Slice, NULL, 4, in, v, 1, &r, &d);
    return made ? made->out[0] : NO_VALUE;
}

/* The shape with axis `a` divided into `rows` samples and the elements of each. */
static Shape with_samples(const Shape *s, int a, int64_t rows)
{
    Shape apart = *s;

    memmove(&apart.dim[a + 1], &apart.dim[a], (size_t)(apart.rank++ - a) * sizeof *apart.dim);
    apart.dim[a] = rows;
    apart.dim[a + 1] /= rows;
    return apart;
}

ValueId cut_part(Expander *x, ValueId v, ValueId part, Place at, int r)
{
    const Shape to = local_shape(x, v, at, r);
    const int d = x->p->device_of[r];
    const int64_t rows = at.split->count[r];
    Shape from, apart;

    if (x->g->status || !has_value(part))
        return NO_VALUE;
    from = *value(x->g, part)->shape;
    if (from.dim[at.axis] == to.dim[at.axis])
        return slice_to(x, v, part, &to, r);
    apart = with_samples(&from, at.axis, rows);
    part = reshape_copy(x, v, part, &apart, r, d);
    apart = with_samples(&to, at.axis, rows);
    part = x->g->status ? NO_VALUE : slice_to(x, v, part, &apart, r);
    return x->g->status ? NO_VALUE : reshape_copy(x, v, part, &to, r, d);
}

static ValueId pad_part(Expander *x, ValueId v, ValueId part, Place at, int r)
{
    const Shape to = piece_shape(x->of[v.i].shape, at, r);
    const Shape *from = x->g->status ? &to : value(x->g, part)->shape;
    const int d = x->p->device_of[r];
    int64_t pads[2 * MAX_RANK] = { 0 };
    Node *made;

    if (shape_eq(from, &to))
        return part;
    for (int k = 0; k < to.rank; k++)
        pads[to.rank + k] = to.dim[k] - from->dim[k];
    made = emit_copies(x, &op_Pad, NULL, 2, (ValueId[]){ part, emit_ints(x->g, 2 * to.rank, pads) }, v, 1, &r, &d);
    return made ? made->out[0] : NO_VALUE;
}

const ValueId *padded_parts(Expander *x, ValueId v, const ValueId *parts, Place at)
{
    ValueId *list;

    if (!parts || !varies(x, v))
        return parts;
    if (!(list = ARENA_NEW(x->a, ValueId, at.split->n))) {
        graph_fail_nomem(x->g);
        return NULL;
    }
    for (int r = 0; r < at.split->n; r++)
        list[r] = pad_part(x, v, parts[r], at, r);
    return x->g->status ? NULL : list;
}

/* Adds a constant of a variant to this graph, once for all readers. */
static ValueId borrow(Expander *x, const Variant *k, ValueId of)
{
    const Value *v = value(k->g, of);
    ValueId **list = &x->borrowed[k - x->p->variants->list];

    if (!*list && !(*list = ARENA_NEW(x->a, ValueId, k->g->n_value))) {
        graph_fail_nomem(x->g);
        return NO_VALUE;
    }
    if (!has_value((*list)[of.i]))
        (*list)[of.i] = graph_add_const(x->g, v->name, v->init);
    return (*list)[of.i];
}

ValueId own_constant(Expander *x, const Node *n, int i, int r)
{
    const Variant *k = variant_of(x->p, r);
    const Place want = x->t->want[n->index][i];
    ValueId of;

    if (!k || !x->p->variants->differ[n->index] || !has_value(n->in[i]) || value(x->g, n->in[i])->kind != V_CONST)
        return NO_VALUE;
    of = k->node[n->index]->in[i];
    return want.kind == PL_S ? tensor_part(x, value(k->g, of)->name, value(k->g, of)->init, want, r) : borrow(x, k, of);
}

/* Emits zeros on replica r's device. */
static ValueId zeros(Expander *x, DType t, const Shape *s, int r)
{
    const uint32_t before = x->g->n_node;
    const ValueId v = emit_full(x->g, t, s, 0);

    if (x->g->n_node > before && !x->g->status) {
        x->g->node[before]->replica = r;
        x->g->node[before]->device = x->p->shown[x->p->device_of[r]];
        value(x->g, v)->device = x->g->node[before]->device;
    }
    return v;
}

/* n's attributes that `op` declares too, or all if `op` is NULL, with an end mark. */
static const Attr *attributes(Expander *x, const Node *n, const OpDef *op)
{
    Attr *list = ARENA_NEW(x->once, Attr, n->n_attr + 1);
    int k = 0;

    for (int i = 0; list && i < n->n_attr; i++) {
        bool declared = !op;

        for (const AttrDecl *d = op ? op->attrs : NULL; d && d->name; d++)
            declared |= !strcmp(d->name, n->attr[i].name);
        if (declared)
            list[k++] = n->attr[i];
    }
    return list;
}

Status draw_part(Expander *x, const Node *n, const ValueId *in, int r, ValueId out[2])
{
    const Place at = x->t->value[n->out[0].i];
    const Shape whole = piece_shape(x->of[n->out[0].i].shape, at, r);
    const Attr *all = attributes(x, n, NULL), *shared = attributes(x, n, n->op->applies);
    const int d = x->p->device_of[r];
    const Node *applied;
    Node *drawn;

    if (!all || !shared)
        return FAIL_NOMEM();
    drawn = emit_copies(x, n->op, all, n->n_in, (ValueId[]){ zeros(x, x->of[n->out[0].i].dtype, &whole, r), in[1] },
                        n->out[0], 2, (int[]){ r, r }, (int[]){ d, d });
    if (!drawn)
        return fail_or_nomem(x);
    TRY(set_random_key(x, n, drawn, r));
    out[1] = cut_part(x, n->out[1], drawn->out[1], at, r);
    TRY(x->g->status);
    applied = emit_copies(x, n->op->applies, shared, 2, (ValueId[]){ in[0], out[1] }, n->out[0], 1, &r, &d);
    if (!applied)
        return fail_or_nomem(x);
    out[0] = applied->out[0];
    return ST_OK;
}
