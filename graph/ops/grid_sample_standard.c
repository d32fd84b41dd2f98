/* GridSampleGrad (grid_sample.c) in ONNX's operators, of linear samples whose padding is zeros or the border.
 *
 * A sample has two elements along each axis, and 2^axes corners.  All corners stand behind each other, [N,corners*M]
 * with M positions: dx adds dy times their weights where they are, dgrid sums dy x over the channels, times the
 * derivatives of the weights. */
#include <string.h>

#include "graph/emit.h"
#include "graph/ops/grid_sample_standard.h"

enum { AXES = 3, CORNERS = 1 << AXES };

typedef struct {
    Graph *g;
    const Node *n;
    DType type;
    int axes;
    bool align, zeros;
    Shape flat;                           /* [N,M] */
    ValueId at[AXES][2], weight[AXES][2]; /* int64 and floats, [N,M]; an element outside has no weight */
    ValueId slope[AXES][2];               /* derivatives of the weights by the grid's number */
} Taps;

static ValueId number(const Taps *t, double v) { return emit_scalar(t->g, t->type, v); }
static ValueId product(const Taps *t, ValueId a, ValueId b) { return EMIT(t->g, Mul, NULL, a, b); }

/* Places among the elements of an axis, [N,M], and their derivative by the grid's number. */
static ValueId positions(const Taps *t, int axis, int64_t dim, ValueId *slope)
{
    Graph *g = t->g;
    const int last = in_value(g, t->n, 2)->shape->rank - 1;
    const double end = (double)(dim - 1), by = t->align ? end / 2 : (double)dim / 2;
    ValueId x = EMIT(g, Gather, ATTRS(INT("axis", last)), t->n->in[2],
                     emit_scalar(g, DT_INT64, (double)(t->axes - 1 - axis))),
            in;

    x = emit_reshape(g, x, &t->flat);
    x = product(t, EMIT(g, Add, NULL, x, number(t, 1)), number(t, by));
    *slope = number(t, by);
    if (!t->align)
        x = EMIT(g, Sub, NULL, x, number(t, 0.5));
    if (t->zeros) { /* far outside it does not matter where; what is no number is outside */
        in = EMIT(g, Greater, NULL, x, number(t, -3));
        return EMIT(g, Where, NULL, in, EMIT(g, Min, NULL, x, number(t, (double)dim + 2)), number(t, -3));
    }
    in = EMIT(g, And, NULL, EMIT(g, Greater, NULL, x, number(t, 0)), EMIT(g, Less, NULL, x, number(t, end)));
    *slope = EMIT(g, Where, NULL, in, *slope, number(t, 0));
    in = EMIT(g, Greater, NULL, x, number(t, 0));
    return EMIT(g, Where, NULL, in, EMIT(g, Min, NULL, x, number(t, end)), number(t, 0));
}

static void find_taps(Taps *t, int axis, int64_t dim)
{
    Graph *g = t->g;
    ValueId slope;
    const ValueId x = positions(t, axis, dim, &slope), base = EMIT(g, Floor, NULL, x);
    const ValueId behind = EMIT(g, Sub, NULL, x, base), none = number(t, 0), last = number(t, (double)(dim - 1));

    for (int k = 0; k < 2; k++) {
        const ValueId at = k ? EMIT(g, Add, NULL, base, number(t, 1)) : base;
        const ValueId inside =
            EMIT(g, And, NULL, EMIT(g, GreaterOrEqual, NULL, at, none), EMIT(g, LessOrEqual, NULL, at, last));
        ValueId weight = k ? behind : EMIT(g, Sub, NULL, number(t, 1), behind);
        ValueId by = k ? slope : EMIT(g, Neg, NULL, slope);

        t->at[axis][k] = emit_cast(g, EMIT(g, Clip, NULL, at, none, last), DT_INT64);
        t->weight[axis][k] = EMIT(g, Where, NULL, inside, weight, none);
        t->slope[axis][k] = EMIT(g, Where, NULL, inside, by, none);
    }
}

/* The weight of corner k, or its derivative along axis `by`. */
static ValueId corner_weight(const Taps *t, int k, int by)
{
    ValueId y = NO_VALUE;

    for (int a = 0; a < t->axes; a++) {
        const int tap = k >> a & 1;
        const ValueId one = a == by ? t->slope[a][tap] : t->weight[a][tap];

        y = a ? product(t, y, one) : one;
    }
    return y;
}

static ValueId corner_place(const Taps *t, int k, const Shape *x)
{
    Graph *g = t->g;
    ValueId y = t->at[0][k & 1];

    for (int a = 1; a < t->axes; a++) {
        y = EMIT(g, Mul, NULL, y, emit_scalar(g, DT_INT64, (double)x->dim[2 + a]));
        y = EMIT(g, Add, NULL, y, t->at[a][k >> a & 1]);
    }
    return y;
}

/* Of all corners, [N,1,corners*M]. */
static ValueId all_corners(const Taps *t, const ValueId *corner)
{
    const ValueId y = emit(t->g, &op_Concat, ATTRS(INT("axis", 1)), 1 << t->axes, corner);

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

    for (int k = 0; k < 1 << t->axes; k++)
        part[k] = corner_weight(t, k, -1);
    if (has_out(n, 0)) {
        y = EMIT(g, ScatterElements, ATTRS(INT("axis", 2), STRING("reduction", "add")), emit_full(g, t->type, &rows, 0),
                 place, product(t, dy, all_corners(t, part)));
        graph_replace(g, n->out[0], emit_reshape(g, y, x));
    }
    if (!has_out(n, 1))
        return;
    y = EMIT(g, GatherElements, ATTRS(INT("axis", 2)), emit_reshape(g, n->in[1], &rows), place);
    y = emit_reduce_sum(g, product(t, y, dy), 1, &channels, true);
    for (int a = 0; a < t->axes; a++) {
        const Shape apart = { .rank = 3, .dim = { t->flat.dim[0], 1 << t->axes, t->flat.dim[1] } };
        ValueId slope;

        for (int k = 0; k < 1 << t->axes; k++)
            part[k] = corner_weight(t, k, a);
        slope = product(t, y, all_corners(t, part));
        slope = emit_reduce_sum(g, emit_reshape(g, slope, &apart), 1, &channels, false);
        d[t->axes - 1 - a] = EMIT(g, Unsqueeze, NULL, slope, emit_ints(g, 1, (int64_t[]){ 2 }));
    }
    y = t->axes == 1 ? d[0] : emit(g, &op_Concat, ATTRS(INT("axis", 2)), t->axes, d);
    graph_replace(g, n->out[1], emit_reshape(g, y, grid));
}

Status grid_sample_standard_grad(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, 1)->shape, *y = in_value(g, n, 0)->shape;
    const int64_t places = shape_count(y, 2, y->rank);
    const Shape rows = SHAPE(y->dim[0], y->dim[1], places);
    Shape all = rows;
    Taps t = { .g = g,
               .n = n,
               .type = in_value(g, n, 0)->dtype,
               .axes = x->rank - 2,
               .align = node_int(n, "align_corners") != 0,
               .zeros = !strcmp(node_string(n, "padding_mode"), "zeros"),
               .flat = SHAPE(y->dim[0], places) };
    ValueId corner[CORNERS], dy[CORNERS], place;

    if (strcmp(node_string(n, "mode"), "linear") || !strcmp(node_string(n, "padding_mode"), "reflection") ||
        node_int(n, "elements") || !shape_numel(y))
        return ST_OK;
    for (int a = 0; a < t.axes; a++)
        find_taps(&t, a, x->dim[2 + a]);
    for (int k = 0; k < 1 << t.axes; k++) {
        corner[k] = corner_place(&t, k, x);
        dy[k] = emit_reshape(g, n->in[0], &rows);
    }
    all.dim[2] = places << t.axes;
    place = emit_expand(g, all_corners(&t, corner), &all);
    gradients(&t, place, emit(g, &op_Concat, ATTRS(INT("axis", 2)), 1 << t.axes, dy));
    return g->status;
}
