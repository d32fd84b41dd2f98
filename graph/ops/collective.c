/* Collectives: operators that move data between replicas and devices.  Each is one node, so the graph shows its inputs,
 * its outputs and their devices ("devices", one for each output, or for each copy of a tensor).
 * passes/partition/expand.c makes them after differentiation; no model contains them. */
#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/tensor/layout.h"
#include "graph/tensor/reduce_tree.h"

Exchange exchange_of(const Node *n)
{
    const Attr *tensors = node_attr(n, "tensors"), *axis = node_attr(n, "axis"), *cut = node_attr(n, "cut");
    Exchange e = { .axis = -1, .cut = -1 };
    int count;

    if (!n->op || !(n->op->flags & OPF_COLLECTIVE))
        return e;
    e.tensors = tensors && tensors->i <= n->n_in && tensors->i <= n->n_out ? (int)tensors->i : 1;
    e.parts = n->n_in / e.tensors;
    e.copies = n->n_out / e.tensors;
    e.device = node_ints(n, "devices", &e.n_device);
    e.sum = node_attr(n, "spans") != NULL;
    e.span = e.sum ? node_ints(n, "spans", &count) : NULL;
    e.split = node_attr(n, "counts") != NULL;
    e.joined = axis && (!e.split || cut);
    e.axis = axis ? (int)axis->i : -1;
    e.cut = cut ? (int)cut->i : e.split ? e.axis : -1;
    return e;
}

static Status check_parts(const Graph *g, const Node *n, const char *attr, int expected)
{
    int count;

    node_ints(n, attr, &count);
    if (count != expected)
        return FAIL(E_MODEL, "%s: '%s' has %d entries, expected %d", node_text(g, n), attr, count, expected);
    return ST_OK;
}

static Status check_same(const Graph *g, const Node *n, int from, int to)
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    TRY(infer_same_dtype(g, n, from, to));
    for (int i = from + 1; i < to; i++)
        if (!shape_eq(in_value(g, n, i)->shape, in_value(g, n, from)->shape))
            return FAIL(E_SHAPE, "%s: input %d is %s, expected %s", node_text(g, n), i,
                        shape_text(in_value(g, n, i)->shape, a), shape_text(in_value(g, n, from)->shape, b));
    return ST_OK;
}

/* Sets outputs [from, to) to pieces of `whole` along `axis`, with the sizes in "counts". */
static Status set_pieces(Graph *g, Node *n, DType t, const Shape *whole, int axis, int from, int to)
{
    int n_counts;
    const int64_t *counts = node_ints(n, "counts", &n_counts);
    int64_t left = whole->dim[axis];
    Shape part = *whole;

    TRY(check_parts(g, n, "counts", n->n_out));
    for (int i = from; i < to; i++) {
        if (counts[i] < 0 || counts[i] > left)
            return FAIL(E_SHAPE, "%s: counts do not add up to %lld", node_text(g, n), (long long)whole->dim[axis]);
        left -= part.dim[axis] = counts[i];
        set_out(g, n, i, t, &part);
    }
    if (left)
        return FAIL(E_SHAPE, "%s: counts do not add up to %lld", node_text(g, n), (long long)whole->dim[axis]);
    return ST_OK;
}

/* The same along attribute "axis". */
static Status set_split_outputs(Graph *g, Node *n, const Value *whole, int from, int to)
{
    TRY(infer_axis(g, n, whole->shape->rank));
    return set_pieces(g, n, whole->dtype, whole->shape, (int)node_int(n, "axis"), from, to);
}

/* Checks a node of several tensors of one type; each has *parts inputs and *copies outputs, one for each device. */
static Status check_tensors(const Graph *g, const Node *n, int *parts, int *copies)
{
    int64_t tensors = node_int(n, "tensors");

    node_ints(n, "devices", copies);
    if (tensors < 1 || n->n_in % tensors || n->n_out != tensors * *copies)
        return FAIL(E_MODEL, "%s: %d inputs and %d outputs, expected %lld tensors of equal parts on %d devices",
                    node_text(g, n), n->n_in, n->n_out, (long long)tensors, *copies);
    *parts = (int)(n->n_in / tensors);
    return infer_same_dtype(g, n, 0, n->n_in);
}

static Status check_spans(const Graph *g, const Node *n, int parts)
{
    int count, *program;
    const int64_t *spans = node_ints(n, "spans", &count);
    Status st;

    TRY(check_parts(g, n, "spans", 2 * parts));
    if (!(program = ARENA_NEW(g->arena, int, 2 * parts)))
        return FAIL_NOMEM();
    st = reduce_tree_program(program, spans, parts);
    return st ? status_prefix(st, "%s", node_text(g, n)) : ST_OK;
}

/* ---- Scatter ---- */

static Status infer_scatter(Graph *g, Node *n)
{
    TRY(check_parts(g, n, "devices", n->n_out));
    return set_split_outputs(g, n, in_value(g, n, 0), 0, n->n_out);
}

/* Pieces of a tensor are contiguous if all axes before the split one have size 1. */
static int64_t view_of_scatter(const Graph *g, const Node *n, int o)
{
    const Value *x = in_value(g, n, 0);
    const int axis = (int)node_int(n, "axis");
    Shape part = *x->shape;
    int64_t at = 0;
    int n_counts;
    const int64_t *counts = node_ints(n, "counts", &n_counts);

    if (shape_count(x->shape, 0, axis) != 1)
        return -1;
    for (int i = 0; i < o && i < n_counts; i++) {
        part.dim[axis] = counts[i];
        at += (int64_t)layout_bytes(x->dtype, x->layout, &part);
    }
    return at;
}

DEFINE_OP(Scatter, .flops_of = FLOPS_OF_NOTHING, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 1, .out_min = 1,
          .out_max = -1, .flags = OPF_COLLECTIVE,
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .range = R_AXIS },
                                       { "counts", A_INTS, .rule = ATTR_REQUIRED, .range = R_COUNTS },
                                       { "devices", A_INTS, .rule = ATTR_REQUIRED, .range = R_DEVICES },
                                       { 0 } },
          .infer = infer_scatter, .view_of = view_of_scatter,
          .doc = "output r is replica r's part of the input: counts[r] elements along axis");

/* ---- Broadcast ---- */

static Status infer_broadcast_op(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);

    TRY(check_parts(g, n, "devices", n->n_out));
    for (int i = 0; i < n->n_out; i++)
        set_out(g, n, i, x->dtype, x->shape);
    return ST_OK;
}

static int64_t view_of_broadcast(const Graph *g, const Node *n, int o)
{
    (void)g, (void)n, (void)o;
    return 0;
}

DEFINE_OP(Broadcast, .flops_of = FLOPS_OF_NOTHING, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 1,
          .out_min = 1, .out_max = -1, .flags = OPF_COLLECTIVE,
          .attrs = (const AttrDecl[]){ { "devices", A_INTS, .rule = ATTR_REQUIRED, .range = R_DEVICES }, { 0 } },
          .infer = infer_broadcast_op, .view_of = view_of_broadcast, .doc = "the input on every device");

/* ---- Copy ---- */

static Status infer_copy(Graph *g, Node *n) { return infer_like(g, n, 0); }

DEFINE_OP(Copy, .flags = OPF_TRANSFER, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 1, .out_min = 1,
          .out_max = 1, .infer = infer_copy,
          .doc = "the input in the memory of the node's device; the input lies on the host's side of that device, or "
                 "the other way "
                 "round (passes/plan/place_host.c)");

/* ---- AllReduce ---- */

static Status infer_all_reduce(Graph *g, Node *n)
{
    int copies, parts;

    TRY(check_tensors(g, n, &parts, &copies));
    TRY(check_spans(g, n, parts));
    for (int t = 0; t < n->n_in / parts; t++) {
        TRY(check_same(g, n, t * parts, (t + 1) * parts));
        for (int d = 0; d < copies; d++)
            set_out(g, n, t * copies + d, in_value(g, n, t * parts)->dtype, in_value(g, n, t * parts)->shape);
    }
    return ST_OK;
}

/* A device reads each block of all parts before it writes the block of sums, so a sum may overwrite any part of its
 * tensor. */
static bool sum_overwrites(const Graph *g, const Node *n, int o, int j)
{
    const Exchange e = exchange_of(n);

    (void)g;
    return exchange_tensor(&e, o) == j / e.parts;
}

DEFINE_OP(
    AllReduce, .layout = LAYOUT_EACH, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = -1, .out_min = 1,
    .out_max = -1, .dtypes = DTYPES_FLOAT | DTYPES_INT, .flags = OPF_COLLECTIVE,
    .attrs = (const AttrDecl[]){ { "spans", A_INTS, .rule = ATTR_REQUIRED, .range = R_COUNTS },
                                 { "tensors", A_INT, .i = 1, .range = R_POSITIVE },
                                 { "devices", A_INTS, .rule = ATTR_REQUIRED, .range = R_DEVICES },
                                 { 0 } },
    .infer = infer_all_reduce, .overwrites = sum_overwrites,
    .doc = "the sum of partial values on every device, added by the tree of graph/tensor/reduce_tree.h.  Input t*parts "
           "+ i is the sum "
           "over replicas [spans[2i], spans[2i+1]) of tensor t; output t*devices + d is tensor t on device d");

/* ---- AllGather ---- */

/* The shape of inputs [from, to) joined along attribute "axis". */
static Status joined_shape(Shape *out, const Graph *g, const Node *n, int from, int to)
{
    const int64_t axis = node_int(n, "axis");
    Shape whole = *in_value(g, n, from)->shape;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (axis >= whole.rank)
        return FAIL(E_SHAPE, "%s: %s has no axis %d", node_text(g, n), shape_text(&whole, a), (int)axis);
    for (int i = from + 1; i < to; i++) {
        Shape part = *in_value(g, n, i)->shape, like = part;

        if (part.rank == whole.rank)
            like.dim[axis] = whole.dim[axis];
        if (!shape_eq(&like, &whole))
            return FAIL(E_SHAPE, "%s: part %d is %s, expected like %s but for axis %d", node_text(g, n), i,
                        shape_text(&part, a), shape_text(&whole, b), (int)axis);
        whole.dim[axis] += part.dim[axis];
    }
    *out = whole;
    return ST_OK;
}

static Status infer_all_gather(Graph *g, Node *n)
{
    int parts, copies;
    Shape whole;

    TRY(check_tensors(g, n, &parts, &copies));
    TRY(infer_axis(g, n, in_value(g, n, 0)->shape->rank));
    for (int t = 0; t < n->n_in / parts; t++) {
        TRY(joined_shape(&whole, g, n, t * parts, (t + 1) * parts));
        for (int i = 0; i < copies; i++)
            set_out(g, n, t * copies + i, in_value(g, n, 0)->dtype, &whole);
    }
    return ST_OK;
}

DEFINE_OP(AllGather, .flops_of = FLOPS_OF_NOTHING, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = -1,
          .out_min = 1, .out_max = -1, .flags = OPF_COLLECTIVE,
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .range = R_AXIS },
                                       { "tensors", A_INT, .i = 1, .range = R_POSITIVE },
                                       { "devices", A_INTS, .rule = ATTR_REQUIRED, .range = R_DEVICES },
                                       { 0 } },
          .infer = infer_all_gather,
          .doc = "the replicas' parts joined along axis, on every device of the list (one device: a gather).  Input "
                 "t*parts + i is part i of tensor t; output t*devices + d is tensor t on device d");

/* ---- AllToAll ---- */

static Status infer_all_to_all(Graph *g, Node *n)
{
    int64_t cut = node_int(n, "cut");
    Shape whole;
    char text[SHAPE_TEXT];

    TRY(check_parts(g, n, "devices", n->n_out));
    TRY(infer_same_dtype(g, n, 0, n->n_in));
    TRY(infer_axis(g, n, in_value(g, n, 0)->shape->rank));
    TRY(joined_shape(&whole, g, n, 0, n->n_in));
    if (cut < 0)
        node_set_int(g, n, "cut", cut += whole.rank);
    if (cut < 0 || cut >= whole.rank || cut == node_int(n, "axis"))
        return FAIL(E_SHAPE, "%s: pieces along axis %d of %s cannot become pieces along axis %d", node_text(g, n),
                    (int)node_int(n, "axis"), shape_text(&whole, text), (int)cut);
    return set_pieces(g, n, in_value(g, n, 0)->dtype, &whole, (int)cut, 0, n->n_out);
}

DEFINE_OP(AllToAll, .flops_of = FLOPS_OF_NOTHING, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = -1,
          .out_min = 1, .out_max = -1, .flags = OPF_COLLECTIVE,
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .range = R_AXIS },
                                       { "cut", A_INT, .rule = ATTR_REQUIRED, .range = R_AXIS },
                                       { "counts", A_INTS, .rule = ATTR_REQUIRED, .range = R_COUNTS },
                                       { "devices", A_INTS, .rule = ATTR_REQUIRED, .range = R_DEVICES },
                                       { 0 } },
          .infer = infer_all_to_all,
          .doc = "the replicas' parts, pieces along axis, dealt out anew: output r is counts[r] elements along the "
                 "axis `cut` of what they are together");

/* ---- ReduceScatter ---- */

static Status infer_reduce_scatter(Graph *g, Node *n)
{
    int parts, copies;

    TRY(check_tensors(g, n, &parts, &copies));
    TRY(check_spans(g, n, parts));
    for (int t = 0; t < n->n_in / parts; t++) {
        TRY(check_same(g, n, t * parts, (t + 1) * parts));
        if (node_int(n, "axis") >= in_value(g, n, t * parts)->shape->rank)
            return FAIL(E_SHAPE, "%s: axis %d of tensor %d", node_text(g, n), (int)node_int(n, "axis"), t);
        TRY(set_split_outputs(g, n, in_value(g, n, t * parts), t * copies, (t + 1) * copies));
    }
    return ST_OK;
}

DEFINE_OP(ReduceScatter, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = -1, .out_min = 1, .out_max = -1,
          .dtypes = DTYPES_FLOAT | DTYPES_INT, .flags = OPF_COLLECTIVE,
          .attrs = (const AttrDecl[]){ { "spans", A_INTS, .rule = ATTR_REQUIRED, .range = R_COUNTS },
                                       { "axis", A_INT, .range = R_AXIS },
                                       { "tensors", A_INT, .i = 1, .range = R_POSITIVE },
                                       { "counts", A_INTS, .rule = ATTR_REQUIRED, .range = R_COUNTS },
                                       { "devices", A_INTS, .rule = ATTR_REQUIRED, .range = R_DEVICES },
                                       { 0 } },
          .infer = infer_reduce_scatter,
          .doc = "the sum of partial values as in AllReduce, of which each replica, or device, gets a piece: output "
                 "t*devices + r is counts[t*devices + r] elements along axis of tensor t");
