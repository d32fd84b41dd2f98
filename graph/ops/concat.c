/* Concat, Split and Slice. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/ranges.h"
#include "graph/ops/scatter.gen.h"

/* ---- Concat ---- */

/* Up to opset 3 the axis had a default. */
static Status import_concat(Graph *g, Node *n, int opset)
{
    if (opset < 4 && !node_attr(n, "axis"))
        node_set_int(g, n, "axis", 1);
    return g->status;
}

static Status infer_concat(Graph *g, Node *n)
{
    Shape y = *in_value(g, n, 0)->shape;
    int64_t axis;

    TRY(infer_axis(g, n, y.rank));
    TRY(infer_same_dtype(g, n, 0, n->n_in));
    axis = node_int(n, "axis");
    y.dim[axis] = 0;
    for (int i = 0; i < n->n_in; i++) {
        Shape s = *in_value(g, n, i)->shape;
        int64_t d = s.rank == y.rank ? s.dim[axis] : 0;
        char a[SHAPE_TEXT], b[SHAPE_TEXT];

        s.dim[axis] = y.dim[axis];
        if (!shape_eq(&s, &y) || __builtin_add_overflow(y.dim[axis], d, &y.dim[axis]))
            return FAIL(E_SHAPE, "%s: input %d of shape %s does not fit the first of %s", node_text(g, n), i,
                        shape_text(in_value(g, n, i)->shape, a), shape_text(in_value(g, n, 0)->shape, b));
    }
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &y);
    return g->status;
}

/* Splits dy into the sizes of the inputs. */
static Status grad_concat(Grad *gr)
{
    Graph *g = gr->g;
    int n = gr->node->n_in;
    int64_t axis = node_int(gr->node, "axis"), *sizes = ARENA_NEW(g->arena, int64_t, n);
    ValueId *parts = ARENA_NEW(g->arena, ValueId, n);

    if (!sizes || !parts)
        return FAIL_NOMEM();
    if (n == 1) {
        grad_set(gr, 0, grad_dout(gr, 0));
        return g->status;
    }
    for (int i = 0; i < n; i++)
        sizes[i] = grad_in_value(gr, i)->shape->dim[axis];
    EMIT_MULTI(g, Split, ATTRS(INT("axis", axis)), n, parts, grad_dout(gr, 0), emit_ints(g, n, sizes));
    for (int i = 0; i < n; i++)
        grad_set(gr, i, parts[i]);
    return g->status;
}

/* Inputs that are all split along another axis, or all partial, pass; else they are gathered.  A single input passes.
 */
static Status place_concat(Placement *p)
{
    int n = p->node->n_in, partial = 0, split = -1;
    Place want = PLACE_B;

    for (int i = 0; i < n; i++) {
        partial += p->in[i].kind == PL_P;
        if (n > 1 && p->in[i].kind == PL_S && p->in[i].axis == node_int(p->node, "axis"))
            place_mixes(p, "it joins along the split axis");
        else if (p->in[i].kind == PL_S && split < 0)
            split = p->in[i].axis;
        else if (p->in[i].kind == PL_S && p->in[i].axis != split)
            place_mixes(p, "its inputs are split along different axes");
    }
    if (split >= 0)
        want = PLACE_S(split);
    else if (partial == n)
        want = PLACE_P;
    else if (place_any(p, PL_L))
        want = PLACE_L;
    for (int i = 0; i < n; i++)
        if (p->in[i].kind != PL_L || want.kind == PL_B)
            p->in[i] = want.kind == PL_L ? PLACE_B : want;
    place_set_all(p, want);
    return ST_OK;
}

DEFINE_OP(Concat, .moves = 255, .rows = ROWS_KEPT, .layout = LAYOUT_ANY, .since = 13, .from = 4, .in_min = 1,
          .in_max = -1, .out_min = 1, .out_max = 1,
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .rule = ATTR_REQUIRED, .range = R_AXIS }, { 0 } },
          .import = import_concat, .infer = infer_concat, .grad = grad_concat, .place = place_concat,
          .doc = "inputs joined along an axis");

/* ---- Split ---- */

/* Sizes were an attribute up to opset 12.  Up to opset 17 their absence meant equal parts; now num_outputs does. */
static Status import_split(Graph *g, Node *n, int opset)
{
    if (opset < 13)
        TRY(import_attr_to_input(g, n, "split", 1));
    if (opset < 18 && !has_in(n, 1) && has_out(n, n->n_out - 1))
        node_set_int(g, n, "num_outputs", n->n_out);
    return g->status;
}

static bool respell_split(Graph *g, Node *n, int opset)
{
    node_remove_attr(g, n, "num_outputs"); /* older opsets have none: without sizes, parts are equal */
    return opset >= 13 || respell_input_to_attr(g, n, 1, "split");
}

/* The given sizes, or equal ones; with num_outputs (opset 18) the last may be smaller. */
static Status split_sizes(const Graph *g, const Node *n, int64_t d, int64_t *sizes)
{
    int64_t part = n->n_out ? (d + n->n_out - 1) / n->n_out : 0, sum = 0;
    int count = n->n_out;

    if (has_in(n, 1))
        TRY(value_const_ints(g, n->in[1], sizes, n->n_out, &count));
    else
        for (int i = 0; i < n->n_out; i++)
            sizes[i] = d - i * part < part ? (d > i * part ? d - i * part : 0) : part;
    for (int i = 0; i < count; i++)
        if (sizes[i] < 0 || __builtin_add_overflow(sum, sizes[i], &sum))
            return FAIL(E_SHAPE, "%s: part %d has size %lld, expected 0 or more", node_text(g, n), i,
                        (long long)sizes[i]);
    if (count != n->n_out || sum != d || (!has_in(n, 1) && !node_int(n, "num_outputs") && d % n->n_out))
        return FAIL(E_SHAPE, "%s: %lld elements along the axis do not make these %d parts", node_text(g, n),
                    (long long)d, n->n_out);
    return ST_OK;
}

static Status infer_split(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    int64_t *sizes = ARENA_NEW(g->arena, int64_t, n->n_out), axis;
    Shape y = shape_unknown();

    TRY(infer_axis(g, n, x->shape->rank));
    if (!sizes)
        return FAIL_NOMEM();
    if (node_int(n, "num_outputs") && node_int(n, "num_outputs") != n->n_out)
        return FAIL(E_MODEL, "%s: num_outputs %lld with %d outputs", node_text(g, n),
                    (long long)node_int(n, "num_outputs"), n->n_out);
    for (int i = 0; i < n->n_out; i++)
        set_out(g, n, i, x->dtype, &y);
    if (has_in(n, 1) && !value_const(g, n->in[1]))
        return ST_OK;
    axis = node_int(n, "axis");
    TRY(split_sizes(g, n, x->shape->dim[axis], sizes));
    y = *x->shape;
    for (int i = 0; i < n->n_out; i++) {
        y.dim[axis] = sizes[i];
        set_out(g, n, i, x->dtype, &y);
    }
    return g->status;
}

static Status grad_split(Grad *gr)
{
    Graph *g = gr->g;
    int n = gr->node->n_out;
    ValueId *parts = ARENA_NEW(g->arena, ValueId, n);

    if (!parts)
        return FAIL_NOMEM();
    for (int i = 0; i < n; i++)
        parts[i] = grad_dout_or_zeros(gr, i);
    grad_set(gr, 0, emit(g, &op_Concat, ATTRS(INT("axis", node_int(gr->node, "axis"))), n, parts));
    return g->status;
}

static Status place_split(Placement *p)
{
    int to[MAX_RANK];

    for (int a = 0; a < MAX_RANK; a++)
        to[a] = a == node_int(p->node, "axis") ? -1 : a;
    return place_moved(p, to, "it cuts along the split axis");
}

static bool strided_split(const Graph *g, const Node *n, int o, Strided *s)
{
    int axis = (int)node_int(n, "axis");
    int64_t start = 0;

    for (int i = 0; i < o; i++)
        start += value(g, n->out[i])->shape->dim[axis];
    return strided_slice(s, axis, start, 1, value(g, n->out[o])->shape->dim[axis]);
}

DEFINE_OP(Split, .moves = 1, .rows = ROWS_KEPT, .layout = LAYOUT_ANY, .since = 18, .in_min = 1, .in_max = 2,
          .out_min = 1, .out_max = -1,
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .range = R_AXIS },
                                       { "num_outputs", A_INT, .range = R_NATURAL },
                                       { 0 } },
          .import = import_split, .respell = respell_split, .infer = infer_split, .grad = grad_split,
          .strided = strided_split, .place = place_split, .doc = "x cut along an axis");

/* ---- Slice ---- */

/* Up to opset 9 starts, ends and axes were attributes. */
static Status import_slice(Graph *g, Node *n, int opset)
{
    if (opset >= 10)
        return ST_OK;
    TRY(import_attr_to_input(g, n, "starts", 1));
    TRY(import_attr_to_input(g, n, "ends", 2));
    return import_attr_to_input(g, n, "axes", 3);
}

static bool respell_slice(Graph *g, Node *n, int opset)
{
    (void)opset;
    return !has_in(n, 4) && respell_input_to_attr(g, n, 3, "axes") && respell_input_to_attr(g, n, 2, "ends") &&
           respell_input_to_attr(g, n, 1, "starts");
}

/* Reads the range of Slice(x, starts, ...), first = 1, or SliceGrad(dy, shape, starts, ...), first = 2, for shape x.
 * *known: are all inputs from `first` on constant?  If not, *r is not set. */
static Status node_range(SliceRange *r, bool *known, const Graph *g, const Node *n, const Shape *x, int first)
{
    const Tensor *t[4] = { NULL };

    *known = true;
    for (int i = 0; i < 4; i++)
        if (has_in(n, first + i) && !(t[i] = value_const(g, n->in[first + i])))
            *known = false;
    if (*known && !(t[0] && t[1]))
        return FAIL(E_MODEL, "%s: starts and ends are required", node_text(g, n));
    return *known ? slice_range(r, x, t[0], t[1], t[2], t[3], node_text(g, n)) : ST_OK;
}

static Status infer_slice(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y = shape_unknown();
    SliceRange r;
    bool known;

    TRY(node_range(&r, &known, g, n, x->shape, 1));
    if (known)
        y = shape_of(x->shape->rank, r.count);
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

static Status grad_slice(Grad *gr)
{
    Graph *g = gr->g;

    grad_set(gr, 0,
             EMIT(g, SliceGrad, NULL, grad_dout(gr, 0), emit_shape_const(g, grad_in_value(gr, 0)->shape),
                  grad_in(gr, 1), grad_in(gr, 2), grad_in(gr, 3), grad_in(gr, 4)));
    return g->status;
}

/* Places Slice and SliceGrad; `x` is the shape of the larger tensor. */
static Status place_range(Placement *p, const Shape *x, int first)
{
    int to[MAX_RANK];
    SliceRange r;
    bool known;

    TRY(node_range(&r, &known, p->g, p->node, x, first));
    for (int a = 0; a < x->rank; a++)
        to[a] = known && slice_keeps(&r, x, a) ? a : -1;
    return place_moved(p, to, "it slices the batch");
}

static Status place_slice(Placement *p) { return place_range(p, in_value(p->g, p->node, 0)->shape, 1); }

static const Tensor *const_ints(const Graph *g, const Node *n, int i)
{
    const Tensor *t = in_const(g, n, i);

    return t && dtype_is_int(t->dtype) && tensor_numel(t) <= MAX_RANK ? t : NULL;
}

static bool takes_rows_slice(const Graph *g, const Node *n, int axis, RowsTaken *out)
{
    const Tensor *starts = const_ints(g, n, 1), *ends = const_ints(g, n, 2), *axes = const_ints(g, n, 3);
    int64_t count = starts ? tensor_numel(starts) : 0;

    if (!ends || tensor_numel(ends) != count || (has_in(n, 3) && (!axes || tensor_numel(axes) != count)))
        return false;
    for (int i = 0; i < (int)count; i++) {
        int64_t a = axes ? tensor_int(axes, i) : i;

        if (a == axis || a + in_value(g, n, 0)->shape->rank == axis) {
            *out = (RowsTaken){ .range = true, .at = i };
            return true;
        }
    }
    return false;
}

static bool strided_of_slice(const Graph *g, const Node *n, int o, Strided *s)
{
    const Shape *x = in_value(g, n, 0)->shape;
    SliceRange r;
    bool known = false;

    (void)o;
    if (node_range(&r, &known, g, n, x, 1) || !known)
        return false;
    for (int a = 0; a < x->rank; a++)
        if (!slice_keeps(&r, x, a) && !strided_slice(s, a, r.start[a], r.step[a], r.count[a]))
            return false;
    return true;
}

DEFINE_OP(Slice, .moves = 1, .rows = ROWS_KEPT, .flags = OPF_SELECTS, .takes_rows = takes_rows_slice,
          .layout = LAYOUT_ANY, .since = 13, .from = 10, .in_min = 3, .in_max = 5, .out_min = 1, .out_max = 1,
          .import = import_slice, .respell = respell_slice, .infer = infer_slice, .grad = grad_slice,
          .strided = strided_of_slice, .place = place_slice, .doc = "x[start:end:step] along axes");

static Status infer_slice_grad(Graph *g, Node *n)
{
    Shape x = { 0 }, dy;
    SliceRange r;
    bool known;

    TRY(value_const_ints(g, n->in[1], x.dim, MAX_RANK, &x.rank));
    TRY(shape_check(&x, dtype_size(in_value(g, n, 0)->dtype)));
    TRY(node_range(&r, &known, g, n, &x, 2));
    dy = known ? shape_of(x.rank, r.count) : *in_value(g, n, 0)->shape;
    if (!shape_eq(&dy, in_value(g, n, 0)->shape))
        return FAIL(E_SHAPE, "%s: dy does not have the shape of the slice", node_text(g, n));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &x);
    return ST_OK;
}

/* The gradient of a gradient: linear in dy. */
static Status grad_slice_grad(Grad *gr)
{
    grad_set(
        gr, 0,
        EMIT(gr->g, Slice, NULL, grad_dout(gr, 0), grad_in(gr, 2), grad_in(gr, 3), grad_in(gr, 4), grad_in(gr, 5)));
    return gr->g->status;
}

static Status place_slice_grad(Placement *p) { return place_range(p, value(p->g, p->node->out[0])->shape, 2); }

/* Expands an axis of y to `size`: its elements at start, start + step ..., and zeros elsewhere. */
static ValueId spread_along(Graph *g, ValueId y, int axis, int64_t size, int64_t start, int64_t step)
{
    const Shape *s = value(g, y)->shape;
    Shape line = { .rank = s->rank }, full = *s;
    ValueId zeros;
    Tensor *at;

    for (int i = 0; i < line.rank; i++)
        line.dim[i] = i == axis ? s->dim[i] : 1;
    full.dim[axis] = size;
    if (!(at = tensor_create(g->arena, DT_INT64, &line))) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t k = 0; k < line.dim[axis]; k++)
        tensor_set_int(at, k, start + k * step);
    zeros = emit_full(g, value(g, y)->dtype, &full, 0);
    return EMIT(g, ScatterElements, ATTRS(INT("axis", axis)), zeros,
                emit_expand(g, graph_add_const_nocopy(g, "at", at), s), y);
}

static Status standard_slice_grad(Graph *g, Node *n)
{
    const Shape *x = value(g, n->out[0])->shape;
    int64_t pads[2 * MAX_RANK] = { 0 };
    ValueId y = n->in[0];
    SliceRange r;
    bool known, padded = false;

    TRY(node_range(&r, &known, g, n, x, 2));
    if (!known)
        return ST_OK;
    for (int i = 0; i < x->rank && !g->status; i++) {
        if (r.step[i] != 1) {
            y = spread_along(g, y, i, x->dim[i], r.start[i], r.step[i]);
            continue;
        }
        pads[i] = r.start[i];
        pads[x->rank + i] = x->dim[i] - r.start[i] - r.count[i];
        padded |= r.count[i] != x->dim[i];
    }
    graph_replace(g, n->out[0], padded ? EMIT(g, Pad, NULL, y, emit_ints(g, 2 * x->rank, pads)) : y);
    return g->status;
}

DEFINE_OP(SliceGrad, .flops_of = FLOPS_OF_NOTHING, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 4,
          .in_max = 6, .out_min = 1, .out_max = 1, .shape_in = 2, .infer = infer_slice_grad,
          .standard = standard_slice_grad, .grad = grad_slice_grad, .place = place_slice_grad,
          .doc = "zeros of a shape with dy at the slice; inputs dy, shape, starts, ends, axes, steps");
