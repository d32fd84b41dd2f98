/* Pooling: the maximum, the average or the Lp norm of a window, or of all positions of a channel.
 *
 * The gradient of the maximum goes to the first largest element of each window in row-major order; a NaN counts as
 * larger than every number, so it shows.  The backward pass finds that element again, which costs one more scan of the
 * input and saves the indices.  MaxPoolPlaces and MaxPoolPlacesGrad store a byte for each result instead, its place
 * within the window; passes/fuse/fuse_max_pool.c makes them where a device supports them.  Gradients take the input's
 * spatial sizes from `spatial`, but never its batch size. */
#include "graph/ops/pool.h"

#include <math.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/conv.h"
#include "graph/ops/pool.gen.h"
#include "graph/ops/scatter.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"

/* ---- inference ---- */

static Status infer_window(Window *w, Graph *g, Node *n, const Shape *x)
{
    int count;
    const int64_t *kernel = node_ints(n, "kernel_shape", &count);

    if (count != x->rank - 2)
        return FAIL(E_SHAPE, "%s: kernel_shape has %d entries for an input of rank %d", node_text(g, n), count,
                    x->rank);
    return window_infer(w, g, n, x, kernel, node_int(n, "ceil_mode"));
}

static Status infer_pool(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Window w;
    Shape y;

    TRY(infer_window(&w, g, n, x->shape));
    y = window_out_shape(&w, x->shape->dim[0], x->shape->dim[1]);
    set_out(g, n, 0, x->dtype, &y);
    set_out(g, n, 1, DT_INT64, &y);
    return g->status;
}

static Status check_pooled(Graph *g, Node *n, const Shape *x, const Shape *dy)
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT];
    Window w;
    Shape y;

    TRY(infer_window(&w, g, n, x));
    y = window_out_shape(&w, x->dim[0], x->dim[1]);
    if (!shape_eq(&y, dy))
        return FAIL(E_SHAPE, "%s: the output gradient is %s, expected %s", node_text(g, n), shape_text(dy, a),
                    shape_text(&y, b));
    return ST_OK;
}

static Status infer_max_grad(Graph *g, Node *n)
{
    const Shape *dy = in_value(g, n, 0)->shape, *x = in_value(g, n, 1)->shape;

    TRY(infer_same_dtype(g, n, 0, 2));
    TRY(check_pooled(g, n, x, dy));
    return infer_like(g, n, 1);
}

/* Output 0 is the maximum, output 1 its place in the window. */
static Status infer_places(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Window w;
    Shape y;

    TRY(infer_window(&w, g, n, x->shape));
    if (window_numel(w.kernel) > POOL_PLACES)
        return FAIL(E_SHAPE, "%s: a window of %lld positions, at most %d are supported", node_text(g, n),
                    (long long)window_numel(w.kernel), POOL_PLACES);
    y = window_out_shape(&w, x->shape->dim[0], x->shape->dim[1]);
    set_out(g, n, 0, x->dtype, &y);
    set_out(g, n, 1, DT_UINT8, &y);
    return g->status;
}

/* The input has dy's shape with spatial sizes `spatial`. */
static Status infer_spatial(Graph *g, Node *n)
{
    const Shape *dy = in_value(g, n, 0)->shape;
    Shape x = *dy;
    int count;
    const int64_t *spatial = node_ints(n, "spatial", &count);

    if (count != dy->rank - 2)
        return FAIL(E_SHAPE, "%s: spatial has %d entries for a gradient of rank %d", node_text(g, n), count, dy->rank);
    for (int i = 0; i < count; i++) {
        if (spatial[i] < 0)
            return FAIL(E_MODEL, "%s: spatial[%d] is negative", node_text(g, n), i);
        x.dim[2 + i] = spatial[i];
    }
    TRY(check_pooled(g, n, &x, dy));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &x);
    return g->status;
}

static Status infer_places_grad(Graph *g, Node *n)
{
    const Value *dy = in_value(g, n, 0), *places = in_value(g, n, 1);
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (places->dtype != DT_UINT8 || !shape_eq(places->shape, dy->shape))
        return FAIL(E_SHAPE, "%s: the places are %s%s, expected uint8%s", node_text(g, n), dtype_name(places->dtype),
                    shape_text(places->shape, a), shape_text(dy->shape, b));
    return infer_spatial(g, n);
}

static Status infer_lp_grad(Graph *g, Node *n)
{
    const Shape *dy = in_value(g, n, 0)->shape, *x = in_value(g, n, 1)->shape;

    TRY(infer_same_dtype(g, n, 0, 3));
    TRY(check_pooled(g, n, x, dy));
    TRY(check_pooled(g, n, x, in_value(g, n, 2)->shape));
    return infer_like(g, n, 1);
}

static Status infer_global(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y = *x->shape;

    if (y.rank < 3)
        return FAIL(E_SHAPE, "%s: input of rank %d, expected [batch, channels, spatial...]", node_text(g, n), y.rank);
    for (int i = 2; i < y.rank; i++) {
        if (!y.dim[i])
            return FAIL(E_SHAPE, "%s: spatial axis %d is empty", node_text(g, n), i);
        y.dim[i] = 1;
    }
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

/* ---- gradients ---- */

/* Emits a pooling operator with the window of node n and up to two more attributes. */
static Node *emit_pools(Graph *g, const Node *n, const OpDef *op, const Attr extra[2], int n_in, const ValueId *in,
                        int n_out, ValueId *out)
{
    int rank, n_pad;
    const int64_t *kernel = node_ints(n, "kernel_shape", &rank), *strides = node_ints(n, "strides", &rank);
    const int64_t *dilations = node_ints(n, "dilations", &rank), *pads = node_ints(n, "pads", &n_pad);

    return emit_multi(g, op,
                      ATTRS(INTS("kernel_shape", rank, kernel), INTS("strides", rank, strides),
                            INTS("dilations", rank, dilations), INTS("pads", n_pad, pads),
                            INT("ceil_mode", node_int(n, "ceil_mode")), extra[0], extra[1]),
                      n_in, in, n_out, out);
}

static ValueId emit_pool(Grad *gr, const OpDef *op, const Attr extra[2], int n_in, const ValueId *in)
{
    ValueId out = NO_VALUE;

    emit_pools(gr->g, gr->node, op, extra, n_in, in, 1, &out);
    return out;
}

static Status grad_max(Grad *gr)
{
    if (has_value(grad_dout(gr, 0)))
        grad_set(
            gr, 0,
            emit_pool(gr, &op_MaxPoolGrad, (Attr[2]){ { 0 } }, 2, (ValueId[]){ grad_dout(gr, 0), grad_in(gr, 0) }));
    return gr->g->status;
}

static Status grad_average(Grad *gr)
{
    const Shape *x = grad_in_value(gr, 0)->shape;
    const Attr extra[] = { INT("count_include_pad", node_int(gr->node, "count_include_pad")),
                           INTS("spatial", x->rank - 2, x->dim + 2) };

    grad_set(gr, 0, emit_pool(gr, &op_AveragePoolGrad, extra, 1, (ValueId[]){ grad_dout(gr, 0) }));
    return gr->g->status;
}

static Status grad_of_average_grad(Grad *gr)
{
    const Attr extra[2] = { INT("count_include_pad", node_int(gr->node, "count_include_pad")), { 0 } };

    grad_set(gr, 0, emit_pool(gr, &op_AveragePool, extra, 1, (ValueId[]){ grad_dout(gr, 0) }));
    return gr->g->status;
}

static Status grad_global_average(Grad *gr)
{
    const Value *x = grad_in_value(gr, 0);
    ValueId share = emit_scalar(gr->g, x->dtype, 1.0 / (double)shape_count(x->shape, 2, x->shape->rank));

    grad_set(gr, 0, emit_expand(gr->g, EMIT(gr->g, Mul, NULL, grad_dout(gr, 0), share), x->shape));
    return gr->g->status;
}

static Status grad_lp(Grad *gr)
{
    const Attr extra[2] = { INT("p", node_int(gr->node, "p")), { 0 } };

    grad_set(gr, 0,
             emit_pool(gr, &op_LpPoolGrad, extra, 3, (ValueId[]){ grad_dout(gr, 0), grad_in(gr, 0), grad_out(gr, 0) }));
    return gr->g->status;
}

/* LpPool with one window, after the spatial axes are joined to one. */
static Status lower_global_lp(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, y = *value(g, n->out[0])->shape;
    const int64_t all = shape_count(x, 2, x->rank);
    const Shape line = SHAPE(x->dim[0], x->dim[1], all);
    ValueId norm = emit_reshape(g, n->in[0], &line);

    norm = EMIT(g, LpPool, ATTRS(INTS("kernel_shape", 1, &all), INT("p", node_int(n, "p"))), norm);
    norm = emit_reshape(g, norm, &y);
    if (!g->status)
        graph_replace(g, n->out[0], norm);
    return g->status;
}

/* MaxPool with one window, so up to three spatial axes. */
static Status lower_global_max(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    ValueId y = EMIT(g, MaxPool, ATTRS(INTS("kernel_shape", x->rank - 2, x->dim + 2)), n->in[0]);

    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

static Status grad_global_max(Grad *gr)
{
    const Shape *x = grad_in_value(gr, 0)->shape;
    const Attr *attrs = ATTRS(INTS("kernel_shape", x->rank - 2, x->dim + 2));

    grad_set(gr, 0, EMIT(gr->g, MaxPoolGrad, attrs, grad_dout(gr, 0), grad_in(gr, 0)));
    return gr->g->status;
}

/* ---- indices ---- */

/* Does every window contain an element of the data? */
static bool windows_meet_data(const Node *n)
{
    int rank;
    const int64_t *kernel = node_ints(n, "kernel_shape", &rank), *dilations = node_ints(n, "dilations", &rank);
    const int64_t *pads = node_ints(n, "pads", &rank);

    for (int i = 0; i < rank; i++)
        if (pads[i] && (pads[i] >= kernel[i % (rank / 2)] || dilations[i % (rank / 2)] > 1))
            return false;
    return true;
}

/* Computes indices into the whole batch from those within a plane plus the plane's offset, so that the batch can be
 * split.  Not if a window may have no element, whose index is -1. */
static Status lower_max(Graph *g, Node *n)
{
    const Shape x = *in_value(g, n, 0)->shape;
    const int64_t size = shape_count(&x, 2, x.rank);
    const Attr extra[] = { INT("storage_order", node_int(n, "storage_order")), INT("part", 1) };
    ValueId y[2], index;

    if (!has_out(n, 1) || node_int(n, "part") || !windows_meet_data(n))
        return ST_OK;
    emit_pools(g, n, &op_MaxPool, extra, 1, (ValueId[]){ n->in[0] }, 2, y);
    TRY(g->status);
    index = EMIT(g, Mod, NULL, y[1], emit_scalar(g, DT_INT64, (double)size));
    index = EMIT(g, Add, NULL, index, emit_plane_starts(g, &x, size));
    TRY(g->status);
    if (has_value(n->out[0]))
        graph_replace(g, n->out[0], y[0]);
    graph_replace(g, n->out[1], index);
    return g->status;
}

/* ---- the gradients in ONNX's operators ---- */

/* MaxPool's indices are flat indices into the whole batch, at which ScatterElements adds dy up, in float32 at least, as
 * ONNX Runtime has no float16 sums. */
static Status standard_max_grad(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 1);
    const DType wide = x->dtype == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32;
    const ValueId flat = emit_ints(g, 1, (int64_t[]){ -1 });
    const Shape all = SHAPE(shape_numel(x->shape));
    ValueId y[2], at, dy, zeros;

    emit_pools(g, n, &op_MaxPool, (Attr[2]){ { 0 } }, 1, n->in + 1, 2, y);
    TRY(g->status);
    at = EMIT(g, Reshape, NULL, y[1], flat);
    dy = emit_cast(g, EMIT(g, Reshape, NULL, n->in[0], flat), wide);
    zeros = emit_full(g, wide, &all, 0);
    dy = EMIT(g, ScatterElements, ATTRS(INT("axis", 0), STRING("reduction", "add")), zeros, at, dy);
    graph_replace(g, n->out[0], emit_cast(g, emit_reshape(g, dy, x->shape), x->dtype));
    return g->status;
}

/* Number of positions that window `o` of an axis of `size` averages over. */
static int64_t window_places(const Node *n, int axis, int64_t o, int64_t size)
{
    const bool padded = node_int(n, "count_include_pad");
    int rank, count;
    const int64_t *kernel = node_ints(n, "kernel_shape", &rank), *stride = node_ints(n, "strides", &count);
    const int64_t *dilation = node_ints(n, "dilations", &count), *pads = node_ints(n, "pads", &count);
    int64_t places = 0;

    for (int64_t k = 0; k < kernel[axis]; k++) {
        const int64_t at = o * stride[axis] + k * dilation[axis] - pads[axis];

        places += padded ? at < size + pads[rank + axis] : at >= 0 && at < size;
    }
    return places;
}

/* [1, 1, ...]: 1 over the number of positions of each window; 0 for a window without any. */
static ValueId window_shares(Graph *g, const Node *n, const int64_t *spatial)
{
    const Value *dy = in_value(g, n, 0);
    Shape s = *dy->shape;
    Tensor *share;

    s.dim[0] = s.dim[1] = 1;
    if (!(share = tensor_create(g->arena, dy->dtype, &s))) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < tensor_numel(share); i++) {
        int64_t places = 1, rest = i;

        for (int a = s.rank - 3; a >= 0; a--) {
            places *= window_places(n, a, rest % s.dim[2 + a], spatial[a]);
            rest /= s.dim[2 + a];
        }
        tensor_set_float(share, i, places ? 1.0 / (double)places : 0);
    }
    return graph_add_const_nocopy(g, "shares", share);
}

static Status standard_average_grad(Graph *g, Node *n)
{
    const Value *dy = in_value(g, n, 0);
    const int64_t channels = dy->shape->dim[1];
    int rank;
    const int64_t *kernel = node_ints(n, "kernel_shape", &rank), *spatial = node_ints(n, "spatial", &rank);
    Shape w = { .rank = rank + 2, .dim = { channels, 1 } };
    ValueId share = EMIT(g, Mul, NULL, n->in[0], window_shares(g, n, spatial));

    for (int i = 0; i < rank; i++)
        w.dim[2 + i] = kernel[i];
    graph_replace(g, n->out[0], conv_transposed(g, n, share, emit_full(g, dy->dtype, &w, 1), channels, spatial));
    return g->status;
}

/* dx = sign(x) |x|^(p-1) times the sum of dy y^(1-p) over the windows of x. */
static Status standard_lp_grad(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 1);
    const int64_t channels = x->shape->dim[1];
    int rank;
    const int64_t *kernel = node_ints(n, "kernel_shape", &rank);
    const double p = (double)node_int(n, "p");
    Shape w = { .rank = rank + 2, .dim = { channels, 1 } };
    ValueId zero = emit_scalar(g, x->dtype, 0), power, dx;

    for (int i = 0; i < rank; i++)
        w.dim[2 + i] = kernel[i];
    power = EMIT(g, Pow, NULL, n->in[2], emit_scalar(g, x->dtype, 1 - p));
    dx = EMIT(g, Mul, NULL, n->in[0], power);
    dx = EMIT(g, Where, NULL, EMIT(g, Equal, NULL, n->in[2], zero), zero, dx);
    dx = conv_transposed(g, n, dx, emit_full(g, x->dtype, &w, 1), channels, x->shape->dim + 2);
    power = EMIT(g, Abs, NULL, n->in[1]);
    power = EMIT(g, Pow, NULL, power, emit_scalar(g, x->dtype, p - 1));
    dx = EMIT(g, Mul, NULL, dx, power);
    graph_replace(g, n->out[0], EMIT(g, Mul, NULL, dx, EMIT(g, Sign, NULL, n->in[1])));
    return g->status;
}

/* ---- placement ---- */

/* Channels and samples are independent: a split along either axis of an input extends to all inputs and outputs. */
static Status place_channels(Placement *p)
{
    int lead = -1;

    for (int i = 0; i < p->node->n_in; i++) {
        if (p->in[i].kind == PL_S && p->in[i].axis < 2 && lead < 0)
            lead = i;
        else if (p->in[i].kind == PL_S && (lead < 0 || p->in[i].axis != p->in[lead].axis))
            place_mixes(p, "its window runs along the split axis");
    }
    if (lead < 0 && place_any(p, PL_L)) {
        for (int i = 0; i < p->node->n_in; i++)
            p->in[i] = PLACE_L;
        place_set_all(p, PLACE_L);
        return ST_OK;
    }
    for (int i = 0; i < p->node->n_in; i++)
        p->in[i] = lead < 0 ? PLACE_B : PLACE_S(p->in[lead].axis);
    place_set_all(p, p->in[0]);
    return ST_OK;
}

/* Indices into the whole batch would change with a split, but not those within a part. */
static Status place_max(Placement *p)
{
    if (!has_out(p->node, 1) || node_int(p->node, "part"))
        return place_channels(p);
    return place_all_b(p);
}

/* Averages are linear, so partial sums pass. */
static Status place_average(Placement *p)
{
    if (p->in[0].kind != PL_P)
        return place_channels(p);
    place_set_all(p, PLACE_P);
    return ST_OK;
}

static int64_t pool_flops(const Graph *g, const Node *n)
{
    int rank;
    const int64_t *kernel = node_ints(n, "kernel_shape", &rank);
    const Shape *s = in_value(g, n, 0)->shape, *y = value(g, n->out[0])->shape;
    int64_t count = shape_numel(s) < shape_numel(y) ? shape_numel(s) : shape_numel(y);

    for (int i = 0; i < rank; i++)
        count *= kernel[i];
    return count;
}

/* Opset 8 added MaxPool's indices, opset 10 ceil_mode and MaxPool's dilations, opset 19 AveragePool's dilations. */
static bool respell_pool(Graph *g, Node *n, int opset)
{
    int count;
    const int64_t *dilation = node_ints(n, "dilations", &count);

    (void)g;
    for (int i = 0; i < count; i++)
        if (dilation[i] != 1)
            return false;
    node_remove_attr(g, n, "dilations");
    if (opset < 8 && !(n->n_out == 1 && respell_without(g, n, "storage_order")))
        return false;
    return opset >= 10 || respell_without(g, n, "ceil_mode");
}

/* In opset 1 p is a float. */
static Status import_lp(Graph *g, Node *n, int opset)
{
    const Attr *p = node_attr(n, "p");

    if (opset > 1 || !p || p->type != A_FLOAT)
        return ST_OK;
    if (!(p->f >= 1 && p->f <= INT32_MAX && p->f == floor(p->f)))
        return FAIL(E_UNSUPPORTED, "%s: p is %.9g, expected a whole number from 1", node_text(g, n), p->f);
    node_set_int(g, n, "p", (int64_t)p->f);
    return g->status;
}

static bool respell_global_lp(Graph *g, Node *n, int opset)
{
    const Attr p = FLOAT("p", (double)node_int(n, "p"));

    if (opset < 2)
        node_set_attr(g, n, &p);
    return true;
}

/* Opset 18 added dilations and ceil_mode. */
static bool respell_lp(Graph *g, Node *n, int opset)
{
    return respell_pool(g, n, opset) && respell_without(g, n, "ceil_mode") && respell_global_lp(g, n, opset);
}

#define KERNEL_ATTRS                                                                                              \
    { "kernel_shape", A_INTS, .rule = ATTR_REQUIRED, .range = R_STEPS }, { "strides", A_INTS, .range = R_STEPS }, \
        { "pads", A_INTS, .range = R_PADS }, { "dilations", A_INTS, .range = R_STEPS },                           \
    {                                                                                                             \
        "ceil_mode", A_INT, .i = 0                                                                                \
    }
#define DTYPES_MAX (DTYPES_FLOAT | DTYPE_BIT(DT_INT8) | DTYPE_BIT(DT_UINT8))

DEFINE_OP(MaxPool, .picks = 1, .layout = LAYOUT_ANY, .since = 12, .from = 10, .in_min = 1, .in_max = 1, .out_min = 1,
          .out_max = 2, .dtypes = DTYPES_MAX,
          .attrs = (const AttrDecl[]){ KERNEL_ATTRS,
                                       AUTO_PAD,
                                       { "storage_order", A_INT, .i = 0 },
                                       { "part", A_INT, .rule = ATTR_OURS },
                                       { 0 } },
          .doc = "the maximum of each window", .respell = respell_pool, .infer = infer_pool, .lower = lower_max,
          .grad = grad_max, .place = place_max, .flops = pool_flops);

DEFINE_OP(MaxPoolGrad, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 2, .in_max = 2, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_FLOAT, .attrs = (const AttrDecl[]){ KERNEL_ATTRS, { 0 } },
          .doc = "gradient of MaxPool, from (dy, x)", .infer = infer_max_grad, .standard = standard_max_grad,
          .place = place_channels, .flops = pool_flops);

DEFINE_OP(MaxPoolPlaces, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 1, .out_min = 2,
          .out_max = 2, .dtypes = DTYPES_FLOAT, .attrs = (const AttrDecl[]){ KERNEL_ATTRS, { 0 } },
          .doc = "the maximum of each window, and its place there", .infer = infer_places, .place = place_channels,
          .flops = pool_flops);

DEFINE_OP(MaxPoolPlacesGrad, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 2, .in_max = 2,
          .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT,
          .attrs = (const AttrDecl[]){ KERNEL_ATTRS,
                                       { "spatial", A_INTS, .rule = ATTR_REQUIRED, .range = R_SIZES },
                                       { 0 } },
          .doc = "gradient of MaxPoolPlaces, from (dy, places)", .infer = infer_places_grad, .place = place_channels,
          .flops = pool_flops);

DEFINE_OP(AveragePool, .layout = LAYOUT_ANY, .since = 19, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_FLOAT,
          .attrs = (const AttrDecl[]){ KERNEL_ATTRS, AUTO_PAD, { "count_include_pad", A_INT, .i = 0 }, { 0 } },
          .doc = "the average of each window", .respell = respell_pool, .infer = infer_pool, .grad = grad_average,
          .place = place_average, .flops = pool_flops);

DEFINE_OP(AveragePoolGrad, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 1, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_FLOAT,
          .attrs = (const AttrDecl[]){ KERNEL_ATTRS,
                                       { "count_include_pad", A_INT, .i = 0 },
                                       { "spatial", A_INTS, .rule = ATTR_REQUIRED, .range = R_SIZES },
                                       { 0 } },
          .doc = "gradient of AveragePool, from dy", .infer = infer_spatial, .standard = standard_average_grad,
          .grad = grad_of_average_grad, .place = place_average, .flops = pool_flops);

DEFINE_OP(GlobalAveragePool, .layout = LAYOUT_ANY, .since = 1, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_FLOAT, .doc = "the average of each channel", .infer = infer_global,
          .grad = grad_global_average, .place = place_average);

DEFINE_OP(GlobalMaxPool, .layout = LAYOUT_ANY, .since = 1, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_FLOAT, .doc = "the maximum of each channel", .infer = infer_global, .grad = grad_global_max,
          .lower = lower_global_max, .place = place_channels);

#define NORM_ATTR                               \
    {                                           \
        "p", A_INT, .i = 2, .range = R_POSITIVE \
    }

DEFINE_OP(LpPool, .precision = PREC_WIDE, .since = 22, .from = 18, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_FLOAT, .attrs = (const AttrDecl[]){ KERNEL_ATTRS, AUTO_PAD, NORM_ATTR, { 0 } },
          .doc = "the Lp norm of each window", .import = import_lp, .respell = respell_lp, .infer = infer_pool,
          .grad = grad_lp, .place = place_channels, .flops = pool_flops);

DEFINE_OP(LpPoolGrad, .domain = "dpexec", .precision = PREC_WIDE, .since = 1, .in_min = 3, .in_max = 3, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_FLOAT, .attrs = (const AttrDecl[]){ KERNEL_ATTRS, NORM_ATTR, { 0 } },
          .doc = "gradient of LpPool, from (dy, x, y)", .infer = infer_lp_grad, .standard = standard_lp_grad,
          .place = place_channels);

DEFINE_OP(GlobalLpPool, .precision = PREC_WIDE, .since = 22, .from = 2, .in_min = 1, .in_max = 1, .out_min = 1,
          .out_max = 1, .dtypes = DTYPES_FLOAT, .attrs = (const AttrDecl[]){ NORM_ATTR, { 0 } },
          .doc = "the Lp norm of each channel", .import = import_lp, .respell = respell_global_lp,
          .infer = infer_global, .lower = lower_global_lp, .place = place_channels);
