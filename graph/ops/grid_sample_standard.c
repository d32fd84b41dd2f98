/* GridSample with "elements" and GridSampleGrad (grid_sample.c) in ONNX's operators.
 *
 * A sample reads 1 (nearest), 2 (linear) or 4 (cubic) elements, its taps, along each axis, and so taps^axes corners.
 * With M positions all corners form [N,corners*M]: dx adds dy times their weights at their elements, dgrid sums dy x
 * over the channels, times the derivatives of the weights.  Positions are computed as in the kernel
 * (kernels/ref/ref_grid_sample.inc). */
#include "graph/ops/grid_sample_standard.h"

#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/grid_sample.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/scatter.gen.h"
#include "graph/ops/unary.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"

enum { AXES = 3, TAPS = 4, CORNERS = TAPS * TAPS * TAPS };
typedef enum { ZEROS, BORDER, REFLECTION } Padding;

typedef struct {
    Graph *g;
    const Node *n;
    DType type;
    int axes, taps, corners;
    bool align, elements;
    Padding padding;
    Shape flat;                                 /* [N,M] */
    ValueId at[AXES][TAPS], weight[AXES][TAPS]; /* int64 and floats, [N,M]; an element outside has weight 0 */
    ValueId slope[AXES][TAPS];                  /* derivatives of the weights by the grid's number */
} Taps;

static ValueId number(const Taps *t, double v) { return emit_scalar(t->g, t->type, v); }
static ValueId product(const Taps *t, ValueId a, ValueId b) { return EMIT(t->g, Mul, NULL, a, b); }
static ValueId sum(const Taps *t, ValueId a, ValueId b) { return EMIT(t->g, Add, NULL, a, b); }

/* v, or `other` where the condition is false. */
static ValueId grid_sample_standard_choose(const Taps *t, ValueId condition, ValueId v, double other)
{
    return EMIT(t->g, Where, NULL, condition, v, number(t, other));
}

/* x clamped to [low, high]; NaN gives low. */
static ValueId grid_sample_standard_kept(const Taps *t, ValueId x, double low, double high)
{
    const ValueId capped = EMIT(t->g, Min, NULL, x, number(t, high));

    return grid_sample_standard_choose(t, EMIT(t->g, Greater, NULL, x, number(t, low)), capped, low);
}

/* ---- positions ---- */

static double low_end(const Taps *t) { return t->align ? 0 : -0.5; }

static ValueId grid_sample_standard_within(const Taps *t, ValueId x, double low, double high)
{
    const ValueId above = EMIT(t->g, GreaterOrEqual, NULL, x, number(t, low));

    return EMIT(t->g, And, NULL, above, EMIT(t->g, LessOrEqual, NULL, x, number(t, high)));
}

/* x mirrored at both ends of the elements until it lies between them; *sign receives the derivative. */
static ValueId reflected(const Taps *t, ValueId x, int64_t dim, ValueId *sign)
{
    Graph *g = t->g;
    const double low = low_end(t), range = (double)(dim - 1) - 2 * low;
    const Attr *floats = ATTRS(INT("fmod", 1));
    ValueId away, even, rest, back, minus_one;

    if (!(range > 0)) {
        *sign = number(t, 0);
        return emit_full(g, t->type, &t->flat, 0);
    }
    away = EMIT(g, Abs, NULL, EMIT(g, Sub, NULL, x, number(t, low)));
    even = EMIT(g, Floor, NULL, EMIT(g, Div, NULL, away, number(t, range)));
    even = EMIT(g, Mod, floats, even, number(t, 2));
    even = EMIT(g, Equal, NULL, even, number(t, 0));
    rest = EMIT(g, Mod, floats, away, number(t, range));
    back = EMIT(g, Sub, NULL, number(t, low + range), rest);
    *sign = EMIT(g, Equal, NULL, EMIT(g, Less, NULL, x, number(t, low)), even);
    minus_one = number(t, -1);
    *sign = EMIT(g, Where, NULL, *sign, minus_one, number(t, 1));
    return EMIT(g, Where, NULL, even, sum(t, rest, number(t, low)), back);
}

static bool is_mode(const Taps *t, const char *mode) { return !strcmp(node_string(t->n, "mode"), mode); }

/* Positions x moved inside by reflection; *slope receives the derivative by x. */
static ValueId reflect_all(const Taps *t, ValueId x, int64_t dim, ValueId *slope)
{
    Graph *g = t->g;
    const double low = low_end(t), end = (double)(dim - 1);
    const ValueId inside = grid_sample_standard_within(t, x, low, end - low);
    ValueId sign, y = reflected(t, x, dim, &sign), in;
    ValueId finite = EMIT(g, Sub, NULL, x, x);

    finite = EMIT(g, Equal, NULL, finite, number(t, 0));
    y = grid_sample_standard_choose(t, finite, EMIT(g, Where, NULL, inside, x, y), 0);
    *slope = grid_sample_standard_choose(t, finite, EMIT(g, Where, NULL, inside, number(t, 1), sign), 0);
    if (!is_mode(t, "linear"))
        return y;
    in = EMIT(g, Greater, NULL, y, number(t, 0));
    in = EMIT(g, And, NULL, in, EMIT(g, Less, NULL, y, number(t, end)));
    *slope = grid_sample_standard_choose(t, in, *slope, 0);
    return y;
}

/* Element positions along an axis, [N,M]; *slope receives their derivative by the grid's coordinate. */
static ValueId positions(const Taps *t, int axis, int64_t dim, ValueId *slope)
{
    Graph *g = t->g;
    const int last = in_value(g, t->n, 2)->shape->rank - 1, column = t->elements ? axis : t->axes - 1 - axis;
    const double end = (double)(dim - 1), by = t->elements ? 1 : t->align ? end / 2 : (double)dim / 2;
    ValueId in, x = EMIT(g, Gather, ATTRS(INT("axis", last)), t->n->in[2], emit_scalar(g, DT_INT64, (double)column));

    x = emit_reshape(g, x, &t->flat);
    if (!t->elements) {
        const ValueId factor = number(t, by);

        x = product(t, sum(t, x, number(t, 1)), factor);
    }
    if (!t->elements && !t->align)
        x = EMIT(g, Sub, NULL, x, number(t, 0.5));
    if (is_mode(t, "nearest"))
        x = EMIT(g, Round, NULL, x);
    *slope = number(t, by);
    if (t->padding == ZEROS || (t->padding == BORDER && is_mode(t, "cubic"))) /* positions far outside are equivalent */
        return grid_sample_standard_kept(t, x, -3, (double)dim + 2);
    if (t->padding == REFLECTION) {
        x = reflect_all(t, x, dim, &in);
        *slope = product(t, *slope, in);
        return x;
    }
    in = EMIT(g, Greater, NULL, x, number(t, 0));
    in = EMIT(g, And, NULL, in, EMIT(g, Less, NULL, x, number(t, end)));
    *slope = grid_sample_standard_choose(t, in, *slope, 0);
    return grid_sample_standard_kept(t, x, 0, end);
}

/* ---- taps ---- */

/* c[0] u^3 + c[1] u^2 + c[2] u + c[3] */
static ValueId polynomial(const Taps *t, ValueId u, const double c[4])
{
    ValueId y = number(t, c[0]);

    for (int i = 1; i < 4; i++) {
        const ValueId next = number(t, c[i]);

        y = sum(t, product(t, y, u), next);
    }
    return y;
}

/* The weight of tap k of a position `behind` past its base element, and the derivative by it (Keys, 1981, with
 * a = -0.75). */
static void cubic_weight(const Taps *t, ValueId behind, int k, ValueId *weight, ValueId *slope)
{
    static const double a = -0.75;
    static const double near[4] = { a + 2, -(a + 3), 0, 1 }, far[4] = { a, -5 * a, 8 * a, -4 * a };
    static const double near_slope[4] = { 0, 3 * (a + 2), -2 * (a + 3), 0 },
                        far_slope[4] = { 0, 3 * a, -10 * a, 8 * a };
    const bool is_near = k == 1 || k == 2;
    const ValueId u = k < 2 ? sum(t, behind, number(t, 1 - k)) : EMIT(t->g, Sub, NULL, number(t, k - 1), behind);

    *weight = polynomial(t, u, is_near ? near : far);
    *slope = polynomial(t, u, is_near ? near_slope : far_slope);
    if (k >= 2)
        *slope = EMIT(t->g, Neg, NULL, *slope);
}

/* Emits elements, weights and slopes of the taps along an axis of size dim. */
static void find_taps(Taps *t, int axis, int64_t dim)
{
    Graph *g = t->g;
    ValueId by;
    const ValueId x = positions(t, axis, dim, &by), base = EMIT(g, Floor, NULL, x);
    const ValueId behind = EMIT(g, Sub, NULL, x, base), last = number(t, (double)(dim - 1));

    for (int k = 0; k < t->taps; k++) {
        ValueId at = sum(t, base, number(t, k - (t->taps == TAPS))), weight, slope, sign;
        const ValueId inside = grid_sample_standard_within(t, at, 0, (double)(dim - 1));

        if (t->taps == TAPS)
            cubic_weight(t, behind, k, &weight, &slope);
        else if (t->taps == 2) {
            weight = k ? behind : EMIT(g, Sub, NULL, number(t, 1), behind);
            slope = number(t, k ? 1 : -1);
        } else {
            weight = emit_full(g, t->type, &t->flat, 1);
            slope = emit_full(g, t->type, &t->flat, 0);
        }
        slope = product(t, slope, by);
        if (t->padding == ZEROS) {
            weight = grid_sample_standard_choose(t, inside, weight, 0);
            slope = grid_sample_standard_choose(t, inside, slope, 0);
        } else if (t->padding == REFLECTION && dim > 1)
            at = EMIT(g, Where, NULL, inside, at, reflected(t, at, dim, &sign));
        t->at[axis][k] = emit_cast(g, EMIT(g, Clip, NULL, at, number(t, 0), last), DT_INT64);
        t->weight[axis][k] = weight;
        t->slope[axis][k] = slope;
    }
}

/* ---- corners ---- */

/* The tap along axis a of corner k. */
static int tap_of(const Taps *t, int k, int a)
{
    while (a--)
        k /= t->taps;
    return k % t->taps;
}

/* The weight of corner k, or its derivative along axis `by`. */
static ValueId corner_weight(const Taps *t, int k, int by)
{
    ValueId y = NO_VALUE;

    for (int a = 0; a < t->axes; a++) {
        const int tap = tap_of(t, k, a);
        const ValueId one = a == by ? t->slope[a][tap] : t->weight[a][tap];

        y = a ? product(t, y, one) : one;
    }
    return y;
}

/* The flat index of corner k in the spatial axes of x. */
static ValueId corner_place(const Taps *t, int k, const Shape *x)
{
    Graph *g = t->g;
    ValueId y = t->at[0][tap_of(t, k, 0)];

    for (int a = 1; a < t->axes; a++) {
        y = EMIT(g, Mul, NULL, y, emit_scalar(g, DT_INT64, (double)x->dim[2 + a]));
        y = EMIT(g, Add, NULL, y, t->at[a][tap_of(t, k, a)]);
    }
    return y;
}

/* Concatenates values of all corners to [N,1,corners*M]. */
static ValueId all_corners(const Taps *t, const ValueId *corner)
{
    const ValueId y = emit(t->g, &op_Concat, ATTRS(INT("axis", 1)), t->corners, corner);

    return EMIT(t->g, Unsqueeze, NULL, y, emit_ints(t->g, 1, (int64_t[]){ 1 }));
}

static void gradients(const Taps *t, ValueId place, ValueId dy)
{
    Graph *g = t->g;
    const Node *n = t->n;
    const Shape *x = in_value(g, n, 1)->shape, *grid = in_value(g, n, 2)->shape;
    const int64_t elements = shape_count(x, 2, x->rank), channels = 1;
    const Shape rows = SHAPE(x->dim[0], x->dim[1], elements);
    ValueId part[CORNERS], d[AXES], y;

    for (int k = 0; k < t->corners; k++)
        part[k] = corner_weight(t, k, -1);
    if (has_out(n, 0)) {
        y = emit_full(g, t->type, &rows, 0);
        y = EMIT(g, ScatterElements, ATTRS(INT("axis", 2), STRING("reduction", "add")), y, place,
                 product(t, dy, all_corners(t, part)));
        graph_replace(g, n->out[0], emit_reshape(g, y, x));
    }
    if (!has_out(n, 1))
        return;
    y = EMIT(g, GatherElements, ATTRS(INT("axis", 2)), emit_reshape(g, n->in[1], &rows), place);
    y = emit_reduce_sum(g, product(t, y, dy), 1, &channels, true);
    for (int a = 0; a < t->axes; a++) {
        const Shape apart = { .rank = 3, .dim = { t->flat.dim[0], t->corners, t->flat.dim[1] } };
        ValueId slope;

        for (int k = 0; k < t->corners; k++)
            part[k] = corner_weight(t, k, a);
        slope = product(t, y, all_corners(t, part));
        slope = emit_reduce_sum(g, emit_reshape(g, slope, &apart), 1, &channels, false);
        d[t->elements ? a : t->axes - 1 - a] = EMIT(g, Unsqueeze, NULL, slope, emit_ints(g, 1, (int64_t[]){ 2 }));
    }
    y = t->axes == 1 ? d[0] : emit(g, &op_Concat, ATTRS(INT("axis", 2)), t->axes, d);
    graph_replace(g, n->out[1], emit_reshape(g, y, grid));
}

Status grid_sample_standard_grad(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 1)->shape, *y = in_value(g, n, 0)->shape;
    const int64_t places = shape_count(y, 2, y->rank);
    const char *mode = node_string(n, "mode"), *padding = node_string(n, "padding_mode");
    const Shape rows = SHAPE(y->dim[0], y->dim[1], places);
    Shape all = rows;
    Taps t = { .g = g,
               .n = n,
               .type = in_value(g, n, 0)->dtype,
               .axes = x->rank - 2,
               .align = node_int(n, "align_corners") != 0,
               .elements = node_int(n, "elements") != 0,
               .taps = !strcmp(mode, "nearest")  ? 1
                       : !strcmp(mode, "linear") ? 2
                                                 : TAPS,
               .padding = !strcmp(padding, "zeros")    ? ZEROS
                          : !strcmp(padding, "border") ? BORDER
                                                       : REFLECTION,
               .corners = 1,
               .flat = SHAPE(y->dim[0], places) };
    ValueId corner[CORNERS], dy[CORNERS], place;

    if (!shape_numel(y))
        return ST_OK;
    for (int a = 0; a < t.axes; a++, t.corners *= t.taps)
        find_taps(&t, a, x->dim[2 + a]);
    for (int k = 0; k < t.corners; k++) {
        corner[k] = corner_place(&t, k, x);
        dy[k] = emit_reshape(g, n->in[0], &rows);
    }
    all.dim[2] = places * t.corners;
    place = emit_expand(g, all_corners(&t, corner), &all);
    gradients(&t, place, emit(g, &op_Concat, ATTRS(INT("axis", 2)), t.corners, dy));
    return g->status;
}

/* ---- forward ---- */

/* A constant with a number for each axis, the last axis first: 2 / dim, or with `shift` 1 / dim - 1. */
static ValueId by_axis(Graph *g, DType type, const Shape *x, bool shift)
{
    const int axes = x->rank - 2;
    const Shape shape = SHAPE(axes);
    Tensor *all = tensor_create(g->arena, type, &shape);

    if (!all) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int a = 0; a < axes; a++) {
        const double dim = (double)x->dim[x->rank - 1 - a];

        tensor_set_float(all, a, shift ? 1 / dim - 1 : 2 / dim);
    }
    return graph_add_const_nocopy(g, shift ? "shift" : "scale", all);
}

/* Element position p has coordinate (2 p + 1) / dim - 1, with -1 and 1 at the outer edges; coordinates list the last
 * axis first.  Not for padding reflection, whose mirrors would be elsewhere. */
Status grid_sample_standard(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    const int axes = x->shape->rank - 2, last = in_value(g, n, 1)->shape->rank - 1;
    int64_t order[AXES];
    ValueId grid;

    if (!node_int(n, "elements") || !strcmp(node_string(n, "padding_mode"), "reflection") || !shape_numel(x->shape))
        return ST_OK;
    for (int a = 0; a < axes; a++)
        order[a] = axes - 1 - a;
    grid = EMIT(g, Gather, ATTRS(INT("axis", last)), n->in[1], emit_ints(g, axes, order));
    grid = EMIT(g, Mul, NULL, grid, by_axis(g, x->dtype, x->shape, false));
    grid = EMIT(g, Add, NULL, grid, by_axis(g, x->dtype, x->shape, true));
    graph_replace(
        g, n->out[0],
        EMIT(g, GridSample,
             ATTRS(STRING("mode", node_string(n, "mode")), STRING("padding_mode", node_string(n, "padding_mode"))),
             n->in[0], grid));
    return g->status;
}
