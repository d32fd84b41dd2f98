/* Copies of a value, and conversions of these copies between placements.
 *
 * Where a consumer needs another placement than the producer has, a collective or a slice appears; each is made once
 * and shared by all consumers.  Sums follow the tree of graph/tensor/reduce_tree.h.  Subtrees whose replicas share a
 * device are added there by plain Add nodes, so only one partial sum per such subtree crosses devices, and the bits are
 * those of any other mapping. */
#include "passes/partition/value_copies.h"

#include <string.h>

#include "graph/ir/collective.h"
#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/collective.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/tensor/reduce_tree.h"

struct SplitCopies {
    Place at;
    ValueId *part;
    SplitCopies *next;
};

/* ---- one copy ---- */

Shape piece_shape(const Shape *whole, Place at, int i)
{
    Shape s = *whole;

    if (at.kind != PL_S)
        return s;
    if (at.axis == AXIS_ELEMENTS)
        return (Shape){ 1, { split_count(at.split, shape_numel(&s), i) } };
    s.dim[at.axis] = split_count(at.split, s.dim[at.axis], i);
    return s;
}

/* Shape of the unsplit tensor that copy i is a slice of, or all of. */
static const Shape *whole_shape(const Expander *x, ValueId v, Place at, int i)
{
    const Variant *k = place_by_device(at) ? NULL : variant_of(x->p, i);

    return k && has_value(k->of[v.i]) ? value(k->g, k->of[v.i])->shape : x->of[v.i].shape;
}

Shape local_shape(const Expander *x, ValueId v, Place at, int i)
{
    return piece_shape(whole_shape(x, v, at, i), at, i);
}

enum { MAX_OTHER = 7 }; /* pieces: as many blocks, one more, and those that the end of the tensor cuts */

/* An input of the graph that stands for a copy of that shape on a device that the graph does not show. */
static ValueId other_piece(Expander *x, ValueId v, const Value *like, const Shape *s)
{
    ValueId *list = x->other[v.i] ? x->other[v.i] : ARENA_NEW(x->a, ValueId, MAX_OTHER + 1);
    const char *name = arena_printf(x->a, "%s@elsewhere", value_logical_name(value(x->g, v)));
    int n = 0;

    if (!list || !name) {
        x->g->status = FAIL_NOMEM();
        return NO_VALUE;
    }
    x->other[v.i] = list;
    for (; has_value(list[n]); n++)
        if (shape_eq(value(x->g, list[n])->shape, s) && value(x->g, list[n])->dtype == like->dtype)
            return list[n];
    if (n == MAX_OTHER) {
        x->g->status = FAIL(E_INTERNAL, "'%s': pieces of more than %d sizes", like->name, MAX_OTHER);
        return NO_VALUE;
    }
    return list[n] = graph_add_input(x->g, name, like->dtype, s);
}

ValueId stand_in(Expander *x, ValueId v, Place at, int i, ValueId like)
{
    const Shape s = local_shape(x, v, at, i);

    if (x->g->status || !has_value(like) || at.kind == PL_B || copy_like(x, at, i) == i ||
        shape_eq(&s, value(x->g, like)->shape))
        return like;
    return other_piece(x, v, value(x->g, like), &s);
}

const char *copy_name(const Expander *x, ValueId v, int r, int d)
{
    const char *base = value_logical_name(value(x->g, v));
    const char *name = r >= 0 ? arena_printf(x->once, "%s@r%d", base, r) : arena_printf(x->once, "%s@d%d", base, d);

    if (!name)
        graph_fail_nomem(x->g);
    return name ? name : "";
}

void mark_copy(const Expander *x, ValueId copy, const char *logical, int r, int d)
{
    Value *v = value(x->g, copy);

    v->replica = r;
    v->device = x->p->shown[d];
    v->logical = logical;
}

/* Appends a node that makes copies of v, named by what v is for, or by v. */
static Node *add_copier(Expander *x, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in, ValueId v,
                        int n_out, const char *const *names)
{
    const Node *from = value(x->g, v)->producer;
    const char *of = from ? from->name : value_logical_name(value(x->g, v));
    Node *n;

    graph_begin_purpose(x->g, from ? from->phase : PHASE_NONE, of);
    n = graph_add_node(x->g, op, NULL, attrs, n_in, in, n_out, names);
    graph_begin_purpose(x->g, PHASE_NONE, NULL);
    return n;
}

Node *emit_copies(Expander *x, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in, ValueId v, int n_out,
                  const int *replica, const int *device)
{
    const char **names = ARENA_NEW(x->once, const char *, n_out);
    Node *n;

    if (x->g->status)
        return NULL;
    if (!names) {
        x->g->status = FAIL_NOMEM();
        return NULL;
    }
    for (int i = 0; i < n_out; i++)
        names[i] = device[i] < 0 ? "" : copy_name(x, v, replica ? replica[i] : -1, device[i]);
    if (!(n = add_copier(x, op, attrs, n_in, in, v, n_out, names)))
        return NULL;
    if (!(op->flags & OPF_COLLECTIVE)) {
        n->replica = replica ? replica[0] : -1;
        n->device = x->p->shown[device[0]];
    }
    for (int i = 0; i < n_out; i++)
        if (device[i] >= 0)
            mark_copy(x, n->out[i], value_logical_name(value(x->g, v)), replica ? replica[i] : -1, device[i]);
    if (!(x->g->status = node_normalise(x->g, n)))
        x->g->status = node_infer(x->g, n);
    if (!x->g->status && op->flags & OPF_COLLECTIVE) { /* its checked attributes define the exchange */
        const Exchange e = exchange_of(n);

        if (!(n->name = arena_printf(x->g->arena, "%s of %s", exchange_verb(&e), n->name)))
            x->g->status = FAIL_NOMEM();
    }
    return x->g->status ? NULL : n;
}

/* ---- lists of copies ---- */

static ValueId *new_list(Expander *x, int n)
{
    ValueId *list = x->g->status ? NULL : ARENA_NEW(x->a, ValueId, n);

    if (!list && !x->g->status)
        x->g->status = FAIL_NOMEM();
    return list;
}

enum { ALL_DEVICES = -1 };

/* A collective from `in` to a copy of v on each device, or on device `only`, which is shown. */
static ValueId *to_devices(Expander *x, const OpDef *op, const Attr *attr, int n_in, const ValueId *in, ValueId v,
                           int only)
{
    const int first = only < 0 ? 0 : only, n = only < 0 ? x->p->devices : 1;
    const int n_shown = x->p->shown[first + n] - x->p->shown[first];
    int64_t *ids = ARENA_NEW(x->a, int64_t, n); /* of the shown devices, in the graph */
    int *device = ARENA_NEW(x->a, int, n);      /* their numbers, for names */
    Attr list[4] = { 0 };
    ValueId *copies;
    Node *made;
    int k = 0;

    if (!ids || !device) {
        x->g->status = FAIL_NOMEM();
        return NULL;
    }
    for (int d = first; d < first + n; d++)
        if (x->p->like[d] == d) {
            device[x->p->shown[d] - x->p->shown[first]] = d;
            ids[x->p->shown[d] - x->p->shown[first]] = x->p->shown[d];
        }
    for (; attr && attr[k].name; k++)
        list[k] = attr[k];
    list[k] = (Attr)INTS("devices", n_shown, ids);
    made = emit_copies(x, op, list, n_in, in, v, n_shown, NULL, device);
    copies = made ? new_list(x, n) : NULL;
    for (int d = 0; copies && d < n; d++)
        copies[d] = made->out[x->p->shown[x->p->like[first + d]] - x->p->shown[first]];
    return copies;
}

/* A collective from `in` to the parts of v at `at`, not in blocks; `along`: the attribute that has their axis, `more`:
 * another, or NULL. */
static ValueId *to_parts(Expander *x, const OpDef *op, const char *along, const Attr *more, int n_in, const ValueId *in,
                         ValueId v, Place at)
{
    int n = at.split->n, axis = at.axis == AXIS_ELEMENTS ? 0 : at.axis;
    int *replica = ARENA_NEW(x->a, int, n), *device = ARENA_NEW(x->a, int, n);
    int64_t *counts = ARENA_NEW(x->a, int64_t, n), *devices = ARENA_NEW(x->a, int64_t, n);
    Attr list[5] = { INT(along, axis) };
    ValueId *parts;
    Node *made;

    if (!replica || !device || !counts || !devices) {
        x->g->status = FAIL_NOMEM();
        return NULL;
    }
    for (int i = 0; i < n; i++) {
        const bool shown = copy_like(x, at, i) == i;

        replica[i] = replica_of(at, i);
        device[i] = shown ? device_of(x, at, i) : -1;
        devices[i] = shown ? x->p->shown[device[i]] : -1;
        counts[i] = local_shape(x, v, at, i).dim[axis];
    }
    list[1] = (Attr)INTS("counts", n, counts);
    list[2] = (Attr)INTS("devices", n, devices);
    if (more)
        list[3] = *more;
    made = emit_copies(x, op, list, n_in, in, v, n, replica, device);
    parts = made ? new_list(x, n) : NULL;
    for (int i = 0; parts && i < n; i++)
        parts[i] = stand_in(x, v, at, i, made->out[copy_like(x, at, i)]);
    return x->g->status ? NULL : parts;
}

/* The parts of v, which lie at `from`, dealt out anew as parts at `at`, along another axis; neither in blocks. */
static ValueId *turn(Expander *x, ValueId v, Place from, Place at)
{
    const Attr axis = INT("axis", from.axis);

    return to_parts(x, &op_AllToAll, "cut", &axis, at.split->n, x->native[v.i], v, at);
}

/* ---- splits in blocks ---- */

ValueId reshape_copy(Expander *x, ValueId v, ValueId copy, const Shape *to, int r, int d)
{
    ValueId in[2] = { copy, emit_shape_const(x->g, to) };
    Node *made = emit_copies(x, &op_Reshape, ATTRS(INT("allowzero", 1)), 2, in, v, 1, r < 0 ? NULL : &r, &d);

    return made ? made->out[0] : NO_VALUE;
}

/* Reshapes a copy of v so that the cut axis stands alone: the blocks of `at` become an axis in front of at.axis, or all
 * elements become one axis. */
static ValueId lay_apart(Expander *x, ValueId v, ValueId copy, Place at, int r, int d)
{
    Shape s = *value(x->g, copy)->shape;

    if (at.axis == AXIS_ELEMENTS) {
        s = (Shape){ 1, { shape_numel(&s) } };
    } else {
        memmove(&s.dim[at.axis + 1], &s.dim[at.axis], (size_t)(s.rank++ - at.axis) * sizeof *s.dim);
        s.dim[at.axis] = at.blocks;
        s.dim[at.axis + 1] /= at.blocks;
    }
    return reshape_copy(x, v, copy, &s, r, d);
}

/* The cut axis of lay_apart's result. */
static int axis_apart(Place at) { return at.axis == AXIS_ELEMENTS ? 0 : at.blocks > 1 ? at.axis + 1 : at.axis; }

/* The parts of v in their order, gathered on each device, or on device `only`. */
static ValueId *value_copies_gather(Expander *x, ValueId v, const ValueId *parts, Place at, int only)
{
    const int first = only < 0 ? 0 : only, n = only < 0 ? x->p->devices : 1;
    const Shape *whole = x->of[v.i].shape;
    ValueId *apart = new_list(x, at.split->n), *list;

    for (int i = 0; apart && i < at.split->n && !x->g->status; i++)
        apart[i] = at.blocks <= 1             ? parts[i]
                   : copy_like(x, at, i) != i ? apart[copy_like(x, at, i)]
                                              : lay_apart(x, v, parts[i], at, replica_of(at, i), device_of(x, at, i));
    if (!apart || x->g->status ||
        !(list = to_devices(x, &op_AllGather, ATTRS(INT("axis", axis_apart(at))), at.split->n, apart, v, only)))
        return NULL;
    for (int d = 0; d < n && (at.blocks > 1 || at.axis == AXIS_ELEMENTS) && !x->g->status; d++)
        if (x->p->like[first + d] != first + d)
            list[d] = list[x->p->like[first + d] - first];
        else if (!shape_eq(value(x->g, list[d])->shape, whole))
            list[d] = reshape_copy(x, v, list[d], whole, -1, first + d);
    return list;
}

/* ---- sums over replicas ---- */

typedef struct {
    ValueId *part;
    int64_t *span;
    int *from; /* [replicas] the part that begins with it */
    int n;
} Parts;

/* The part that stands for part k if its device is not shown; otherwise k. */
static int part_like(const Expander *x, const Parts *parts, bool by_device, int k)
{
    const int lo = (int)parts->span[2 * k];

    return parts->from[by_device ? x->p->like[lo] : replica_like(x->p, lo)];
}

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
    sum = emit_copies(x, &op_Add, NULL, 2, in, v, 1, NULL, &device);
    return sum ? sum->out[0] : NO_VALUE;
}

static void fold(Expander *x, Parts *out, const ValueId *copies, ValueId v, int lo, int hi)
{
    if (x->p->device_of[lo] == x->p->device_of[hi - 1]) {
        int k = out->n++, like;

        out->span[2 * k] = lo;
        out->span[2 * k + 1] = hi;
        out->from[lo] = k;
        like = part_like(x, out, false, k);
        out->part[k] = like == k ? fold_on_device(x, copies, v, lo, hi) : out->part[like];
        return;
    }
    fold(x, out, copies, v, lo, (int)reduce_tree_mid(lo, hi));
    fold(x, out, copies, v, (int)reduce_tree_mid(lo, hi), hi);
}

/* The partial sums of v that cross devices: of the replicas of each, or one of each. */
static bool fold_parts(Expander *x, Parts *out, ValueId v)
{
    bool by_device = place_by_device(x->t->value[v.i]);

    *out = (Parts){ new_list(x, x->p->replicas), ARENA_NEW(x->a, int64_t, 2 * x->p->replicas),
                    ARENA_NEW(x->a, int, x->p->replicas), 0 };
    if (!out->part || !out->span || !out->from) {
        x->g->status = FAIL_NOMEM();
        return false;
    }
    for (int d = 0; by_device && d < x->p->devices; d++) {
        out->part[out->n] = x->native[v.i][d];
        out->span[2 * out->n] = d;
        out->from[d] = d;
        out->span[2 * out->n++ + 1] = d + 1;
    }
    if (!by_device)
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
                      ALL_DEVICES);
}

static ValueId *reduce_to_parts(Expander *x, ValueId v, Place at)
{
    bool by_device = place_by_device(x->t->value[v.i]);
    Parts parts;
    Attr spans;

    if (!fold_parts(x, &parts, v))
        return NULL;
    for (int k = 0; k < parts.n && at.axis == AXIS_ELEMENTS && x->of[v.i].shape->rank != 1; k++) {
        const int like = part_like(x, &parts, by_device, k);

        parts.part[k] =
            like == k ? lay_apart(x, v, parts.part[k], at, -1, x->p->device_of[parts.span[2 * k]]) : parts.part[like];
    }
    spans = (Attr)INTS("spans", 2 * parts.n, parts.span);
    return to_parts(x, &op_ReduceScatter, "axis", &spans, parts.n, parts.part, v, at);
}

/* ---- inputs of the graph ---- */

static ValueId *copies_of_input(Expander *x, ValueId v)
{
    Place at = x->t->value[v.i];
    ValueId *same;

    if (at.kind == PL_S) {
        same = to_parts(x, &op_Scatter, "axis", NULL, 1, &v, v, at);
        for (int i = 0; same && varies(x, v) && i < at.split->n; i++)
            same[i] = cut_part(x, v, same[i], at, i);
        return same;
    }
    if (x->p->devices > 1)
        return to_devices(x, &op_Broadcast, NULL, 1, &v, v, ALL_DEVICES);
    if ((same = new_list(x, 1)))
        same[0] = v;
    return same;
}

/* Copies on each device of a value that the loss's device alone has computed. */
static ValueId *wholes_from_there(Expander *x, ValueId v)
{
    ValueId *same;

    if (x->p->devices > 1)
        return to_devices(x, &op_Broadcast, NULL, 1, &x->there[v.i], v, ALL_DEVICES);
    if ((same = new_list(x, 1)))
        same[0] = x->there[v.i];
    return same;
}

static const ValueId *native_copies(Expander *x, ValueId v)
{
    if (!x->native[v.i] && value(x->g, v)->kind == V_INPUT)
        x->native[v.i] = copies_of_input(x, v);
    if (!x->native[v.i] && value(x->g, v)->kind == V_CONST) {
        ValueId *list = x->native[v.i] = new_list(x, x->p->devices);

        for (int d = 0; list && d < x->p->devices; d++)
            list[d] = v;
    }
    if (!x->native[v.i] && x->made_there[v.i])
        x->native[v.i] = x->t->value[v.i].kind == PL_S
                             ? to_parts(x, &op_Scatter, "axis", NULL, 1, &x->there[v.i], v, x->t->value[v.i])
                             : wholes_from_there(x, v);
    return x->native[v.i];
}

/* ---- to B ---- */

static const ValueId *split_copies(Expander *x, ValueId v, Place at);

/* The parts of v, when it is split, or is a sum that is reduced to pieces: *at receives how.  NULL: neither. */
static const ValueId *value_copies_parts_of(Expander *x, ValueId v, Place *at)
{
    *at = x->t->value[v.i];
    if (at->kind == PL_S)
        return native_copies(x, v);
    if (at->kind != PL_P || !x->t->early[v.i] || !x->t->pieces[v.i])
        return NULL;
    *at = place_early(x->t, v);
    return split_copies(x, v, *at);
}

static const ValueId *whole_copies(Expander *x, ValueId v)
{
    Place at = x->t->value[v.i];
    const ValueId *native, *parts;

    if (x->made_there[v.i] && at.kind != PL_B && !x->whole[v.i])
        x->whole[v.i] = wholes_from_there(x, v);
    if (x->whole[v.i])
        return x->whole[v.i];
    native = native_copies(x, v);
    if (at.kind == PL_B || !native)
        return native;
    if ((parts = value_copies_parts_of(x, v, &at)))
        x->whole[v.i] = value_copies_gather(x, v, parts, at, ALL_DEVICES);
    else if (at.kind == PL_P)
        x->whole[v.i] = reduce_to_devices(x, v);
    else
        x->whole[v.i] =
            x->p->devices > 1 ? to_devices(x, &op_Broadcast, NULL, 1, native, v, ALL_DEVICES) : x->native[v.i];
    return x->whole[v.i];
}

bool is_gathered(const Expander *x, ValueId v)
{
    return x->backward && value(x->g, v)->kind == V_TEMP && x->gathered[v.i];
}

/* The replicas of a device run in turn, each forward and then backward: a use is one of them.  Shared nodes run before
 * the first replica, or after the last. */
const ValueId *gathered_for(Expander *x, ValueId v, const Node *n, int r)
{
    const bool back = !x->p->once && x->backward[n->index];
    const int turn = x->p->once ? 0
                     : r >= 0   ? x->turns - (x->p->first_replica[x->p->device_of[r] + 1] - r)
                     : back     ? x->turns - 1
                                : 0;
    ValueId **of = &x->gathered[v.i][2 * turn + back];

    if (!*of)
        *of = value_copies_gather(x, v, x->native[v.i], x->t->value[v.i], ALL_DEVICES);
    return *of;
}

ValueId whole_there(Expander *x, ValueId v)
{
    if (!has_value(x->there[v.i]))
        x->there[v.i] = given_out(x, v);
    return x->there[v.i];
}

ValueId given_out(Expander *x, ValueId v)
{
    const int device = x->p->like[x->p->output_device];
    Place at = x->t->value[v.i];
    const ValueId *list, *parts;

    if (has_value(x->there[v.i]))
        return x->there[v.i];
    list = native_copies(x, v);
    parts = x->whole[v.i] ? NULL : value_copies_parts_of(x, v, &at);
    if (parts)
        parts = padded_parts(x, v, parts, at);
    if (parts) {
        list = value_copies_gather(x, v, parts, at, device);
        return list ? list[0] : NO_VALUE;
    }
    if (at.kind != PL_L)
        list = whole_copies(x, v);
    return list ? list[at.kind == PL_L ? 0 : device] : NO_VALUE;
}

const ValueId *own_parts(Expander *x, ValueId v, Place *at)
{
    *at = x->t->value[v.i];
    return at->kind == PL_S ? padded_parts(x, v, native_copies(x, v), *at) : NULL;
}

const ValueId *stacked(Expander *x, ValueId v)
{
    const ValueId *rows = copies_of(x, v, PLACE_L);

    return rows ? to_devices(x, &op_AllGather, ATTRS(INT("axis", 0)), x->p->replicas, rows, v, ALL_DEVICES) : NULL;
}

/* ---- to S ---- */

ValueId tensor_part(Expander *x, const char *name, const Tensor *t, Place at, int i)
{
    Shape s = piece_shape(&t->shape, at, i);
    bool flat = at.axis == AXIS_ELEMENTS;
    Tensor *part = flat ? ARENA_NEW(x->g->arena, Tensor, 1) : tensor_create(x->g->arena, t->dtype, &s);
    size_t inner = (size_t)(flat ? 1 : shape_count(&s, at.axis + 1, s.rank)) * dtype_size(t->dtype);
    int64_t rounds = (flat ? 1 : shape_count(&s, 0, at.axis)) * at.blocks,
            dim = (flat ? tensor_numel(t) : t->shape.dim[at.axis]) / at.blocks;
    size_t row = (size_t)split_count(at.split, dim, i) * inner, wide = (size_t)dim * inner,
           offset = (size_t)split_offset(at.split, dim, i) * inner;

    if (!part) {
        x->g->status = FAIL_NOMEM();
        return NO_VALUE;
    }
    if (flat) { /* the elements where they lie; a tensor of zeros has no data */
        const int64_t first = split_offset(at.split, tensor_numel(t), i);

        *part = (Tensor){ t->dtype, s, t->data ? (char *)t->data + (size_t)first * dtype_size(t->dtype) : NULL };
    }
    for (int64_t k = 0; row && !flat && k < rounds; k++)
        memcpy((char *)part->data + (size_t)k * row, (const char *)t->data + (size_t)k * wide + offset, row);
    return graph_add_const_nocopy(x->g, name, part);
}

ValueId const_part(Expander *x, ValueId v, Place at, int i)
{
    return tensor_part(x, value(x->g, v)->name, value(x->g, v)->init, at, i);
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
    if (n->op->same != SAME_SPREAD)
        return false;
    from = x->of[n->in[0].i].shape;
    lead = x->of[v.i].shape->rank - from->rank;
    return axis < lead || from->dim[axis - lead] == 1;
}

static ValueId repeated_part(Expander *x, ValueId v, Place at, int r)
{
    const Node *n = value(x->g, v)->producer;
    int d = x->p->device_of[r], shape_in = n->op->shape_in - 1;
    ValueId in[2] = { NO_VALUE };
    Shape s = local_shape(x, v, at, r);
    const bool own = x->t->value[v.i].kind == PL_L;
    const ValueId *data = n->n_in > 1 ? copies_of(x, n->in[0], own ? PLACE_L : PLACE_B) : NULL;
    Attr *attrs = ARENA_NEW(x->a, Attr, n->n_attr + 1);
    Node *made;

    if (!attrs || (n->n_in > 1 && !data)) {
        x->g->status = x->g->status ? x->g->status : FAIL_NOMEM();
        return NO_VALUE;
    }
    if (n->n_attr)
        memcpy(attrs, n->attr, (size_t)n->n_attr * sizeof *attrs);
    if (data) {
        in[0] = own_constant(x, n, 0, r);
        in[0] = has_value(in[0]) ? in[0] : data[own ? r : d];
    }
    in[shape_in] = emit_shape_const(x->g, &s);
    made = emit_copies(x, n->op, attrs, n->n_in, in, v, 1, &r, &d);
    return made ? made->out[0] : NO_VALUE;
}

/* Slices copy i from `whole`, the copies by device, or by replica if each has its own. */
static ValueId slice_part(Expander *x, ValueId v, const ValueId *whole, Place at, int i)
{
    const Shape *shape = whole_shape(x, v, at, i);
    bool flat = at.axis == AXIS_ELEMENTS, apart = at.blocks > 1 || (flat && shape->rank != 1);
    int64_t dim = flat ? shape_numel(shape) : shape->dim[at.axis] / at.blocks, from = split_offset(at.split, dim, i),
            to = from + split_count(at.split, dim, i), along = axis_apart(at);
    int r = replica_of(at, i), d = device_of(x, at, i);
    bool own = r >= 0 && x->t->value[v.i].kind == PL_L;
    Shape s = local_shape(x, v, at, i);
    ValueId in[4];
    Node *made;

    if (!whole)
        return NO_VALUE;
    in[0] = whole[own ? r : d];
    if (apart)
        in[0] = lay_apart(x, v, in[0], at, own ? r : -1, d);
    in[1] = emit_ints(x->g, 1, &from);
    in[2] = emit_ints(x->g, 1, &to);
    in[3] = emit_ints(x->g, 1, &along);
    made = emit_copies(x, &op_Slice, NULL, 4, in, v, 1, r < 0 ? NULL : &r, &d);
    if (!made)
        return NO_VALUE;
    return at.blocks > 1 ? reshape_copy(x, v, made->out[0], &s, r, d) : made->out[0];
}

static ValueId *make_parts(Expander *x, ValueId v, Place at)
{
    bool constant = value(x->g, v)->kind == V_CONST;
    PlaceKind kind = x->t->value[v.i].kind;
    bool own = !place_by_device(at) && kind == PL_L;
    bool repeated = !constant && !place_by_device(at) && (kind == PL_B || own) && made_in_parts(x, v, at.axis);
    const ValueId *whole = constant || repeated ? NULL : own ? native_copies(x, v) : whole_copies(x, v);
    ValueId *list = new_list(x, at.split->n);

    for (int i = 0; list && i < at.split->n && !x->g->status; i++)
        list[i] = copy_like(x, at, i) != i ? stand_in(x, v, at, i, list[copy_like(x, at, i)])
                  : constant               ? const_part(x, v, at, i)
                  : repeated               ? repeated_part(x, v, at, i)
                                           : slice_part(x, v, whole, at, i);
    return list;
}

static const ValueId *split_copies(Expander *x, ValueId v, Place at)
{
    const Place from = x->t->value[v.i];
    SplitCopies *s = x->split[v.i];
    bool turns; /* parts along one axis become parts along another, with no whole that they could be slices of */

    for (; s; s = s->next)
        if (place_eq(s->at, at))
            return s->part;
    if (!(s = ARENA_NEW(x->a, SplitCopies, 1))) {
        x->g->status = FAIL_NOMEM();
        return NULL;
    }
    s->at = at;
    if (from.kind == PL_P && at.blocks == 1) {
        s->part = reduce_to_parts(x, v, at);
    } else {
        turns = x->p->mix != MIX_GATHER && place_by_replica(from) && place_by_replica(at) && from.axis != at.axis &&
                !x->whole[v.i] && !x->made_there[v.i] && native_copies(x, v);
        s->part = turns ? turn(x, v, from, at) : make_parts(x, v, at);
    }
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

        if (replica_like(x->p, r) != r) {
            list[r] = list[replica_like(x->p, r)];
            continue;
        }
        list[r] = r && only_first ? emit_full(x->g, x->of[v.i].dtype, x->of[v.i].shape, 0) : whole[x->p->device_of[r]];
        if (x->g->n_node > before && !x->g->status) {
            x->g->node[before]->replica = r;
            x->g->node[before]->device = x->p->shown[x->p->device_of[r]];
            value(x->g, list[r])->device = x->g->node[before]->device;
        }
    }
    return whole ? list : NULL;
}

/* Each replica's own of a group of so many replicas, one below the other, on the devices that have the group. */
static const ValueId *grouped(Expander *x, ValueId v, int size)
{
    const ValueId *rows = native_copies(x, v);
    ValueId *list = rows ? new_list(x, x->p->replicas) : NULL;
    int *device = ARENA_NEW(x->once, int, x->p->devices);
    int64_t *ids = ARENA_NEW(x->once, int64_t, x->p->devices);

    for (int d = 0; d < x->p->devices && !x->g->status; d++)
        if (x->p->like[d] != d)
            x->g->status = FAIL(E_UNSUPPORTED, "--bn-group: one device stands for several here");
    for (int from = 0, to; list && device && ids && from < x->p->replicas && !x->g->status; from = to) {
        const int first = x->p->device_of[from];
        int n;
        Node *made;

        to = from + size < x->p->replicas ? from + size : x->p->replicas;
        n = x->p->device_of[to - 1] - first + 1;
        for (int k = 0; k < n; k++)
            ids[k] = device[k] = first + k;
        made = to - from == 1 ? NULL
                              : emit_copies(x, &op_AllGather, ATTRS(INT("axis", 0), INTS("devices", n, ids)), to - from,
                                            rows + from, v, n, NULL, device);
        for (int r = from; r < to && (made || to - from == 1); r++)
            list[r] = made ? made->out[x->p->device_of[r] - first] : rows[r];
    }
    return device && ids ? list : NULL;
}

const ValueId *copies_of(Expander *x, ValueId v, Place want)
{
    const ValueId *list;

    if (x->g->status)
        return NULL;
    if (want.kind == PL_B)
        list = whole_copies(x, v);
    else if (want.kind == PL_L && want.blocks)
        list = grouped(x, v, (int)want.blocks);
    else if (place_eq(x->t->value[v.i], want))
        list = native_copies(x, v);
    else if (want.kind == PL_S)
        list = split_copies(x, v, want);
    else
        list = per_replica(x, v, want.kind == PL_P);
    return x->g->status ? NULL : list;
}
