/* Resize and Upsample: interpolation, axis by axis, as sums of neighbours with weights that depend only on sizes.
 *
 * An axis is one Interpolate, y[.., i, ..] = sum over k of weight[i, k] x[.., index[i, k], ..], in every mode; nearest
 * has a single neighbour.  tf_crop_and_resize then replaces samples outside of the data by a given value. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/resize.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"

/* ---- Interpolate ---- */

/* E_MODEL unless index and weight are [n, taps] and the indices are constants in [0, size). */
static Status check_table(const Graph *g, const Node *n, int64_t size)
{
    const Tensor *index = value_const(g, n->in[1]);
    const Value *weight = in_value(g, n, 2);

    if (!index || index->dtype != DT_INT64 || index->shape.rank != 2 || !shape_eq(&index->shape, weight->shape))
        return FAIL(E_MODEL, "%s: expected constant indices and weights, [places, neighbours] each", node_text(g, n));
    for (int64_t i = 0; i < tensor_numel(index); i++)
        if (tensor_int(index, i) < 0 || tensor_int(index, i) >= size)
            return FAIL(E_MODEL, "%s: index %lld, expected less than %lld", node_text(g, n),
                        (long long)tensor_int(index, i), (long long)size);
    return infer_wide_dtype(g, n, 2, 3);
}

static Status infer_interpolate(Graph *g, Node *n)
{
    Shape y = *in_value(g, n, 0)->shape;
    int axis;

    TRY(infer_axis(g, n, y.rank));
    axis = (int)node_int(n, "axis");
    TRY(check_table(g, n, y.dim[axis]));
    y.dim[axis] = in_value(g, n, 1)->shape->dim[0];
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &y);
    return g->status;
}

static Status infer_interpolate_grad(Graph *g, Node *n)
{
    Shape x = *in_value(g, n, 0)->shape;
    int axis;

    TRY(infer_axis(g, n, x.rank));
    axis = (int)node_int(n, "axis");
    TRY(check_table(g, n, node_int(n, "size")));
    if (x.dim[axis] != in_value(g, n, 1)->shape->dim[0])
        return FAIL(E_SHAPE, "%s: the gradient and the indices differ in length", node_text(g, n));
    x.dim[axis] = node_int(n, "size");
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &x);
    return g->status;
}

static Status grad_interpolate(Grad *gr)
{
    const int64_t axis = node_int(gr->node, "axis");
    const Attr *attrs = ATTRS(INT("axis", axis), INT("size", grad_in_value(gr, 0)->shape->dim[axis]));

    grad_set(gr, 0, EMIT(gr->g, InterpolateGrad, attrs, grad_dout(gr, 0), grad_in(gr, 1), grad_in(gr, 2)));
    return gr->g->status;
}

static Status grad_interpolate_grad(Grad *gr)
{
    const Attr *attrs = ATTRS(INT("axis", node_int(gr->node, "axis")));

    grad_set(gr, 0, EMIT(gr->g, Interpolate, attrs, grad_dout(gr, 0), grad_in(gr, 1), grad_in(gr, 2)));
    return gr->g->status;
}

/* Forward: gathers the neighbours, multiplies them by their weights and adds them up, with the axis as [places,
 * neighbours].  Backward: multiplies dy by the weight of each neighbour and adds it up there. */
static Status resize_standard(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    const Shape *table = in_value(g, n, 1)->shape;
    const int axis = (int)node_int(n, "axis");
    const int64_t places = table->dim[0], neighbours = table->dim[1], behind = axis + 1;
    const Shape flat = SHAPE(places * neighbours);
    const bool forward = n->op == &op_Interpolate;
    Shape line = *x->shape, split = *x->shape, weights = SHAPE(places, neighbours);
    ValueId y = n->in[0], at, weight;

    if (x->shape->rank == MAX_RANK)
        return ST_OK;
    line.dim[axis] = flat.dim[0];
    split.rank++;
    split.dim[axis] = places;
    for (int i = axis + 1; i < split.rank; i++)
        split.dim[i] = i > axis + 1 ? x->shape->dim[i - 1] : forward ? neighbours : 1;
    while (weights.rank < split.rank - axis)
        weights.dim[weights.rank++] = 1;
    at = emit_reshape(g, n->in[1], &flat);
    weight = emit_reshape(g, n->in[2], &weights);
    if (forward)
        y = EMIT(g, Gather, ATTRS(INT("axis", axis)), y, at);
    y = emit_reshape(g, emit_cast(g, y, in_value(g, n, 2)->dtype), &split);
    y = EMIT(g, Mul, NULL, y, weight);
    if (forward)
        y = emit_reduce_sum(g, y, 1, &behind, false);
    else
        y = EMIT(g, GatherGrad, ATTRS(INT("axis", axis), INT("dim", node_int(n, "size"))), emit_reshape(g, y, &line),
                 at);
    graph_replace(g, n->out[0], emit_cast(g, y, x->dtype));
    return g->status;
}

static Status place(Placement *p)
{
    int to[MAX_RANK];

    for (int i = 0; i < MAX_RANK; i++)
        to[i] = i == node_int(p->node, "axis") ? -1 : i;
    return place_moved(p, to, "it takes neighbours along the split axis");
}

static int64_t resize_flops(const Graph *g, const Node *n)
{
    const Shape *table = in_value(g, n, 1)->shape, *y = in_value(g, n, 0)->shape;
    const int64_t axis = node_int(n, "axis");

    return y->dim[axis] ? 2 * shape_numel(y) / y->dim[axis] * table->dim[0] * table->dim[1] : 0;
}

#define INTERPOLATE                                                                                               \
    .domain = "dpexec", .since = 1, .in_min = 3, .in_max = 3, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT, \
    .setting_in = 4, .wide_in = 4, .standard = resize_standard, .place = place, .flops = resize_flops

DEFINE_OP(Interpolate, INTERPOLATE,
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .rule = ATTR_REQUIRED, .range = R_AXIS }, { 0 } },
          .infer = infer_interpolate, .grad = grad_interpolate,
          .doc = "sums of neighbours along axis, by tables of indices and weights");
DEFINE_OP(InterpolateGrad, INTERPOLATE,
          .attrs = (const AttrDecl[]){ { "axis", A_INT, .rule = ATTR_REQUIRED, .range = R_AXIS },
                                       { "size", A_INT, .rule = ATTR_REQUIRED, .range = R_NATURAL },
                                       { 0 } },
          .infer = infer_interpolate_grad, .grad = grad_interpolate_grad, .doc = "gradient of Interpolate by its data");

/* ---- Resize: the requested sizes ---- */

enum { X, ROI, SCALES, SIZES };

typedef enum { NEAREST, LINEAR, CUBIC } Mode;

/* Axes to resize, with scale, region of interest and size of each; and the interpolation that the attributes choose. */
typedef struct {
    int n;
    int axis[MAX_RANK]; /* of x */
    double scale[MAX_RANK], from[MAX_RANK], to[MAX_RANK];
    int64_t size[MAX_RANK];
    Mode mode;
    const char *coordinates, *nearest;
    bool antialias, exclude_outside;
    double a; /* coefficient of the cubic */
} Resampling;

/* Is input i present and not an empty list? */
static bool has_numbers(const Graph *g, const Node *n, int i)
{
    return has_in(n, i) && (!shape_known(in_value(g, n, i)->shape) || shape_numel(in_value(g, n, i)->shape) > 0);
}

static Status check_length(const Graph *g, const Node *n, int i, int64_t expected)
{
    const Shape *s = in_value(g, n, i)->shape;

    if (s->rank != 1 || s->dim[0] != expected)
        return FAIL(E_SHAPE, "%s: input %d must have %lld numbers", node_text(g, n), i, (long long)expected);
    return ST_OK;
}

/* The size as an integer, limited to one that exceeds any memory but is still safe in messages. */
static int64_t scaled(double size) { return (int64_t)fmin(floor(size), 1e15); }

static Status read_scales(Resampling *w, const Graph *g, const Node *n)
{
    const Tensor *scales = value_const(g, n->in[SCALES]);

    TRY(check_length(g, n, SCALES, w->n));
    for (int i = 0; i < w->n; i++) {
        w->scale[i] = tensor_float(scales, i);
        if (!(w->scale[i] > 0 && w->scale[i] < INFINITY))
            return FAIL(E_MODEL, "%s: scale %.9g, expected more than 0", node_text(g, n), w->scale[i]);
        w->size[i] = scaled((double)in_value(g, n, X)->shape->dim[w->axis[i]] * w->scale[i]);
    }
    return ST_OK;
}

static Status resize_read_sizes(Resampling *w, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, X)->shape;
    const char *policy = node_string(n, "keep_aspect_ratio_policy");
    const bool largest = !strcmp(policy, "not_smaller");
    double scale;
    int count;

    TRY(check_length(g, n, SIZES, w->n));
    TRY(value_const_ints(g, n->in[SIZES], w->size, MAX_RANK, &count));
    for (int i = 0; i < w->n; i++) {
        if (w->size[i] < 0)
            return FAIL(E_SHAPE, "%s: a negative size", node_text(g, n));
        w->scale[i] = x->dim[w->axis[i]] ? (double)w->size[i] / (double)x->dim[w->axis[i]] : 1;
    }
    if (!strcmp(policy, "stretch"))
        return ST_OK;
    scale = w->scale[0]; /* one scale for all axes: the largest, or the least */
    for (int i = 1; i < w->n; i++)
        scale = largest ? fmax(scale, w->scale[i]) : fmin(scale, w->scale[i]);
    for (int i = 0; i < w->n; i++) {
        w->scale[i] = scale;
        w->size[i] = scaled(scale * (double)x->dim[w->axis[i]] + 0.5);
    }
    return ST_OK;
}

static bool crops(const Node *n)
{
    return !strcmp(node_string(n, "coordinate_transformation_mode"), "tf_crop_and_resize");
}

static Status read_resampling(Resampling *w, const Graph *g, const Node *n)
{
    const int rank = in_value(g, n, X)->shape->rank;
    const char *mode = node_string(n, "mode");
    int count;
    const int64_t *axes = node_ints(n, "axes", &count);

    w->mode = !strcmp(mode, "nearest") ? NEAREST : !strcmp(mode, "linear") ? LINEAR : CUBIC;
    w->coordinates = node_string(n, "coordinate_transformation_mode");
    w->nearest = node_string(n, "nearest_mode");
    w->antialias = node_int(n, "antialias") && w->mode != NEAREST;
    w->exclude_outside = node_int(n, "exclude_outside") != 0;
    w->a = node_float(n, "cubic_coeff_a");
    w->n = count ? count : rank;
    for (int i = 0; i < w->n; i++) {
        w->axis[i] = i;
        if (count)
            TRY(shape_axis(&w->axis[i], axes[i], rank, node_text(g, n)));
    }
    if (has_numbers(g, n, SCALES) == has_numbers(g, n, SIZES))
        return FAIL(E_MODEL, "%s: expected either scales or sizes", node_text(g, n));
    TRY(has_numbers(g, n, SIZES) ? resize_read_sizes(w, g, n) : read_scales(w, g, n));
    for (int i = 0; i < w->n; i++) {
        w->from[i] = 0;
        w->to[i] = 1;
        if (in_value(g, n, X)->shape->dim[w->axis[i]] == 0 && w->size[i])
            return FAIL(E_SHAPE, "%s: axis %d is empty", node_text(g, n), w->axis[i]);
    }
    if (!crops(n))
        return ST_OK;
    if (!has_numbers(g, n, ROI))
        return FAIL(E_MODEL, "%s: tf_crop_and_resize needs roi", node_text(g, n));
    TRY(check_length(g, n, ROI, 2 * w->n));
    for (int i = 0; i < w->n; i++) {
        w->from[i] = tensor_float(value_const(g, n->in[ROI]), i);
        w->to[i] = tensor_float(value_const(g, n->in[ROI]), w->n + i);
    }
    return ST_OK;
}

static bool resize_is_known(const Graph *g, const Node *n)
{
    for (int i = SCALES; i <= SIZES; i++)
        if (has_numbers(g, n, i) && !value_const(g, n->in[i]))
            return false;
    return !crops(n) || !has_in(n, ROI) || value_const(g, n->in[ROI]);
}

static Status resize_infer(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, X);
    Shape y = *x->shape, unknown = shape_unknown();
    Resampling w;

    set_out(g, n, 0, x->dtype, &unknown);
    if (!resize_is_known(g, n))
        return g->status;
    TRY(read_resampling(&w, g, n));
    for (int i = 0; i < w.n; i++)
        y.dim[w.axis[i]] = w.size[i];
    set_out(g, n, 0, x->dtype, &y);
    return g->status;
}

/* ---- positions of samples, and weights of their neighbours ---- */

/* The position of sample i of the axis in the data, in elements. */
static double resize_place_of(const Resampling *w, int axis, int64_t length, int64_t i)
{
    const double scale = w->scale[axis], n = (double)length, out = scale * n, x = (double)i;
    const double middle = (x + 0.5) / scale - 0.5;

    if (!strcmp(w->coordinates, "align_corners"))
        return out == 1 ? 0 : x * (n - 1) / (out - 1);
    if (!strcmp(w->coordinates, "asymmetric"))
        return x / scale;
    if (!strcmp(w->coordinates, "tf_half_pixel_for_nn")) /* only in opset 11 */
        return (x + 0.5) / scale;
    if (!strcmp(w->coordinates, "tf_crop_and_resize")) {
        const double span = (w->to[axis] - w->from[axis]) * (n - 1);

        return w->from[axis] * (n - 1) + (out == 1 ? span / 2 : x * span / (out - 1));
    }
    if (!strcmp(w->coordinates, "pytorch_half_pixel"))
        return out == 1 ? -0.5 : middle;
    if (!strcmp(w->coordinates, "half_pixel_symmetric"))
        return n / 2 * (1 - (double)w->size[axis] / out) + middle;
    return middle;
}

static double cubic(double x, double a)
{
    x = fabs(x);
    if (x <= 1)
        return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Weight of a neighbour at distance d, in elements of the data or, with antialias, of the output if it is smaller. */
static double weigh(const Resampling *w, double d) { return w->mode == CUBIC ? cubic(d, w->a) : fmax(1 - fabs(d), 0); }

/* Number of neighbours of a position, half of them on each side.  The element at the position itself, if there is one,
 * counts as the first on its right. */
static int neighbours(const Resampling *w, double shrink)
{
    const double reach = w->mode == CUBIC ? 2 : 1;

    return 2 - 2 * (int)(floor(-reach / shrink) + 1);
}

/* Is the second of the two elements around the position the nearest? */
static bool takes_second(const Resampling *w, double ratio)
{
    if (ratio == 1)
        return true;
    if (!strcmp(w->nearest, "floor"))
        return false;
    if (!strcmp(w->nearest, "ceil"))
        return true;
    return !strcmp(w->nearest, "round_prefer_ceil") ? ratio >= 0.5 : ratio > 0.5;
}

/* Computes a row of the tables: `taps` indices and weights of a position. */
static void fill_row(const Resampling *w, double place, double shrink, int64_t length, int taps, int64_t *index,
                     double *weight)
{
    const double below = floor(place), ratio = place == below ? 1 : place - below;
    const int64_t left = (int64_t)(ratio == 1 ? below - 1 : below);
    double sum = 0;

    if (w->mode == NEAREST) {
        const int64_t at = left + takes_second(w, ratio);

        *index = at < 0 ? 0 : at >= length ? length - 1 : at;
        *weight = 1;
        return;
    }
    for (int k = 0; k < taps; k++) {
        const int64_t at = left - taps / 2 + 1 + k;
        const bool outside = at < 0 || at >= length;

        weight[k] = outside && w->exclude_outside ? 0 : weigh(w, ((double)(at - left) - ratio) * shrink);
        index[k] = at < 0 ? 0 : at >= length ? length - 1 : at;
        sum += weight[k];
    }
    for (int k = 0; k < taps && (w->antialias || w->exclude_outside); k++)
        weight[k] /= sum;
}

/* Makes the tables of indices and weights for an axis.  *outside: bool [samples], which of them are outside of the
 * data; NULL if none is. */
static Status make_tables(Tensor **index, Tensor **weight, Tensor **outside, Graph *g, const Node *n,
                          const Resampling *w, int axis)
{
    const int64_t length = in_value(g, n, X)->shape->dim[w->axis[axis]], count = w->size[axis];
    const DType wide = in_value(g, n, X)->dtype == DT_FLOAT32 || in_value(g, n, X)->dtype == DT_FLOAT16 ||
                               in_value(g, n, X)->dtype == DT_BFLOAT16
                           ? DT_FLOAT32
                           : DT_FLOAT64;
    const double shrink = w->antialias && w->scale[axis] < 1 ? w->scale[axis] : 1;
    const int taps = w->mode == NEAREST || !count ? 1 : neighbours(w, shrink);
    const Shape table = SHAPE(count, taps), row = SHAPE(count);
    double *of_row = malloc(((size_t)taps + 1) * sizeof *of_row);
    Tensor *beyond = tensor_create(g->arena, DT_BOOL, &row);

    *index = tensor_create(g->arena, DT_INT64, &table);
    *weight = tensor_create(g->arena, wide, &table);
    *outside = NULL;
    if (!of_row || !*index || !*weight || !beyond) {
        free(of_row);
        return FAIL_NOMEM();
    }
    for (int64_t i = 0; i < count; i++) {
        const double place = resize_place_of(w, axis, length, i), within = fmin(fmax(place, -2), (double)length + 1);
        const bool is_outside = crops(n) && (place < 0 || place > (double)(length - 1));

        fill_row(w, within, shrink, length, taps, (int64_t *)(*index)->data + i * taps, of_row);
        for (int k = 0; k < taps; k++)
            tensor_set_float(*weight, i * taps + k, of_row[k]);
        ((unsigned char *)beyond->data)[i] = is_outside;
        if (is_outside)
            *outside = beyond;
    }
    free(of_row);
    return ST_OK;
}

/* ---- Resize as Interpolates ---- */

/* Interpolates along an axis.  Types other than floats are gathered if a sample is a single element; else the caller
 * truncates float64 results, or rounds them with `antialias`, as ONNX Runtime does. */
static ValueId resize_take(Graph *g, ValueId x, int axis, const Tensor *indices, const Tensor *weights)
{
    const Attr *along = ATTRS(INT("axis", axis));
    const DType type = value(g, x)->dtype;
    ValueId index = graph_add_const_nocopy(g, "index", indices), weight = graph_add_const_nocopy(g, "weight", weights);

    if (dtype_is_float(type))
        return EMIT(g, Interpolate, along, x, index, weight);
    if (indices->shape.dim[1] == 1) {
        index = EMIT(g, Reshape, NULL, index, emit_ints(g, 1, (int64_t[]){ indices->shape.dim[0] }));
        return EMIT(g, Gather, along, x, index);
    }
    return EMIT(g, Interpolate, along, emit_cast(g, x, DT_FLOAT64), index, weight);
}

/* Replaces samples outside of the data by extrapolation_value. */
static ValueId put_outside(Graph *g, const Node *n, ValueId y, int axis, const Tensor *samples)
{
    const int rank = value(g, y)->shape->rank;
    Shape s = { .rank = rank };
    ValueId outside = graph_add_const_nocopy(g, "outside", samples);

    for (int i = 0; i < rank; i++)
        s.dim[i] = i == axis ? samples->shape.dim[0] : 1;
    outside = emit_reshape(g, outside, &s);
    return emit(g, &op_Where, NULL, 3,
                (ValueId[]){ outside, emit_scalar(g, value(g, y)->dtype, node_float(n, "extrapolation_value")), y });
}

static Status resize_lower(Graph *g, Node *n)
{
    const DType type = in_value(g, n, X)->dtype;
    const Shape x = *in_value(g, n, X)->shape;
    Tensor *index, *weight, *outside[MAX_RANK] = { NULL };
    ValueId y = n->in[X];
    Resampling w;

    if (!resize_is_known(g, n))
        return FAIL(E_UNSUPPORTED, "%s: scales or sizes depend on data, expected constants", node_text(g, n));
    TRY(read_resampling(&w, g, n));
    for (int i = 0; i < w.n; i++) {
        if (w.size[i] == x.dim[w.axis[i]] && w.scale[i] == 1 && !crops(n))
            continue;
        TRY(make_tables(&index, &weight, &outside[i], g, n, &w, i));
        if (!g->status)
            y = resize_take(g, y, w.axis[i], index, weight);
    }
    for (int i = 0; i < w.n && !g->status; i++)
        if (outside[i])
            y = put_outside(g, n, y, w.axis[i], outside[i]);
    if (node_int(n, "antialias") && !dtype_is_float(type) && !g->status && dtype_is_float(value(g, y)->dtype))
        y = EMIT(g, Round, NULL, y);
    y = emit_cast(g, y, type);
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

/* Up to opset 10 there were only scales, and sample i was at i / scale. */
static Status resize_import(Graph *g, Node *n, int opset)
{
    if (opset > 10)
        return ST_OK;
    node_set_string(g, n, "coordinate_transformation_mode", "asymmetric");
    node_set_string(g, n, "nearest_mode", "floor");
    if (n->n_in == 2) {
        const ValueId scales = n->in[1];

        node_set_input(g, n, 1, NO_VALUE);
        node_set_input(g, n, 2, scales);
    }
    return g->status;
}

DEFINE_OP(Resize, .since = 19, .from = 11, .in_min = 1, .in_max = 4, .out_min = 1, .out_max = 1, .dtypes = DTYPES_ALL,
          .setting_in = 14,
          .attrs =
              (const AttrDecl[]){
                  { "antialias", A_INT, .i = 0 },
                  { "axes", A_INTS, .range = R_AXIS },
                  { "coordinate_transformation_mode", A_STRING, .s = "half_pixel",
                    .words = "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners asymmetric "
                             "tf_crop_and_resize tf_half_pixel_for_nn" },
                  { "cubic_coeff_a", A_FLOAT, .f = -0.75 },
                  { "exclude_outside", A_INT, .i = 0 },
                  { "extrapolation_value", A_FLOAT, .f = 0 },
                  { "keep_aspect_ratio_policy", A_STRING, .s = "stretch", .words = "stretch not_larger not_smaller" },
                  { "mode", A_STRING, .s = "nearest", .words = "nearest linear cubic" },
                  { "nearest_mode", A_STRING, .s = "round_prefer_floor",
                    .words = "round_prefer_floor round_prefer_ceil floor ceil" },
                  { 0 } },
          .import = resize_import, .infer = resize_infer, .lower = resize_lower,
          .doc = "samples between elements, axis by axis");

/* ---- Upsample, which Resize replaced in opset 10 ---- */

/* In opset 7 the scales are an attribute. */
static Status import_upsample(Graph *g, Node *n, int opset)
{
    const Attr *scales = node_attr(n, "scales");
    Tensor *t;
    Shape s;

    (void)opset;
    if (!scales || scales->type != A_FLOATS)
        return ST_OK;
    s = SHAPE(scales->n);
    if (!(t = tensor_create(g->arena, DT_FLOAT32, &s)))
        return FAIL_NOMEM();
    for (int i = 0; i < scales->n; i++)
        tensor_set_float(t, i, scales->floats[i]);
    node_set_input(g, n, 1, graph_add_const_nocopy(g, "scales", t));
    node_remove_attr(g, n, "scales");
    return g->status;
}

static Status infer_upsample(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    const Tensor *scales = value_const(g, n->in[1]);
    Shape y = *x->shape, unknown = shape_unknown();

    set_out(g, n, 0, x->dtype, &unknown);
    if (!scales)
        return g->status;
    TRY(check_length(g, n, 1, x->shape->rank));
    for (int i = 0; i < y.rank; i++) {
        const double scale = tensor_float(scales, i);

        if (!(scale >= 1 && scale < INFINITY))
            return FAIL(E_MODEL, "%s: scale %.9g, expected 1 or more", node_text(g, n), scale);
        y.dim[i] = scaled((double)y.dim[i] * scale);
    }
    set_out(g, n, 0, x->dtype, &y);
    return g->status;
}

static Status lower_upsample(Graph *g, Node *n)
{
    const Attr *attrs = ATTRS(STRING("mode", node_string(n, "mode")),
                              STRING("coordinate_transformation_mode", "asymmetric"), STRING("nearest_mode", "floor"));
    ValueId y = EMIT(g, Resize, attrs, n->in[0], NO_VALUE, n->in[1]);

    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

DEFINE_OP(Upsample, .since = 9, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1, .dtypes = DTYPES_ALL,
          .setting_in = 2,
          .attrs = (const AttrDecl[]){ { "mode", A_STRING, .s = "nearest", .words = "nearest linear" }, { 0 } },
          .import = import_upsample, .infer = infer_upsample, .lower = lower_upsample,
          .doc = "samples between elements, axis by axis");
