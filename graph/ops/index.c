/* Gather, GatherElements, GatherND, and their gradients, which scatter and add. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ir/traced_calls.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/scatter.gen.h"
#include "graph/ops/tuples.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"

static Status index_check_indices(const Graph *g, const Node *n, int i)
{
    DType t = in_value(g, n, i)->dtype;

    if (t != DT_INT64 && t != DT_INT32)
        return FAIL(E_SHAPE, "%s: indices are %s, expected int32 or int64", node_text(g, n), dtype_name(t));
    return ST_OK;
}

/* ---- Gather ---- */

static Status infer_gather(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    const Shape *ix = in_value(g, n, 1)->shape;
    Shape y = { 0 };
    int axis;

    TRY(index_check_indices(g, n, 1));
    TRY(infer_axis(g, n, x->shape->rank));
    axis = (int)node_int(n, "axis");
    if (x->shape->rank - 1 + ix->rank > MAX_RANK)
        return FAIL(E_SHAPE, "%s: more than %d dimensions", node_text(g, n), MAX_RANK);
    if (x->shape->dim[axis] == 0 && shape_numel(ix) > 0)
        return FAIL(E_SHAPE, "%s: indices into the empty axis %d", node_text(g, n), axis);
    for (int i = 0; i < axis; i++)
        y.dim[y.rank++] = x->shape->dim[i];
    for (int i = 0; i < ix->rank; i++)
        y.dim[y.rank++] = ix->dim[i];
    for (int i = axis + 1; i < x->shape->rank; i++)
        y.dim[y.rank++] = x->shape->dim[i];
    set_out(g, n, 0, x->dtype, &y);
    return g->status;
}

static Status grad_gather(Grad *gr)
{
    int64_t axis = node_int(gr->node, "axis");
    const Attr *attrs = ATTRS(INT("axis", axis), INT("dim", grad_in_value(gr, 0)->shape->dim[axis]));

    grad_set_narrow(gr, 0, EMIT(gr->g, GatherGrad, attrs, grad_dout_wide(gr, 0), grad_in(gr, 1)));
    return gr->g->status;
}

/* Is a constant of the form i, i + 1, ... within [0, d)?  Negative numbers count from the end. */
static bool counts_on(const Tensor *ix, int64_t d, int64_t *first)
{
    int64_t n = ix ? tensor_numel(ix) : 0;

    if (!n)
        return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = tensor_int(ix, i);

        if (at < -d || at >= d)
            return false;
        at += at < 0 ? d : 0;
        if (!i)
            *first = at;
        if (at != *first + i)
            return false;
    }
    return *first >= 0 && n <= d - *first;
}

/* Lowers one index, or consecutive indices, to a Slice, whose gradient adds nothing up, and a Reshape, along which a
 * batch can be split.  Indices of the whole axis (exporters read a flattened batch [B*T] at b * T + t) need no Slice.
 */
static Status lower_gather(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *y = value(g, n->out[0])->shape;
    const Tensor *ix = value_const(g, n->in[1]);
    int64_t axis = node_int(n, "axis"), d = x->dim[axis], first = 0;
    ValueId part = n->in[0];

    if (!shape_known(y) || !counts_on(ix, d, &first))
        return ST_OK;
    if (tensor_numel(ix) < d)
        part = emit_slice(g, part, axis, first, first + tensor_numel(ix));
    if (ix->shape.rank == 0)
        part = EMIT(g, Squeeze, NULL, part, emit_ints(g, 1, &axis));
    else if (!g->status)
        part = emit_reshape(g, part, y);
    graph_replace(g, n->out[0], part);
    return g->status;
}

/* A whole table read at split indices (an embedding) gives a split result.  A table that is split along another axis
 * needs whole indices. */
static Status place_gather(Placement *p)
{
    int axis = (int)node_int(p->node, "axis"), rank_ix = in_value(p->g, p->node, 1)->shape->rank;
    Place x = p->in[0], ix = p->in[1];

    if (x.kind == PL_S && (x.axis == axis || ix.kind == PL_S)) {
        place_mixes(p, "it picks samples of the batch");
        p->in[0] = x = PLACE_B;
    }
    if (ix.kind == PL_P)
        p->in[1] = ix = PLACE_B;
    if (x.kind == PL_P && ix.kind != PL_B)
        p->in[0] = x = PLACE_B;
    if (ix.kind == PL_S)
        place_set_all(p, PLACE_S(axis + ix.axis));
    else if (x.kind == PL_S) {
        p->in[1] = PLACE_B;
        place_set_all(p, PLACE_S(x.axis < axis ? x.axis : x.axis + rank_ix - 1));
    } else
        place_set_all(p, ix.kind == PL_L ? PLACE_L : x);
    return ST_OK;
}

static const AttrDecl axis_attr[] = { { "axis", A_INT, .range = R_AXIS }, { 0 } };

static bool takes_rows_gather(const Graph *g, const Node *n, int axis, RowsTaken *out)
{
    int64_t along = node_int(n, "axis");

    *out = (RowsTaken){ .list_rank = in_value(g, n, 1)->shape->rank, .width = 1 };
    return axis == (along < 0 ? along + in_value(g, n, 0)->shape->rank : along);
}

/* Row `padding_idx` of PyTorch's Embedding gets no gradient.  Only the traced call has it; ONNX's Gather does not. */
static Status train_gather(Graph *g, Node *n, const TrainMode *mode)
{
    const Value *table = in_value(g, n, 0);
    double padding;
    ValueId y, stopped, row;

    if (!mode->batch || node_int(n, "axis") || !call_is(n->call, "aten.embedding") ||
        !call_number(n->call, 2, &padding) || padding < 0 || (table->kind == V_STATE && !table->trainable))
        return ST_OK;
    y = EMIT(g, Gather, NULL, n->in[0], n->in[1]);
    stopped = EMIT(g, StopGradient, NULL, y);
    row = EMIT(g, Equal, NULL, n->in[1], emit_scalar(g, in_value(g, n, 1)->dtype, padding));
    row = EMIT(g, Unsqueeze, NULL, row, emit_ints(g, 1, (const int64_t[]){ -1 }));
    graph_replace(g, n->out[0], EMIT(g, Where, NULL, row, stopped, y));
    return g->status;
}

DEFINE_OP(Gather, .moves = 1, .flags = OPF_SELECTS, .takes_rows = takes_rows_gather, .blocks = BLOCKS_PASS,
          .param_in = 1, .since = 13, .from = 1, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1,
          .attrs = axis_attr, .infer = infer_gather, .grad = grad_gather, .lower = lower_gather, .place = place_gather,
          .index_range = index_range_axis, .train = train_gather, .doc = "slices of x picked by indices along axis");

static Status infer_gather_grad(Graph *g, Node *n)
{
    const Value *dy = in_value(g, n, 0);
    const Shape *ix = in_value(g, n, 1)->shape;
    int64_t axis = node_int(n, "axis"), rank = dy->shape->rank - ix->rank + 1;
    Shape x = { 0 };

    TRY(index_check_indices(g, n, 1));
    if (rank < 1 || axis < 0 || axis >= rank || node_int(n, "dim") < 0)
        return FAIL(E_SHAPE, "%s: axis %lld of rank %lld", node_text(g, n), (long long)axis, (long long)rank);
    for (int i = 0; i < ix->rank; i++)
        if (dy->shape->dim[axis + i] != ix->dim[i])
            return FAIL(E_SHAPE, "%s: dy does not have the dimensions of the indices", node_text(g, n));
    for (int i = 0; i < rank; i++)
        x.dim[x.rank++] = i == axis ? node_int(n, "dim") : dy->shape->dim[i < axis ? i : i + ix->rank - 1];
    set_out(g, n, 0, dy->dtype, &x);
    return ST_OK;
}

static Status grad_gather_grad(Grad *gr)
{
    grad_set(gr, 0,
             EMIT(gr->g, Gather, ATTRS(INT("axis", node_int(gr->node, "axis"))), grad_dout(gr, 0), grad_in(gr, 1)));
    return gr->g->status;
}

/* With a split along the indices' axes each replica adds its own rows, a partial sum of the table. */
static Status place_gather_grad(Placement *p)
{
    int axis = (int)node_int(p->node, "axis"), rank_ix = in_value(p->g, p->node, 1)->shape->rank;
    Place dy = p->in[0], ix = p->in[1];

    if (dy.kind == PL_L || ix.kind == PL_L) {
        place_set_all(p, PLACE_L);
        return ST_OK;
    }
    if (ix.kind == PL_S || (dy.kind == PL_S && dy.axis >= axis && dy.axis < axis + rank_ix)) {
        int k = ix.kind == PL_S ? ix.axis : dy.axis - axis;

        p->in[0] = PLACE_S(axis + k);
        p->in[1] = PLACE_S(k);
        place_set_all(p, PLACE_P);
        return ST_OK;
    }
    p->in[1] = PLACE_B;
    place_set_all(p, dy.kind != PL_S ? dy : dy.axis < axis ? dy : PLACE_S(dy.axis - rank_ix + 1));
    return ST_OK;
}

/* ScatterElements needs an index for every element: joins the indices' axes in dy to one, and expands the indices. */
static Status standard_gather_grad(Graph *g, Node *n)
{
    const Value *dy = in_value(g, n, 0);
    const Shape *y = value(g, n->out[0])->shape, *ix = in_value(g, n, 1)->shape;
    const int axis = (int)node_int(n, "axis");
    Shape full = *y, line = { .rank = y->rank };
    ValueId at, rows;

    full.dim[axis] = shape_numel(ix);
    for (int i = 0; i < line.rank; i++)
        line.dim[i] = i == axis ? full.dim[axis] : 1;
    at = emit_expand(g, emit_reshape(g, n->in[1], &line), &full);
    rows = emit_reshape(g, n->in[0], &full);
    graph_replace(g, n->out[0],
                  EMIT(g, ScatterElements, ATTRS(INT("axis", axis), STRING("reduction", "add")),
                       emit_full(g, dy->dtype, y, 0), at, rows));
    return g->status;
}

DEFINE_OP(
    GatherGrad, .flops_of = FLOPS_OF_INPUT, .blocks = BLOCKS_PASS, .domain = "dpexec", .since = 1, .in_min = 2,
    .in_max = 2, .out_min = 1, .out_max = 1, .dtypes = DTYPES_F32_F64,
    .attrs = (const AttrDecl[]){ { "axis", A_INT, .range = R_AXIS },
                                 { "dim", A_INT, .rule = ATTR_REQUIRED, .range = R_NATURAL },
                                 { 0 } },
    .infer = infer_gather_grad, .standard = standard_gather_grad, .grad = grad_gather_grad, .place = place_gather_grad,
    .doc =
        "gradient of Gather: rows of dy added at their indices into zeros, dim of them along axis; inputs dy, indices");

/* ---- GatherElements ---- */

static Status infer_gather_elements(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *ix = in_value(g, n, 1)->shape;
    int64_t axis;

    TRY(index_check_indices(g, n, 1));
    TRY(infer_axis(g, n, x->rank));
    axis = node_int(n, "axis");
    for (int i = 0; i < x->rank && ix->rank == x->rank; i++)
        if ((i != axis && ix->dim[i] > x->dim[i]) || (i == axis && x->dim[i] == 0 && shape_numel(ix) > 0))
            return FAIL(E_SHAPE, "%s: the indices exceed the data along axis %d", node_text(g, n), i);
    if (ix->rank != x->rank)
        return FAIL(E_SHAPE, "%s: indices of rank %d for data of rank %d", node_text(g, n), ix->rank, x->rank);
    set_out(g, n, 0, in_value(g, n, 0)->dtype, ix);
    return g->status;
}

static Status grad_gather_elements(Grad *gr)
{
    Graph *g = gr->g;
    const Attr *attrs = ATTRS(INT("axis", node_int(gr->node, "axis")), STRING("reduction", "add"));

    grad_set(gr, 0,
             EMIT(g, ScatterElements, attrs, emit_zeros_like(g, grad_in(gr, 0)), grad_in(gr, 1), grad_dout(gr, 0)));
    return g->status;
}

static Status place_gather_elements(Placement *p)
{
    const Shape *x = in_value(p->g, p->node, 0)->shape, *ix = in_value(p->g, p->node, 1)->shape;
    int axis = (int)node_int(p->node, "axis"), a;

    if (p->in[0].kind == PL_P && p->in[1].kind == PL_B) {
        place_set_all(p, PLACE_P);
        return ST_OK;
    }
    if (!place_any(p, PL_S))
        return place_elementwise(p);
    a = p->in[1].kind == PL_S ? p->in[1].axis : p->in[0].axis;
    if (a == axis && p->in[0].kind != PL_S) { /* a whole table, split indices */
        p->in[0] = PLACE_B;
        place_set_all(p, PLACE_S(a));
        return ST_OK;
    }
    if (a == axis || x->dim[a] != ix->dim[a])
        return place_all_b(p);
    p->in[0] = p->in[1] = PLACE_S(a);
    place_set_all(p, PLACE_S(a));
    return ST_OK;
}

DEFINE_OP(GatherElements, .moves = 1, .flags = OPF_SELECTS, .since = 13, .from = 11, .in_min = 2, .in_max = 2,
          .out_min = 1, .out_max = 1, .attrs = axis_attr, .infer = infer_gather_elements, .grad = grad_gather_elements,
          .place = place_gather_elements, .index_range = index_range_axis,
          .doc = "y[i][j] = x[index[i][j]][j] (axis 0)");

/* ---- GatherND ---- */

/* Checks indices [batch.., q.., k] into x [batch.., k axes.., rest]. */
static Status check_nd(const Graph *g, const Node *n, const Shape *x, const Shape *ix, int64_t batch_dims)
{
    int64_t k = ix->rank ? ix->dim[ix->rank - 1] : 0;

    if (x->rank < 1 || ix->rank < 1 || batch_dims < 0 || batch_dims >= ix->rank || k > x->rank - batch_dims ||
        k < (batch_dims ? 1 : 0))
        return FAIL(E_SHAPE, "%s: indices of %lld into rank %d with %lld batch dimensions", node_text(g, n),
                    (long long)k, x->rank, (long long)batch_dims);
    for (int i = 0; i < batch_dims; i++)
        if (x->dim[i] != ix->dim[i])
            return FAIL(E_SHAPE, "%s: batch dimension %d is %lld and %lld", node_text(g, n), i, (long long)x->dim[i],
                        (long long)ix->dim[i]);
    for (int64_t i = batch_dims; i < batch_dims + k; i++)
        if (x->dim[i] == 0 && shape_numel(ix) > 0)
            return FAIL(E_SHAPE, "%s: indices into the empty axis %lld", node_text(g, n), (long long)i);
    return ST_OK;
}

static Status gathered_shape(const Graph *g, const Node *n, const Shape *x, const Shape *ix, int64_t batch_dims,
                             Shape *y)
{
    int64_t k;

    TRY(check_nd(g, n, x, ix, batch_dims));
    k = ix->dim[ix->rank - 1];
    if (ix->rank - 1 + x->rank - batch_dims - k > MAX_RANK)
        return FAIL(E_SHAPE, "%s: more than %d dimensions", node_text(g, n), MAX_RANK);
    y->rank = 0;
    for (int i = 0; i < ix->rank - 1; i++)
        y->dim[y->rank++] = ix->dim[i];
    for (int64_t i = batch_dims + k; i < x->rank; i++)
        y->dim[y->rank++] = x->dim[i];
    return ST_OK;
}

static Status infer_gather_nd(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y;

    TRY(index_check_indices(g, n, 1));
    TRY(gathered_shape(g, n, x->shape, in_value(g, n, 1)->shape, node_int(n, "batch_dims"), &y));
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

static Status grad_gather_nd(Grad *gr)
{
    Graph *g = gr->g;
    const Attr *attrs = ATTRS(INT("batch_dims", node_int(gr->node, "batch_dims")));
    ValueId dy = grad_dout_wide(gr, 0);

    grad_set_narrow(gr, 0,
                    EMIT(g, GatherNDGrad, attrs, dy, grad_in(gr, 1), emit_shape_const(g, grad_in_value(gr, 0)->shape)));
    return g->status;
}

/* Does the first number of every tuple of `ix` count the positions along axis `axis`? */
static bool counts_along(const Tensor *ix, int axis)
{
    int64_t width = ix->shape.dim[ix->shape.rank - 1], inner = shape_count(&ix->shape, axis + 1, ix->shape.rank - 1);

    for (int64_t i = 0; i < tensor_numel(ix) / (width ? width : 1); i++)
        if (tensor_int(ix, i * width) != i / inner % ix->shape.dim[axis])
            return false;
    return true;
}

/* Every tuple without its first number. */
static ValueId drop_first(Graph *g, const Tensor *ix)
{
    Shape s = ix->shape;
    int64_t width = s.dim[s.rank - 1]--;
    Tensor *t = tensor_create(g->arena, ix->dtype, &s);

    if (!t) {
        g->status = FAIL_NOMEM();
        return NO_VALUE;
    }
    for (int64_t i = 0; i < tensor_numel(t); i++)
        tensor_set_int(t, i, tensor_int(ix, i / (width - 1) * width + 1 + i % (width - 1)));
    return graph_add_const_nocopy(g, "", t);
}

/* Indices that form a grid, as x[arange(N)[:, None], columns]: if the first numbers of the tuples count through an axis
 * of both inputs, that axis becomes a batch dimension, along which the node can be split. */
static Status lower_gather_nd(Graph *g, Node *n)
{
    const Tensor *ix;

    while (!g->status && (ix = value_const(g, n->in[1]))) {
        int batch_dims = (int)node_int(n, "batch_dims"), rank = ix->shape.rank;

        if (batch_dims >= rank - 1 || ix->shape.dim[rank - 1] < 2 || batch_dims >= in_value(g, n, 0)->shape->rank - 1 ||
            ix->shape.dim[batch_dims] != in_value(g, n, 0)->shape->dim[batch_dims] || !counts_along(ix, batch_dims))
            break;
        node_set_input(g, n, 1, drop_first(g, ix));
        node_set_int(g, n, "batch_dims", batch_dims + 1);
    }
    return g->status;
}

/* How far axes of the slices move from the input to the output. */
static int slice_axis_of(const Graph *g, const Node *n)
{
    const Shape *ix = in_value(g, n, 1)->shape;

    return ix->rank - 1 - (int)node_int(n, "batch_dims") - (int)ix->dim[ix->rank - 1];
}

/* Allows splits along batch dimensions, within the slices, or of the indices into a whole table. */
static Status place_gather_nd(Placement *p)
{
    const int64_t batch_dims = node_int(p->node, "batch_dims");
    const Shape *indices = in_value(p->g, p->node, 1)->shape;
    Place x = p->in[0], ix = p->in[1], split = x.kind == PL_S ? x : ix;

    if (split.kind != PL_S) {
        if (x.kind == PL_P && ix.kind == PL_B)
            place_set_all(p, PLACE_P);
        else
            return place_elementwise(p);
        return ST_OK;
    }
    if (split.axis < batch_dims) {
        p->in[0] = p->in[1] = split;
        place_set_all(p, split);
        return ST_OK;
    }
    if (x.kind == PL_S && x.axis >= batch_dims + indices->dim[indices->rank - 1]) {
        p->in[1] = PLACE_B;
        place_set_all(p, PLACE_S(x.axis + slice_axis_of(p->g, p->node)));
        return ST_OK;
    }
    if (x.kind == PL_S || split.axis == indices->rank - 1)
        return place_all_b(p);
    p->in[0] = PLACE_B;
    place_set_all(p, split);
    return ST_OK;
}

static const AttrDecl batch_dims_attr[] = { { "batch_dims", A_INT, .range = R_RANK }, { 0 } };

static bool respell_gather_nd(Graph *g, Node *n, int opset)
{
    (void)g;
    (void)opset;
    return respell_without(g, n, "batch_dims");
}

static bool takes_rows_gather_nd(const Graph *g, const Node *n, int axis, RowsTaken *out)
{
    const Shape *list = in_value(g, n, 1)->shape;

    *out = (RowsTaken){ .list_rank = list->rank - 1, .part = axis };
    out->width = list->rank > 0 ? (int)list->dim[list->rank - 1] : 0;
    return node_int(n, "batch_dims") == 0 && axis < out->width;
}

int64_t tuples_range_at(const Graph *g, const Node *n, int i, int k, int64_t batch_dims)
{
    const Shape *x = in_value(g, n, 0)->shape, *list = in_value(g, n, 1)->shape;
    const int64_t width = i == 1 && list->rank > 0 ? list->dim[list->rank - 1] : -1;

    return k < width && batch_dims + width <= x->rank ? x->dim[batch_dims + k] : -1;
}

int64_t tuples_range(const Graph *g, const Node *n, int i, int64_t batch_dims)
{
    int64_t least = tuples_range_at(g, n, i, 0, batch_dims), range;

    for (int k = 1; (range = tuples_range_at(g, n, i, k, batch_dims)) >= 0; k++)
        least = range < least ? range : least;
    return least;
}

static int64_t index_range_gather_nd(const Graph *g, const Node *n, int i)
{
    return tuples_range(g, n, i, node_int(n, "batch_dims"));
}

static int64_t tuple_range_gather_nd(const Graph *g, const Node *n, int i, int k)
{
    return tuples_range_at(g, n, i, k, node_int(n, "batch_dims"));
}

DEFINE_OP(GatherND, .moves = 1, .flags = OPF_SELECTS, .takes_rows = takes_rows_gather_nd, .since = 13, .from = 12,
          .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1, .attrs = batch_dims_attr, .respell = respell_gather_nd,
          .infer = infer_gather_nd, .grad = grad_gather_nd, .lower = lower_gather_nd, .place = place_gather_nd,
          .index_range = index_range_gather_nd, .tuple_range = tuple_range_gather_nd,
          .doc = "slices of x picked by tuples of indices");

static Status infer_gather_nd_grad(Graph *g, Node *n)
{
    const Value *dy = in_value(g, n, 0);
    Shape x = { 0 }, y;

    TRY(index_check_indices(g, n, 1));
    TRY(value_const_ints(g, n->in[2], x.dim, MAX_RANK, &x.rank));
    TRY(shape_check(&x, dtype_size(dy->dtype)));
    TRY(gathered_shape(g, n, &x, in_value(g, n, 1)->shape, node_int(n, "batch_dims"), &y));
    if (!shape_eq(&y, dy->shape))
        return FAIL(E_SHAPE, "%s: dy does not have the shape of GatherND's output", node_text(g, n));
    set_out(g, n, 0, dy->dtype, &x);
    return ST_OK;
}

static Status place_gather_nd_grad(Placement *p)
{
    int64_t batch_dims = node_int(p->node, "batch_dims");
    Place dy = p->in[0], split = dy.kind == PL_S ? dy : p->in[1];

    p->in[2] = PLACE_B;
    if (split.kind == PL_S && split.axis < in_value(p->g, p->node, 1)->shape->rank - 1) {
        p->in[0] = p->in[1] = split;
        place_set_all(p, split.axis < batch_dims ? split : PLACE_P);
        return ST_OK;
    }
    if (dy.kind == PL_S) { /* within the slices */
        p->in[1] = PLACE_B;
        place_set_all(p, PLACE_S(dy.axis - slice_axis_of(p->g, p->node)));
        return ST_OK;
    }
    if (dy.kind == PL_P && p->in[1].kind == PL_B) {
        place_set_all(p, PLACE_P);
        return ST_OK;
    }
    return place_any(p, PL_L) ? place_elementwise(p) : place_all_b(p);
}

/* The batch position of each tuple of indices, in their type: [..., batch_dims]. */
static ValueId batch_position(Graph *g, const Value *indices, int batch_dims)
{
    Shape s = *indices->shape;
    Tensor *t;

    s.dim[s.rank - 1] = batch_dims;
    if (!(t = tensor_create(g->arena, indices->dtype, &s))) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < tensor_numel(t); i++)
        for (int64_t a = s.rank - 2, rest = i / batch_dims; a >= i % batch_dims; a--) {
            tensor_set_int(t, i, rest % s.dim[a]);
            rest /= s.dim[a];
        }
    return graph_add_const_nocopy(g, "position", t);
}

/* ScatterND has no batch dimensions: the batch position is prepended to each tuple. */
static Status standard_gather_nd_grad(Graph *g, Node *n)
{
    const int batch_dims = (int)node_int(n, "batch_dims");
    ValueId zeros = emit_full(g, in_value(g, n, 0)->dtype, value(g, n->out[0])->shape, 0), at = n->in[1];

    if (batch_dims)
        at = EMIT(g, Concat, ATTRS(INT("axis", in_value(g, n, 1)->shape->rank - 1)),
                  batch_position(g, in_value(g, n, 1), batch_dims), at);
    graph_replace(g, n->out[0], EMIT(g, ScatterND, ATTRS(STRING("reduction", "add")), zeros, at, n->in[0]));
    return g->status;
}

DEFINE_OP(GatherNDGrad, .flops_of = FLOPS_OF_INPUT, .domain = "dpexec", .since = 1, .in_min = 3, .in_max = 3,
          .out_min = 1, .out_max = 1, .shape_in = 3, .dtypes = DTYPES_F32_F64, .attrs = batch_dims_attr,
          .infer = infer_gather_nd_grad, .standard = standard_gather_nd_grad, .place = place_gather_nd_grad,
          .doc = "gradient of GatherND: slices of dy added at their indices into zeros; inputs dy, indices, shape");
