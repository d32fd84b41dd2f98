/* Gradients of RoiAlign and MaxRoiPool (roi.c) in ONNX's operators.  Positions are computed as in the kernel
 * (kernels/ref/ref_roi.inc).
 *
 * Samples of a bin lie on a grid, so the gradient of their mean is share Ay^T dy Ax, where Ay[region, bin, row] is the
 * sum of a row's weights over the samples' heights; Ax is the same for columns.
 *
 * A maximum comes from one element, to whose gradient dy times the element's weight is added.  For it, data are rows
 * [sample * height * width, channels], and gradients rows [region * bin, channels]. */
#include "graph/ops/roi_standard.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/arg.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/roi.gen.h"
#include "graph/ops/scatter.gen.h"
#include "graph/ops/select.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"

typedef struct {
    Graph *g;
    const Node *n;
    DType type;
    ValueId rois;   /* [regions,4]; MaxRoiPool: [regions,5] */
    ValueId finite; /* bool[regions,1,1]: are all numbers of the region finite?  RoiAlign only */
    Shape x, y;
} Regions;

static ValueId roi_number(const Regions *r, double v) { return emit_scalar(r->g, r->type, v); }

static ValueId integer(const Regions *r, int64_t v) { return emit_scalar(r->g, DT_INT64, (double)v); }

static ValueId behind(Graph *g, ValueId v, int axis)
{
    return EMIT(g, Unsqueeze, NULL, v, emit_ints(g, 1, (int64_t[]){ axis }));
}

/* Column i of the regions, [regions,1,1]. */
static ValueId roi_column(const Regions *r, int64_t i)
{
    return behind(r->g, EMIT(r->g, Gather, ATTRS(INT("axis", 1)), r->rois, emit_ints(r->g, 1, (int64_t[]){ i })), 2);
}

/* 0, 1 ... count - 1, as [count] with `after` trailing axes of size 1. */
static ValueId roi_count(const Regions *r, DType type, int64_t count, int after)
{
    Shape s = { .rank = 1 + after, .dim = { count, 1, 1 } };
    Tensor *t = r->g->status ? NULL : tensor_create(r->g->arena, type, &s);

    if (!t) {
        graph_fail_nomem(r->g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < count; i++)
        dtype_is_float(type) ? tensor_set_float(t, i, (double)i) : tensor_set_int(t, i, i);
    return graph_add_const_nocopy(r->g, "count", t);
}

static Regions regions_of(Graph *g, const Node *n, DType type)
{
    return (Regions){ .g = g,
                      .n = n,
                      .type = type,
                      .rois = emit_cast(g, n->in[2], type),
                      .x = *in_value(g, n, 1)->shape,
                      .y = *in_value(g, n, 0)->shape };
}

/* ---- RoiAlign: samples ---- */

/* The bins along an axis. */
typedef struct {
    int64_t bins, size; /* number of bins; of elements */
    ValueId begin;      /* begin of each bin, [regions,bins,1] */
    ValueId bin;        /* size of a bin, [regions,1,1] */
    ValueId count;      /* samples of a bin: [regions,1,1], or a scalar */
    /* Mode max, for each sample: the two elements around it and their weights, [regions,bins,samples,2]; whether it is
     * listed and whether it is inside, [regions,bins,samples] or a shape that broadcasts to it. */
    ValueId place, weight, listed, inside;
} Axis;

static Axis roi_axis(const Regions *r, int axis)
{
    Graph *g = r->g;
    const bool half = !strcmp(node_string(r->n, "coordinate_transformation_mode"), "half_pixel");
    const int64_t ratio = node_int(r->n, "sampling_ratio");
    const ValueId scale = roi_number(r, node_float(r->n, "spatial_scale")), shift = roi_number(r, half ? 0.5 : 0);
    const ValueId start = EMIT(g, Sub, NULL, EMIT(g, Mul, NULL, roi_column(r, 1 - axis), scale), shift);
    const ValueId end = EMIT(g, Sub, NULL, EMIT(g, Mul, NULL, roi_column(r, 3 - axis), scale), shift);
    Axis a = { .bins = r->y.dim[2 + axis], .size = r->x.dim[2 + axis], .bin = EMIT(g, Sub, NULL, end, start) };

    if (!half)
        a.bin = EMIT(g, Max, NULL, a.bin, roi_number(r, 1));
    a.bin = EMIT(g, Div, NULL, a.bin, roi_number(r, (double)a.bins));
    if (ratio)
        a.count = roi_number(r, (double)ratio);
    else {
        a.count = EMIT(g, Ceil, NULL, a.bin);
        a.count = EMIT(g, Max, NULL, a.count, roi_number(r, 0));
    }
    a.begin = EMIT(g, Add, NULL, start, EMIT(g, Mul, NULL, roi_count(r, r->type, a.bins, 1), a.bin));
    return a;
}

/* The positions of samples i of all bins. */
static ValueId positions(const Regions *r, const Axis *a, ValueId i)
{
    Graph *g = r->g;
    const ValueId x = EMIT(g, Mul, NULL, EMIT(g, Add, NULL, i, roi_number(r, 0.5)), a->bin);

    return EMIT(g, Add, NULL, a->begin, EMIT(g, Div, NULL, x, a->count));
}

static ValueId roi_standard_within(const Regions *r, const Axis *a, ValueId x)
{
    Graph *g = r->g;
    const ValueId low = EMIT(g, GreaterOrEqual, NULL, x, roi_number(r, -1));

    return EMIT(g, And, NULL, low, EMIT(g, LessOrEqual, NULL, x, roi_number(r, (double)a->size)));
}

/* The number of samples of a bin before position `place`, as a float. */
static ValueId samples_before(const Regions *r, const Axis *a, double place)
{
    Graph *g = r->g;
    const ValueId step = EMIT(g, Div, NULL, a->bin, a->count);

    return EMIT(g, Div, NULL, EMIT(g, Sub, NULL, roi_number(r, place), a->begin), step);
}

/* ---- the mean ----
 *
 * The weight of a row for a sample is max(0, 1 - |position - row|), with the position clamped to the rows.  If the
 * number of samples depends on the region's size, samples are numbered from the first one within the data; they are
 * more than 1/2 apart, which limits their number. */

/* Sums of the weights of an axis over the samples, [regions,1,bins,size]. */
static ValueId mean_weights(const Regions *r, const Axis *a)
{
    Graph *g = r->g;
    const int64_t ratio = node_int(r->n, "sampling_ratio");
    ValueId i = roi_count(r, r->type, ratio ? ratio : 2 * a->size + 6, 0), x, any, low, weight;

    if (!ratio) {
        ValueId first = samples_before(r, a, -1);

        first = EMIT(g, Sub, NULL, first, roi_number(r, 1));
        first = EMIT(g, Floor, NULL, first);
        first = EMIT(g, Max, NULL, first, roi_number(r, 0));
        i = EMIT(g, Add, NULL, first, i);
    }
    x = positions(r, a, i);
    any = EMIT(g, And, NULL, roi_standard_within(r, a, x), r->finite);
    any = behind(g, EMIT(g, And, NULL, any, EMIT(g, Less, NULL, i, a->count)), 3);
    low = roi_number(r, 0);
    x = behind(g, EMIT(g, Clip, NULL, x, low, roi_number(r, (double)(a->size - 1))), 3);
    weight = EMIT(g, Abs, NULL, EMIT(g, Sub, NULL, x, roi_count(r, r->type, a->size, 0)));
    weight = EMIT(g, Sub, NULL, roi_number(r, 1), weight);
    weight = EMIT(g, Max, NULL, weight, roi_number(r, 0));
    weight = EMIT(g, Where, NULL, any, weight, roi_number(r, 0));
    return behind(g, emit_reduce_sum(g, weight, 1, (int64_t[]){ 2 }, false), 1);
}

static Status mean_grad(const Regions *r, const Axis axis[2])
{
    Graph *g = r->g;
    const ValueId columns = mean_weights(r, &axis[1]);
    ValueId rows = mean_weights(r, &axis[0]), share, several, d;

    share = EMIT(g, Mul, NULL, axis[0].count, axis[1].count); /* 1 over the number of samples, 1 without samples */
    several = EMIT(g, Greater, NULL, share, roi_number(r, 1));
    share = EMIT(g, Div, NULL, roi_number(r, 1), share);
    share = EMIT(g, Where, NULL, several, share, roi_number(r, 1));
    if (!g->status && value(g, share)->shape->rank)
        share = behind(g, share, 3);
    d = EMIT(g, Mul, NULL, r->n->in[0], share);
    d = EMIT(g, MatMul, NULL, d, columns);
    rows = emit_transpose(g, rows, 4, (int64_t[]){ 0, 1, 3, 2 });
    d = EMIT(g, MatMul, NULL, rows, d);
    d = EMIT(g, GatherGrad, ATTRS(INT("axis", 0), INT("dim", r->x.dim[0])), d, r->n->in[3]);
    graph_replace(g, r->n->out[0], d);
    return g->status;
}

/* ---- elements of maxima ---- */

static ValueId channels_last(Graph *g, ValueId x) { return emit_transpose(g, x, 4, (int64_t[]){ 0, 2, 3, 1 }); }

/* Emits dx: adds dy [regions * bins,channels] to rows `place` of it where `any` is true. */
static Status add_rows(const Regions *r, ValueId any, ValueId place, ValueId dy)
{
    Graph *g = r->g;
    const Shape rows = SHAPE(r->x.dim[0] * r->x.dim[2] * r->x.dim[3], r->x.dim[1]);
    const Shape last = SHAPE(r->x.dim[0], r->x.dim[2], r->x.dim[3], r->x.dim[1]);
    const Attr *adding = ATTRS(INT("axis", 0), STRING("reduction", "add"));
    ValueId d = emit_full(g, r->type, &rows, 0);

    place = EMIT(g, Where, NULL, any, place, integer(r, 0));
    dy = EMIT(g, Where, NULL, any, dy, roi_number(r, 0));
    d = emit_reshape(g, EMIT(g, ScatterElements, adding, d, place, dy), &last);
    d = emit_transpose(g, d, 4, (int64_t[]){ 0, 3, 1, 2 });
    graph_replace(g, r->n->out[0], emit_cast(g, d, in_value(g, r->n, 1)->dtype));
    return g->status;
}

/* The sample of each row of a gradient, times `by`: [regions * bins,1].  `of` [regions] int64: the region's sample. */
static ValueId sample_rows(const Regions *r, ValueId of, int64_t by)
{
    Graph *g = r->g;
    const Shape each = SHAPE(r->y.dim[0], r->y.dim[2] * r->y.dim[3]), rows = SHAPE(shape_numel(&each), 1);

    of = EMIT(g, Mul, NULL, of, integer(r, by));
    return emit_reshape(g, emit_expand(g, behind(g, of, 1), &each), &rows);
}

/* [regions,channels,h,w] as rows. */
static ValueId bin_rows(const Regions *r, ValueId y)
{
    const Shape rows = SHAPE(r->y.dim[0] * r->y.dim[2] * r->y.dim[3], r->y.dim[1]);

    return emit_reshape(r->g, channels_last(r->g, y), &rows);
}

/* ---- RoiAlign with mode max ----
 *
 * The result is the first largest product of an element and its weight in a bin; a sample outside of the data counts as
 * 0.  Only some samples are listed, but if any outside is left out, one outside is listed, too, before the first within
 * or after the last.  Two rows after those of the data stand for samples outside, 0, and for absent ones, -infinity. */

static ValueId roi_standard_both(Graph *g, ValueId a, ValueId b)
{
    a = behind(g, a, 3);
    return EMIT(g, Concat, ATTRS(INT("axis", 3)), a, behind(g, b, 3));
}

/* The numbers of the samples listed for each bin, [regions,bins,samples]: with a sampling ratio all of them, else those
 * within and at least one before and one after, if there are such. */
static ValueId list_samples(const Regions *r, const Axis *a, ValueId *listed)
{
    Graph *g = r->g;
    const int64_t ratio = node_int(r->n, "sampling_ratio");
    const ValueId most = roi_number(r, 0x1p50);
    ValueId first, n, k = roi_count(r, r->type, ratio, 0), any, finite, from;

    if (ratio) {
        *listed = r->finite;
        return k;
    }
    first = EMIT(g, Floor, NULL, samples_before(r, a, -1));
    first = EMIT(g, Sub, NULL, first, roi_number(r, 2));
    first = EMIT(g, Min, NULL, EMIT(g, Max, NULL, first, roi_number(r, 0)), a->count, most);
    n = EMIT(g, Ceil, NULL, samples_before(r, a, (double)a->size));
    n = EMIT(g, Add, NULL, n, roi_number(r, 3));
    n = EMIT(g, Sub, NULL, EMIT(g, Min, NULL, n, a->count, most), first);
    any = EMIT(g, And, NULL, EMIT(g, Greater, NULL, n, roi_number(r, 0)), r->finite);
    finite = EMIT(g, Sub, NULL, a->bin, a->bin);
    any = EMIT(g, And, NULL, any, EMIT(g, Equal, NULL, finite, roi_number(r, 0)));
    first = EMIT(g, Where, NULL, any, first, roi_number(r, 0));
    n = EMIT(g, Where, NULL, any, n, roi_number(r, 0));
    k = emit_cast(g, EMIT(g, ReduceMax, ATTRS(INT("keepdims", 0)), n), DT_INT64);
    from = integer(r, 0);
    k = EMIT(g, Max, NULL, k, integer(r, 1));
    k = EMIT(g, Range, NULL, from, k, integer(r, 1));
    k = EMIT(g, Cast, ATTRS(INT("to", r->type)), k);
    *listed = EMIT(g, Less, NULL, k, n);
    return EMIT(g, Add, NULL, first, k);
}

/* Sets the axis's values of each sample. */
static void find_samples(const Regions *r, Axis *a)
{
    Graph *g = r->g;
    const ValueId last = roi_number(r, (double)(a->size - 1)), one = roi_number(r, 1);
    const Attr *integers = ATTRS(INT("to", DT_INT64));
    ValueId x = positions(r, a, list_samples(r, a, &a->listed)), at, next, before_last;

    a->inside = EMIT(g, And, NULL, roi_standard_within(r, a, x), a->listed);
    x = EMIT(g, Where, NULL, a->inside, x, roi_number(r, 0));
    x = EMIT(g, Max, NULL, x, roi_number(r, 0));
    at = EMIT(g, Min, NULL, EMIT(g, Floor, NULL, x), last);
    next = EMIT(g, Min, NULL, EMIT(g, Add, NULL, at, one), last);
    x = EMIT(g, Sub, NULL, x, at);
    before_last = EMIT(g, Less, NULL, at, last);
    x = EMIT(g, Where, NULL, before_last, x, roi_number(r, 0));
    a->place = EMIT(g, Cast, integers, roi_standard_both(g, at, next));
    a->weight = roi_standard_both(g, EMIT(g, Sub, NULL, one, x), x);
}

/* Reshapes [regions,bins,samples,2] (`pairs`) or [regions,bins,samples] of an axis to broadcast to
 * [regions,h,w,samples,samples,2,2]. */
static ValueId spread(const Regions *r, ValueId v, int axis, bool pairs)
{
    const int64_t rows[] = { 2, 4, 6, 5 }, columns[] = { 1, 3, 5, 6 };

    return EMIT(r->g, Unsqueeze, NULL, v, emit_ints(r->g, pairs ? 3 : 4, axis ? columns : rows));
}

static ValueId in_both(const Regions *r, ValueId rows, ValueId columns)
{
    rows = spread(r, rows, 0, false);
    return EMIT(r->g, And, NULL, rows, spread(r, columns, 1, false));
}

/* v reshaped to s; a shape of v that depends on data is marked as unknown first. */
static ValueId settled(const Regions *r, ValueId v, DType type, const Shape *s)
{
    const Shape unknown = shape_unknown();

    if (!r->g->status && !shape_known(value(r->g, v)->shape))
        set_out(r->g, value(r->g, v)->producer, 0, type, &unknown);
    return emit_reshape(r->g, v, s);
}

/* The rows and weights of all products of each bin, [regions,h,w,products]. */
static void all_products(const Regions *r, const Axis axis[2], ValueId *place, ValueId *weight)
{
    Graph *g = r->g;
    const int64_t plane = r->x.dim[2] * r->x.dim[3], none = r->x.dim[0] * plane;
    const Shape first = SHAPE(r->y.dim[0], 1, 1, 1, 1, 1, 1), flat = SHAPE(r->y.dim[0], r->y.dim[2], r->y.dim[3], -1);
    const ValueId inside = in_both(r, axis[0].inside, axis[1].inside),
                  listed = in_both(r, axis[0].listed, axis[1].listed);
    ValueId of = emit_reshape(g, r->n->in[3], &first);

    of = EMIT(g, Mul, NULL, of, integer(r, plane));
    *place = spread(r, axis[0].place, 0, true);
    *place = EMIT(g, Mul, NULL, *place, integer(r, r->x.dim[3]));
    *place = EMIT(g, Add, NULL, *place, of);
    *place = EMIT(g, Add, NULL, *place, spread(r, axis[1].place, 1, true));
    *place = EMIT(g, Where, NULL, inside, *place, integer(r, none));
    *place = EMIT(g, Where, NULL, listed, *place, integer(r, none + 1));
    *weight = spread(r, axis[0].weight, 0, true);
    *weight = EMIT(g, Mul, NULL, *weight, spread(r, axis[1].weight, 1, true));
    *weight = EMIT(g, Where, NULL, inside, *weight, roi_number(r, 1));
    *place = EMIT(g, Reshape, NULL, *place, emit_shape_const(g, &flat));
    *weight = EMIT(g, Reshape, NULL, *weight, emit_shape_const(g, &flat));
}

/* x as rows, and the two additional rows. */
static ValueId data_rows(const Regions *r)
{
    Graph *g = r->g;
    const Shape rows = SHAPE(r->x.dim[0] * r->x.dim[2] * r->x.dim[3], r->x.dim[1]), one = SHAPE(1, r->x.dim[1]);
    const ValueId x = channels_last(g, emit_cast(g, r->n->in[1], r->type)), data = emit_reshape(g, x, &rows);
    const ValueId outside = emit_full(g, r->type, &one, 0), absent = emit_full(g, r->type, &one, -INFINITY);

    return EMIT(g, Concat, ATTRS(INT("axis", 0)), data, outside, absent);
}

static Status largest_grad(const Regions *r, Axis axis[2])
{
    Graph *g = r->g;
    const Shape rows = SHAPE(r->y.dim[0] * r->y.dim[2] * r->y.dim[3], r->y.dim[1]);
    const ValueId x = data_rows(r), dy = bin_rows(r, emit_cast(g, r->n->in[0], r->type));
    const Attr *along = ATTRS(INT("axis", 3)), *first = ATTRS(INT("axis", 0));
    ValueId place, weight, which, any, most, nan, infinity;

    for (int a = 0; a < 2; a++)
        find_samples(r, &axis[a]);
    all_products(r, axis, &place, &weight);
    which = EMIT(g, Unsqueeze, NULL, weight, emit_ints(g, 1, (int64_t[]){ 4 }));
    which = EMIT(g, Mul, NULL, EMIT(g, Gather, first, x, place), which);
    /* The first largest product: a NaN is larger than all numbers, an infinity counts as the largest finite number. */
    most = roi_number(r, r->type == DT_FLOAT64 ? DBL_MAX : (double)FLT_MAX);
    nan = EMIT(g, IsNaN, NULL, which);
    infinity = roi_number(r, INFINITY);
    which = EMIT(g, Where, NULL, nan, infinity, EMIT(g, Min, NULL, which, most));
    which = EMIT(g, ArgMax, ATTRS(INT("axis", 3), INT("keepdims", 0)), which);
    place = settled(r, EMIT(g, GatherElements, along, place, which), DT_INT64, &rows);
    weight = settled(r, EMIT(g, GatherElements, along, weight, which), r->type, &rows);
    any = EMIT(g, Less, NULL, place, integer(r, r->x.dim[0] * r->x.dim[2] * r->x.dim[3]));
    return add_rows(r, any, place, EMIT(g, Mul, NULL, weight, dy));
}

#define MAX_PRODUCTS ((int64_t)1 << 31) /* of all bins, with a sampling ratio */

static DType wide_type(const Graph *g, const Node *n)
{
    return in_value(g, n, 1)->dtype == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32;
}

static Status no_gradient(Graph *g, const Node *n)
{
    graph_replace(g, n->out[0], emit_zeros_like(g, n->in[1]));
    return g->status;
}

Status roi_standard_align_grad(Graph *g, Node *n)
{
    const bool mean = !strcmp(node_string(n, "mode"), "avg");
    const int64_t ratio = node_int(n, "sampling_ratio");
    Regions r = regions_of(g, n, mean ? in_value(g, n, 0)->dtype : wide_type(g, n));
    Axis axis[2];

    if (!shape_numel(&r.x) || !shape_numel(&r.y))
        return no_gradient(g, n);
    if (!mean && 4 * ratio * ratio > MAX_PRODUCTS / shape_numel(&r.y))
        return ST_OK;
    r.finite = emit_reduce_sum(g, EMIT(g, Mul, NULL, r.rois, roi_number(&r, 0)), 1, (int64_t[]){ 1 }, true);
    r.finite = behind(g, EMIT(g, Equal, NULL, r.finite, roi_number(&r, 0)), 2);
    for (int a = 0; a < 2; a++)
        axis[a] = roi_axis(&r, a);
    return mean ? mean_grad(&r, axis) : largest_grad(&r, axis);
}

/* ---- MaxRoiPool ----
 *
 * MaxRoiPool itself finds the largest element, from ranks that are all different and less than 0, the result of a bin
 * without elements: -1 - p for a NaN at place p, and after these -1 - places - p for the p-th largest number. */

/* The ranks [samples,channels,h,w], and the place of each rank: rows [samples * 2 places,channels]. */
static void number_places(const Regions *r, ValueId *numbers, ValueId *places)
{
    Graph *g = r->g;
    const int64_t plane = r->x.dim[2] * r->x.dim[3];
    const Shape flat = SHAPE(r->x.dim[0], r->x.dim[1], plane), rows = SHAPE(r->x.dim[0] * 2 * plane, r->x.dim[1]);
    const ValueId x = emit_reshape(g, emit_cast(g, r->n->in[1], r->type), &flat), nan = EMIT(g, IsNaN, NULL, x);
    const ValueId count = emit_expand(g, roi_count(r, DT_INT64, plane, 0), &flat);
    const ValueId minus_one = roi_number(r, -1), which = EMIT(g, Sub, NULL, minus_one, roi_count(r, r->type, plane, 0)),
                  without_nan = EMIT(g, Where, NULL, nan, roi_number(r, 0), x);
    ValueId order[2], behind_nan, rank;

    EMIT_MULTI(g, TopK, ATTRS(INT("axis", 2)), 2, order, without_nan, emit_ints(g, 1, &plane));
    rank = EMIT(g, ScatterElements, ATTRS(INT("axis", 2)), emit_zeros_like(g, count), order[1], count);
    behind_nan = roi_number(r, (double)(-1 - plane));
    rank = EMIT(g, Sub, NULL, behind_nan, emit_cast(g, rank, r->type));
    *numbers = emit_reshape(g, EMIT(g, Where, NULL, nan, which, rank), &r->x);
    *places = EMIT(g, Concat, ATTRS(INT("axis", 2)), count, order[1]);
    *places = emit_reshape(g, emit_transpose(g, *places, 3, (int64_t[]){ 0, 2, 1 }), &rows);
}

Status roi_standard_max_grad(Graph *g, Node *n)
{
    const Regions r = regions_of(g, n, wide_type(g, n));
    const int64_t plane = r.x.dim[2] * r.x.dim[3], exact = (int64_t)1 << (r.type == DT_FLOAT64 ? 52 : 23);
    const Attr *attrs =
        ATTRS(INTS("pooled_shape", 2, &r.y.dim[2]), FLOAT("spatial_scale", node_float(n, "spatial_scale")));
    const Shape regions = SHAPE(r.y.dim[0]);
    ValueId of, any, which, places;

    if (!shape_numel(&r.x) || !shape_numel(&r.y))
        return no_gradient(g, n);
    if (plane >= exact)
        return ST_OK;
    of = EMIT(g, Gather, ATTRS(INT("axis", 1)), r.rois, emit_ints(g, 1, (int64_t[]){ 0 }));
    of = emit_cast(g, emit_reshape(g, of, &regions), DT_INT64);
    number_places(&r, &which, &places);
    which = bin_rows(&r, EMIT(g, MaxRoiPool, attrs, which, r.rois));
    any = EMIT(g, Less, NULL, which, roi_number(&r, 0));
    which = EMIT(g, Sub, NULL, roi_number(&r, -1), which);
    which = EMIT(g, Where, NULL, any, which, roi_number(&r, 0));
    which = emit_cast(g, which, DT_INT64);
    which = EMIT(g, Add, NULL, which, sample_rows(&r, of, 2 * plane));
    which = EMIT(g, GatherElements, ATTRS(INT("axis", 0)), places, which);
    which = EMIT(g, Add, NULL, which, sample_rows(&r, of, plane));
    return add_rows(&r, any, which, bin_rows(&r, emit_cast(g, n->in[0], r.type)));
}
