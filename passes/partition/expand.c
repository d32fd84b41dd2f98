/* expand: from one graph and its placements to the graph of all replicas, in place: copies of every node and value are
 * appended, then the originals are dropped.
 *
 * A node all of whose values are B is copied once per device (state lives once per device), any other once per replica,
 * with local shapes, reading copies in the placement its rule asked for.  Consumers come after producers, so when a
 * node is copied the copies of its inputs exist.  Constants are shared: they are the same everywhere and never written.
 *
 * Where a consumer needs another placement than the producer has, a collective or a slice appears; each is made once
 * and shared by all consumers.  Sums follow the tree of graph/reduce_tree.h.  Subtrees whose replicas share a device
 * are added there by plain Add nodes, so only one partial sum per such subtree crosses devices, and the bits are those
 * of any other mapping. */
#include "passes/partition/expand.h"

#include <string.h>

#include "graph/emit.h"
#include "graph/reduce_tree.h"

typedef struct SplitCopies SplitCopies;
struct SplitCopies {
    Place at;
    ValueId *part;
    SplitCopies *next;
};

typedef struct {
    Graph *g;
    Arena *a; /* scratch */
    const Partition *p;
    const Placements *t;
    uint32_t n_value;    /* of the unpartitioned graph: the tables' size */
    ValueId **native;    /* by value id: copies as t->value says, [devices] for B, else [replicas]; NULL: not yet */
    ValueId **whole;     /* by value id: the copies [devices] of a value that is not B, once somebody needs them */
    SplitCopies **split; /* by value id: parts [replicas] of a value that is not split that way */
} Expander;

/* ---- one node: a replica's or device's copy, or a new one between copies of a value ---- */

/* The shape of replica r's copy of v at placement `at`; r < 0: of a device's copy. */
static Shape local_shape(const Expander *x, ValueId v, Place at, int r)
{
    Shape s = value(x->g, v)->shape;

    if (at.kind == PL_S && r >= 0)
        s.dim[at.axis] = part_count(x->p, s.dim[at.axis], r);
    return s;
}

static const char *copy_name(const Expander *x, ValueId v, int r, int d)
{
    const char *base = value_logical_name(value(x->g, v));
    const char *name = r >= 0 ? arena_printf(x->a, "%s@r%d", base, r) : arena_printf(x->a, "%s@d%d", base, d);

    return name ? name : "";
}

static void mark_copy(const Expander *x, ValueId copy, ValueId of, int r, int d)
{
    Value *v = value(x->g, copy);

    v->replica = r;
    v->device = d;
    v->logical = value_logical_name(value(x->g, of));
}

/* Appends a node whose outputs are copies of v: for output i on device device[i]; replica[i] >= 0 names "v@r1", else
 * "v@d0". */
static Node *emit_copies(Expander *x, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in, ValueId v,
                         int n_out, const int *replica, const int *device)
{
    const char **names = ARENA_NEW(x->a, const char *, n_out);
    Node *n;

    if (x->g->status)
        return NULL;
    if (!names) {
        x->g->status = FAIL_NOMEM();
        return NULL;
    }
    for (int i = 0; i < n_out; i++)
        names[i] = copy_name(x, v, replica ? replica[i] : -1, device[i]);
    if (!(n = graph_add_node(x->g, op, value_logical_name(value(x->g, v)), attrs, n_in, in, n_out, names)))
        return NULL;
    if (!(op->flags & OPF_COLLECTIVE)) {
        n->replica = replica ? replica[0] : -1;
        n->device = device[0];
    }
    for (int i = 0; i < n_out; i++)
        mark_copy(x, n->out[i], v, replica ? replica[i] : -1, device[i]);
    if (!(x->g->status = node_normalise(x->g, n)))
        x->g->status = node_infer(x->g, n);
    return x->g->status ? NULL : n;
}

/* The constant input that holds the output's shape, rewritten to the local size. */
static void set_local_shape(Expander *x, const Node *of, Node *n, int r)
{
    Shape s = local_shape(x, of->out[0], x->t->value[of->out[0].i], r);

    node_set_input(x->g, n, n->op->shape_in - 1, emit_shape_const(x->g, &s));
    if (node_attr(n, "allowzero"))
        node_set_int(x->g, n, "allowzero", 1); /* a part may be empty: 0 means none, not "as the input" */
}

/* Random numbers are keyed by the position in the whole value, wherever the part is computed. */
static Status set_random_key(Expander *x, const Node *of, Node *n, int r)
{
    Place at = x->t->value[of->out[0].i];
    int64_t dim = value(x->g, of->out[0])->shape.dim[at.axis];

    if (!node_attr(n, "split_axis"))
        return FAIL(E_UNSUPPORTED, "%s: its random numbers cannot be drawn in parts", node_text(x->g, of));
    node_set_int(x->g, n, "split_axis", at.axis);
    node_set_int(x->g, n, "split_offset", part_offset(x->p, dim, r));
    node_set_int(x->g, n, "split_dim", dim);
    return x->g->status;
}

static Status check_outputs(const Expander *x, const Node *of, const Node *n, int r)
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    for (int i = 0; i < n->n_out; i++) {
        const Value *global, *local;
        Shape expected;

        if (!has_value(of->out[i]))
            continue;
        global = value(x->g, of->out[i]);
        local = value(x->g, n->out[i]);
        expected = local_shape(x, of->out[i], x->t->value[of->out[i].i], r);
        if (local->dtype != global->dtype || !shape_eq(&local->shape, &expected))
            return FAIL(E_UNSUPPORTED, "%s bakes the batch size: replica %d's output %d is %s, expected %s",
                        node_text(x->g, of), r, i, shape_text(&local->shape, a), shape_text(&expected, b));
    }
    return ST_OK;
}

static Node *append_copy(Expander *x, const Node *n, const ValueId *in, int r, int d)
{
    const char **names = ARENA_NEW(x->a, const char *, n->n_out);
    Node *copy;

    if (!names) {
        x->g->status = FAIL_NOMEM();
        return NULL;
    }
    for (int i = 0; i < n->n_out; i++)
        names[i] = has_value(n->out[i]) ? copy_name(x, n->out[i], r, d) : "";
    if (!(copy = graph_add_node(x->g, n->op, n->name, NULL, n->n_in, in, n->n_out, names)))
        return NULL;
    for (int i = 0; i < n->n_attr; i++)
        node_set_attr(x->g, copy, &n->attr[i]);
    copy->replica = r;
    copy->device = d;
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]))
            mark_copy(x, copy->out[i], n->out[i], r, d);
    return copy;
}

/* A copy of n for replica r (or, r < 0, for device d) that reads in[]. */
static Node *clone_node(Expander *x, const Node *n, const ValueId *in, int r, int d)
{
    bool split = r >= 0 && n->n_out && has_value(n->out[0]) && x->t->value[n->out[0].i].kind == PL_S;
    Node *copy = x->g->status ? NULL : append_copy(x, n, in, r, d);

    if (!copy)
        return NULL;
    if (split && n->op->shape_in)
        set_local_shape(x, n, copy, r);
    if (split && (n->op->flags & OPF_RANDOM) && !x->g->status)
        x->g->status = set_random_key(x, n, copy, r);
    if (!x->g->status && (x->g->status = node_infer(x->g, copy)))
        status_prefix(x->g->status, "part of replica %d", r);
    if (!x->g->status)
        x->g->status = check_outputs(x, n, copy, r);
    return x->g->status ? NULL : copy;
}

/* ---- conversions ---- */

/* The copies of v in the placement `want`: [devices] for B, else [replicas].  NULL after a failure, in g->status. */
static const ValueId *copies_of(Expander *x, ValueId v, Place want);

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
    return list_of(x, emit_copies(x, op, list, n_in, in, v, n, NULL, devices));
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
    return list_of(x, emit_copies(x, op, list, n_in, in, v, n, replica, x->p->device_of));
}

/* ---- splits in blocks ---- */

/* A copy of v (replica r's part, or device d's whole) under the shape in which the blocks of `at` are an axis of their
 * own, in front of at.axis; or back under its own. */
static ValueId reshape_copy(Expander *x, ValueId v, ValueId copy, Place at, bool apart, int r, int d)
{
    Shape s = value(x->g, copy)->shape, own = local_shape(x, v, at, r);
    ValueId in[2] = { copy, NO_VALUE };
    Node *made;

    if (apart) {
        memmove(&s.dim[at.axis + 1], &s.dim[at.axis], (size_t)(s.rank++ - at.axis) * sizeof *s.dim);
        s.dim[at.axis] = at.blocks;
        s.dim[at.axis + 1] /= at.blocks;
    }
    in[1] = emit_shape_const(x->g, apart ? &s : &own);
    made = emit_copies(x, &op_Reshape, ATTRS(INT("allowzero", 1)), 2, in, v, 1, r < 0 ? NULL : &r, &d);
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
    sum = emit_copies(x, &op_Add, NULL, 2, in, v, 1, NULL, &device);
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

/* The whole value on device 0 alone. */
static ValueId on_first(Expander *x, ValueId v)
{
    Place at = x->t->value[v.i];
    const ValueId *list = native_copies(x, v);

    if (at.kind == PL_S && list && !x->whole[v.i])
        list = gather(x, v, list, at, 1);
    else if (at.kind != PL_L)
        list = whole_copies(x, v);
    return list ? list[0] : NO_VALUE;
}

/* The replicas' rows of a value placed L, stacked, [devices]. */
static const ValueId *stacked(Expander *x, ValueId v)
{
    const ValueId *rows = copies_of(x, v, PLACE_L);

    return rows ? to_devices(x, &op_AllGather, ATTRS(INT("axis", 0)), x->p->replicas, rows, v, x->p->devices) : NULL;
}

/* ---- to S ---- */

static ValueId const_part(Expander *x, ValueId v, Place at, int r)
{
    const Tensor *t = value(x->g, v)->init;
    Shape s = local_shape(x, v, at, r);
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
    Shape s = local_shape(x, v, at, r);
    const ValueId *data = n->n_in > 1 ? copies_of(x, n->in[0], PLACE_B) : NULL;
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
    made = emit_copies(x, n->op, attrs, n->n_in, in, v, 1, &r, &d);
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
    made = emit_copies(x, &op_Slice, NULL, 4, in, v, 1, &r, &d);
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

static const ValueId *copies_of(Expander *x, ValueId v, Place want)
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

static Status fail_or_nomem(const Expander *x) { return x->g->status ? x->g->status : FAIL_NOMEM(); }

/* ---- state ---- */

static ValueId state_copy(Expander *x, ValueId v, const char *logical, bool first, int r, int d)
{
    const Value *of = value(x->g, v);
    const char *name = r >= 0 ? arena_printf(x->a, "%s@r%d", logical, r) : arena_printf(x->a, "%s@d%d", logical, d);
    ValueId copy;
    Value *c;

    if (!name)
        return NO_VALUE;
    if (first) {
        graph_rename(x->g, v, name);
        copy = v;
    } else {
        copy = graph_add_const_nocopy(x->g, name, of->init);
    }
    if (x->g->status)
        return NO_VALUE;
    c = value(x->g, copy);
    c->kind = V_STATE;
    c->trainable = of->trainable;
    c->transient = of->transient;
    c->layout = of->layout;
    c->partial = of->partial;
    c->replica = r;
    c->device = d;
    c->logical = logical;
    return copy;
}

/* Mirrored: one copy per device, all started alike; a partial sum has one per replica. */
static Status expand_state(Expander *x, ValueId v)
{
    bool partial = value(x->g, v)->partial;
    int n = partial ? x->p->replicas : x->p->devices;
    const char *logical = value(x->g, v)->name;

    if (!(x->native[v.i] = ARENA_NEW(x->a, ValueId, n)))
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++) {
        x->native[v.i][i] = state_copy(x, v, logical, i == 0, partial ? i : -1, partial ? x->p->device_of[i] : i);
        if (!has_value(x->native[v.i][i]))
            return fail_or_nomem(x);
    }
    return ST_OK;
}

/* ---- nodes ---- */

static bool runs_per_replica(const Expander *x, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && x->t->value[n->out[i].i].kind != PL_B)
            return true;
    for (int i = 0; i < n->n_in; i++)
        if (has_value(n->in[i]) && x->t->want[n->index][i].kind != PL_B && !(n->op->flags & OPF_STACKS_L))
            return true;
    return false;
}

static Status gather_inputs(Expander *x, const Node *n, bool per_replica, const ValueId **lists)
{
    for (int i = 0; i < n->n_in; i++) {
        Place want = x->t->want[n->index][i];

        if (!has_value(n->in[i]))
            continue;
        lists[i] = want.kind == PL_L && !per_replica ? stacked(x, n->in[i]) : copies_of(x, n->in[i], want);
        if (!lists[i])
            return fail_or_nomem(x);
    }
    return ST_OK;
}

/* Output o of the copies [n] in its placement: a B output of copies per replica is taken from each device's first. */
static Status record_output(Expander *x, const Node *n, Node *const *copy, bool per_replica, int o)
{
    ValueId v = n->out[o];
    bool by_device = x->t->value[v.i].kind == PL_B;
    int count = by_device ? x->p->devices : x->p->replicas;

    if (!(x->native[v.i] = ARENA_NEW(x->a, ValueId, count)))
        return FAIL_NOMEM();
    for (int i = 0; i < count; i++)
        x->native[v.i][i] = copy[by_device && per_replica ? x->p->first_replica[i] : i]->out[o];
    return ST_OK;
}

static Status expand_one(Expander *x, const Node *n)
{
    bool per_replica = runs_per_replica(x, n);
    int count = per_replica ? x->p->replicas : x->p->devices;
    const ValueId **lists = ARENA_NEW(x->a, const ValueId *, n->n_in);
    ValueId *in = ARENA_NEW(x->a, ValueId, n->n_in);
    Node **copy = ARENA_NEW(x->a, Node *, count);

    if (!lists || !in || !copy)
        return FAIL_NOMEM();
    TRY(gather_inputs(x, n, per_replica, lists));
    for (int k = 0; k < count; k++) {
        int d = per_replica ? x->p->device_of[k] : k;

        for (int i = 0; i < n->n_in; i++)
            in[i] = !lists[i] ? NO_VALUE : lists[i][x->t->want[n->index][i].kind == PL_B ? d : k];
        if (!(copy[k] = clone_node(x, n, in, per_replica ? k : -1, d)))
            return fail_or_nomem(x);
    }
    for (int o = 0; o < n->n_out; o++)
        if (has_value(n->out[o])) {
            TRY(record_output(x, n, copy, per_replica, o));
            if (x->t->early[n->out[o].i] && !copies_of(x, n->out[o], PLACE_B))
                return fail_or_nomem(x);
        }
    return ST_OK;
}

/* ---- the rest ---- */

static Status expand_updates(Expander *x)
{
    Graph *g = x->g;
    int n = g->n_update;
    Update *old = arena_memdup(x->a, g->update, (size_t)n * sizeof *old);

    if (n && !old)
        return FAIL_NOMEM();
    g->n_update = 0;
    for (int i = 0; i < n; i++) {
        Place at = x->t->value[old[i].state.i];
        const ValueId *next = copies_of(x, old[i].next, at), *state = x->native[old[i].state.i];

        if (!next)
            return fail_or_nomem(x);
        for (int k = 0; k < (at.kind == PL_B ? x->p->devices : x->p->replicas); k++)
            graph_add_update(g, state[k], next[k]);
    }
    return g->status;
}

static Status expand_outputs(Expander *x)
{
    for (int i = 0; i < x->g->n_output; i++) {
        ValueId v = on_first(x, x->g->output[i].value);

        if (!has_value(v))
            return fail_or_nomem(x);
        x->g->output[i].value = v;
    }
    return ST_OK;
}

Status expand_graph(Graph *g, const Partition *p, const Placements *t, Arena *a)
{
    Expander x = { .g = g, .a = a, .p = p, .t = t, .n_value = g->n_value };
    uint32_t n_old = g->n_node;

    x.native = ARENA_NEW(a, ValueId *, x.n_value);
    x.whole = ARENA_NEW(a, ValueId *, x.n_value);
    x.split = ARENA_NEW(a, SplitCopies *, x.n_value);
    if (!x.native || !x.whole || !x.split)
        return FAIL_NOMEM();
    for (uint32_t i = 1; i < x.n_value; i++)
        if (g->value[i]->kind == V_STATE)
            TRY(expand_state(&x, (ValueId){ i }));
    for (uint32_t i = 0; i < n_old; i++)
        if (g->node[i]->op)
            TRY(expand_one(&x, g->node[i]));
    TRY(expand_updates(&x));
    TRY(expand_outputs(&x));
    for (uint32_t i = 0; i < n_old; i++)
        if (g->node[i]->op)
            graph_remove(g, g->node[i]);
    return g->status;
}
