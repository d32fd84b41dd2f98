/* Conversions between placements: where a consumer needs another one than the producer has, a collective or a slice
 * appears.  Each is made once and shared by all consumers.
 *
 * Sums follow the tree of graph/reduce_tree.h.  Subtrees whose replicas share a device are added there by plain Add
 * nodes, so only one partial sum per such subtree crosses devices, and the bits are those of any other mapping. */
#include <string.h>

#include "graph/emit.h"
#include "graph/reduce_tree.h"
#include "passes/expand.h"

struct SplitCopies {
    Place at;
    ValueId *part;
    SplitCopies *next;
};

static ValueId *new_list(Expander *x, int n)
{
    ValueId *list = x->g->status ? NULL : ARENA_NEW(x->a, ValueId, n);

    if (!list && !x->g->status)
        x->g->status = FAIL_NOMEM();
    return list;
}

static ValueId *list_of(Expander *x, const Node *n)
{
    ValueId *list = n ? new_list(x, n->n_out) : NULL;

    if (list)
        memcpy(list, n->out, (size_t)n->n_out * sizeof *list);
    return list;
}

/* 0, 1, 2 ... as a list of devices, for attributes and for names. */
static int *devices_upto(Expander *x, int n, int64_t *attr)
{
    int *d = ARENA_NEW(x->a, int, n);

    for (int i = 0; d && i < n; i++)
        attr[i] = d[i] = i;
    return d;
}

/* A collective from `in` to a copy of v on each of the first n devices. */
static ValueId *to_devices(Expander *x, const OpDef *op, const Attr *attr, int n_in, const ValueId *in, ValueId v,
                           int n)
{
    int64_t *ids = ARENA_NEW(x->a, int64_t, n);
    int *devices = ids ? devices_upto(x, n, ids) : NULL;
    Attr list[4] = { 0 };
    int k = 0;

    if (!devices) {
        x->g->status = FAIL_NOMEM();
        return NULL;
    }
    for (; attr && attr[k].name; k++)
        list[k] = attr[k];
    list[k] = (Attr)INTS("devices", n, ids);
    return list_of(x, expand_emit(x, op, list, n_in, in, v, n, NULL, devices));
}

/* A collective from `in` to a part of v for each replica, split along `axis`. */
static ValueId *to_replicas(Expander *x, const OpDef *op, const Attr *spans, int n_in, const ValueId *in, ValueId v,
                            int axis)
{
    int n = x->p->replicas, *replica = ARENA_NEW(x->a, int, n);
    int64_t *counts = ARENA_NEW(x->a, int64_t, n), *devices = ARENA_NEW(x->a, int64_t, n);
    Attr list[5] = { INT("axis", axis) };

    if (!replica || !counts || !devices) {
        x->g->status = FAIL_NOMEM();
        return NULL;
    }
    for (int r = 0; r < n; r++) {
        replica[r] = r;
        counts[r] = part_count(x->p, value(x->g, v)->shape.dim[axis], r);
        devices[r] = x->p->device_of[r];
    }
    list[1] = (Attr)INTS("counts", n, counts);
    list[2] = (Attr)INTS("devices", n, devices);
    if (spans)
        list[3] = *spans;
    return list_of(x, expand_emit(x, op, list, n_in, in, v, n, replica, x->p->device_of));
}

/* ---- splits in blocks ---- */

/* A copy of v (replica r's part, or device d's whole) under the shape in which the blocks of `at` are an axis of their
 * own, in front of at.axis; or back under its own. */
static ValueId reshape_copy(Expander *x, ValueId v, ValueId copy, Place at, bool apart, int r, int d)
{
    Shape s = value(x->g, copy)->shape, own = expand_local_shape(x, v, at, r);
    ValueId in[2] = { copy, NO_VALUE };
    Node *made;

    if (apart) {
        memmove(&s.dim[at.axis + 1], &s.dim[at.axis], (size_t)(s.rank++ - at.axis) * sizeof *s.dim);
        s.dim[at.axis] = at.blocks;
        s.dim[at.axis + 1] /= at.blocks;
    }
    in[1] = emit_shape_const(x->g, apart ? &s : &own);
    made = expand_emit(x, &op_Reshape, ATTRS(INT("allowzero", 1)), 2, in, v, 1, r < 0 ? NULL : &r, &d);
    return made ? made->out[0] : NO_VALUE;
}

/* The parts of v in replica order, gathered on each of the first n devices. */
static ValueId *gather(Expander *x, ValueId v, const ValueId *parts, Place at, int n)
{
    ValueId *apart = at.blocks > 1 ? new_list(x, x->p->replicas) : NULL, *list;

    if (at.blocks == 1)
        return to_devices(x, &op_AllGather, ATTRS(INT("axis", at.axis)), x->p->replicas, parts, v, n);
    for (int r = 0; apart && r < x->p->replicas && !x->g->status; r++)
        apart[r] = reshape_copy(x, v, parts[r], at, true, r, x->p->device_of[r]);
    if (!apart || x->g->status ||
        !(list = to_devices(x, &op_AllGather, ATTRS(INT("axis", at.axis + 1)), x->p->replicas, apart, v, n)))
        return NULL;
    for (int d = 0; d < n && !x->g->status; d++)
        list[d] = reshape_copy(x, v, list[d], at, false, -1, d);
    return list;
}

/* ---- sums over replicas ---- */

typedef struct {
    ValueId *part;
    int64_t *span;
    int n;
} Parts;

static ValueId fold_on_device(Expander *x, const ValueId *copies, ValueId v, int lo, int hi)
{
    int mid, device = x->p->device_of[lo];
    ValueId in[2];
    Node *sum;

    if (hi - lo == 1)
        return copies[lo];
    mid = (int)reduce_tree_mid(lo, hi);
    in[0] = fold_on_device(x, copies, v, lo, mid);
    in[1] = fold_on_device(x, copies, v, mid, hi);
    sum = expand_emit(x, &op_Add, NULL, 2, in, v, 1, NULL, &device);
    return sum ? sum->out[0] : NO_VALUE;
}

static void fold(Expander *x, Parts *out, const ValueId *copies, ValueId v, int lo, int hi)
{
    if (x->p->device_of[lo] == x->p->device_of[hi - 1]) {
        out->span[2 * out->n] = lo;
        out->span[2 * out->n + 1] = hi;
        out->part[out->n++] = fold_on_device(x, copies, v, lo, hi);
        return;
    }
    fold(x, out, copies, v, lo, (int)reduce_tree_mid(lo, hi));
    fold(x, out, copies, v, (int)reduce_tree_mid(lo, hi), hi);
}

static bool fold_parts(Expander *x, Parts *out, ValueId v)
{
    *out = (Parts){ new_list(x, x->p->replicas), ARENA_NEW(x->a, int64_t, 2 * x->p->replicas), 0 };
    if (!out->part || !out->span) {
        x->g->status = FAIL_NOMEM();
        return false;
    }
    fold(x, out, x->native[v.i], v, 0, x->p->replicas);
    return !x->g->status;
}

static ValueId *reduce_to_devices(Expander *x, ValueId v)
{
    Parts parts;

    if (!fold_parts(x, &parts, v))
        return NULL;
    if (parts.n == 1)
        return parts.part;
    return to_devices(x, &op_AllReduce, ATTRS(INTS("spans", 2 * parts.n, parts.span)), parts.n, parts.part, v,
                      x->p->devices);
}

static ValueId *reduce_to_parts(Expander *x, ValueId v, int axis)
{
    Parts parts;
    Attr spans;

    if (!fold_parts(x, &parts, v))
        return NULL;
    spans = (Attr)INTS("spans", 2 * parts.n, parts.span);
    return to_replicas(x, &op_ReduceScatter, &spans, parts.n, parts.part, v, axis);
}

/* ---- what the caller gives ---- */

static ValueId *copies_of_input(Expander *x, ValueId v)
{
    Place at = x->t->value[v.i];
    ValueId *same;

    if (at.kind == PL_S)
        return to_replicas(x, &op_Scatter, NULL, 1, &v, v, at.axis);
    if (x->p->devices > 1)
        return to_devices(x, &op_Broadcast, NULL, 1, &v, v, x->p->devices);
    if ((same = new_list(x, 1)))
        same[0] = v;
    return same;
}

static ValueId *copies_of_const(Expander *x, ValueId v)
{
    ValueId *list = new_list(x, x->p->devices);

    for (int d = 0; list && d < x->p->devices; d++)
        list[d] = v;
    return list;
}

static const ValueId *native_copies(Expander *x, ValueId v)
{
    if (!x->native[v.i] && value(x->g, v)->kind == V_INPUT)
        x->native[v.i] = copies_of_input(x, v);
    if (!x->native[v.i] && value(x->g, v)->kind == V_CONST)
        x->native[v.i] = copies_of_const(x, v);
    return x->native[v.i];
}

/* ---- to B ---- */

static const ValueId *whole_copies(Expander *x, ValueId v)
{
    Place at = x->t->value[v.i];
    const ValueId *native = native_copies(x, v);

    if (at.kind == PL_B || !native || x->whole[v.i])
        return at.kind == PL_B ? native : x->whole[v.i];
    if (at.kind == PL_P)
        x->whole[v.i] = reduce_to_devices(x, v);
    else if (at.kind == PL_S)
        x->whole[v.i] = gather(x, v, native, at, x->p->devices);
    else
        x->whole[v.i] =
            x->p->devices > 1 ? to_devices(x, &op_Broadcast, NULL, 1, native, v, x->p->devices) : x->native[v.i];
    return x->whole[v.i];
}

ValueId expand_on_first(Expander *x, ValueId v)
{
    Place at = x->t->value[v.i];
    const ValueId *list = native_copies(x, v);

    if (at.kind == PL_S && list && !x->whole[v.i])
        list = gather(x, v, list, at, 1);
    else if (at.kind != PL_L)
        list = whole_copies(x, v);
    return list ? list[0] : NO_VALUE;
}

const ValueId *expand_stacked(Expander *x, ValueId v)
{
    const ValueId *rows = expand_copies(x, v, PLACE_L);

    return rows ? to_devices(x, &op_AllGather, ATTRS(INT("axis", 0)), x->p->replicas, rows, v, x->p->devices) : NULL;
}

/* ---- to S ---- */

static ValueId const_part(Expander *x, ValueId v, Place at, int r)
{
    const Tensor *t = value(x->g, v)->init;
    Shape s = expand_local_shape(x, v, at, r);
    Tensor *part = tensor_create(x->g->arena, t->dtype, &s);
    size_t size = dtype_size(t->dtype), inner = (size_t)shape_count(&s, at.axis + 1, s.rank) * size;
    size_t row = (size_t)(s.dim[at.axis] / at.blocks) * inner,
           wide = (size_t)(t->shape.dim[at.axis] / at.blocks) * inner;
    size_t offset = (size_t)part_offset(x->p, t->shape.dim[at.axis] / at.blocks, r) * inner;

    if (!part) {
        x->g->status = FAIL_NOMEM();
        return NO_VALUE;
    }
    for (int64_t i = 0; row && i < shape_count(&s, 0, at.axis) * at.blocks; i++)
        memcpy((char *)part->data + (size_t)i * row, (const char *)t->data + (size_t)i * wide + offset, row);
    return graph_add_const_nocopy(x->g, value(x->g, v)->name, part);
}

/* A value that only repeats others along the split axis (a broadcast, a fill) is made in parts: nobody holds the
 * whole. */
static bool made_in_parts(const Expander *x, ValueId v, int axis)
{
    const Node *n = value(x->g, v)->producer;
    const Shape *from;
    int lead;

    if (!n || !n->op || !n->op->shape_in || n->op->flags & (OPF_VIEW | OPF_RANDOM) ||
        !value_const(x->g, n->in[n->op->shape_in - 1]))
        return false;
    if (n->n_in == 1)
        return true;
    if (n->op != &op_Expand)
        return false;
    from = &in_value(x->g, n, 0)->shape;
    lead = value(x->g, v)->shape.rank - from->rank;
    return axis < lead || from->dim[axis - lead] == 1;
}

static ValueId repeated_part(Expander *x, ValueId v, Place at, int r)
{
    const Node *n = value(x->g, v)->producer;
    int d = x->p->device_of[r], shape_in = n->op->shape_in - 1;
    ValueId in[2] = { NO_VALUE };
    Shape s = expand_local_shape(x, v, at, r);
    const ValueId *data = n->n_in > 1 ? expand_copies(x, n->in[0], PLACE_B) : NULL;
    Attr *attrs = ARENA_NEW(x->a, Attr, n->n_attr + 1);
    Node *made;

    if (!attrs || (n->n_in > 1 && !data)) {
        x->g->status = x->g->status ? x->g->status : FAIL_NOMEM();
        return NO_VALUE;
    }
    if (n->n_attr)
        memcpy(attrs, n->attr, (size_t)n->n_attr * sizeof *attrs);
    if (data)
        in[0] = data[d];
    in[shape_in] = emit_shape_const(x->g, &s);
    made = expand_emit(x, n->op, attrs, n->n_in, in, v, 1, &r, &d);
    return made ? made->out[0] : NO_VALUE;
}

static ValueId slice_part(Expander *x, ValueId v, const ValueId *whole, Place at, int r)
{
    int64_t dim = value(x->g, v)->shape.dim[at.axis] / at.blocks, from = part_offset(x->p, dim, r),
            to = from + part_count(x->p, dim, r);
    int64_t along = at.blocks > 1 ? at.axis + 1 : at.axis;
    int d = x->p->device_of[r];
    ValueId in[4];
    Node *made;

    if (!whole)
        return NO_VALUE;
    in[0] = at.blocks > 1 ? reshape_copy(x, v, whole[d], at, true, -1, d) : whole[d];
    in[1] = emit_ints(x->g, 1, &from);
    in[2] = emit_ints(x->g, 1, &to);
    in[3] = emit_ints(x->g, 1, &along);
    made = expand_emit(x, &op_Slice, NULL, 4, in, v, 1, &r, &d);
    if (!made)
        return NO_VALUE;
    return at.blocks > 1 ? reshape_copy(x, v, made->out[0], at, false, r, d) : made->out[0];
}

static ValueId *make_parts(Expander *x, ValueId v, Place at)
{
    bool constant = value(x->g, v)->kind == V_CONST;
    bool repeated = !constant && x->t->value[v.i].kind == PL_B && made_in_parts(x, v, at.axis);
    const ValueId *whole = constant || repeated ? NULL : whole_copies(x, v);
    ValueId *list = new_list(x, x->p->replicas);

    for (int r = 0; list && r < x->p->replicas && !x->g->status; r++)
        list[r] = constant   ? const_part(x, v, at, r)
                  : repeated ? repeated_part(x, v, at, r)
                             : slice_part(x, v, whole, at, r);
    return list;
}

static const ValueId *split_copies(Expander *x, ValueId v, Place at)
{
    SplitCopies *s = x->split[v.i];

    for (; s; s = s->next)
        if (place_eq(s->at, at))
            return s->part;
    if (!(s = ARENA_NEW(x->a, SplitCopies, 1))) {
        x->g->status = FAIL_NOMEM();
        return NULL;
    }
    s->at = at;
    s->part = x->t->value[v.i].kind == PL_P && at.blocks == 1 ? reduce_to_parts(x, v, at.axis) : make_parts(x, v, at);
    s->next = x->split[v.i];
    x->split[v.i] = s;
    return x->g->status ? NULL : s->part;
}

/* ---- to L and P ---- */

static const ValueId *per_replica(Expander *x, ValueId v, bool only_first)
{
    const ValueId *whole = whole_copies(x, v);
    ValueId *list = new_list(x, x->p->replicas);

    for (int r = 0; whole && list && r < x->p->replicas; r++) {
        uint32_t before = x->g->n_node;

        list[r] = r && only_first ? emit_zeros_like(x->g, v) : whole[x->p->device_of[r]];
        if (x->g->n_node > before && !x->g->status) {
            x->g->node[before]->replica = r;
            x->g->node[before]->device = x->p->device_of[r];
            value(x->g, list[r])->device = x->p->device_of[r];
        }
    }
    return whole ? list : NULL;
}

const ValueId *expand_copies(Expander *x, ValueId v, Place want)
{
    const ValueId *list;

    if (x->g->status)
        return NULL;
    if (want.kind == PL_B)
        list = whole_copies(x, v);
    else if (place_eq(x->t->value[v.i], want))
        list = native_copies(x, v);
    else if (want.kind == PL_S)
        list = split_copies(x, v, want);
    else
        list = per_replica(x, v, want.kind == PL_P);
    return x->g->status ? NULL : list;
}
