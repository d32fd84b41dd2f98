/* Operators along the time axis of sequences, lowered to simpler ones: ReverseSequence and TensorScatter, which read
 * and write at positions that depend on a number for each sample, and CausalConvWithState, a depthwise convolution over
 * earlier elements. */
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/conv.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/scatter.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"

/* ---- positions along an axis ---- */

static Status check_numbers(const Graph *g, const Node *n, int i, int64_t batch)
{
    const Value *v = in_value(g, n, i);
    char text[SHAPE_TEXT];

    if (v->dtype != DT_INT64 || v->shape->rank != 1 || v->shape->dim[0] != batch)
        return FAIL(E_SHAPE, "%s: input %d is %s%s, expected int64[%lld], a number for each sample", node_text(g, n), i,
                    dtype_name(v->dtype), shape_text(v->shape, text), (long long)batch);
    return ST_OK;
}

/* 0, 1 ... n - 1 along `axis` of `rank` axes. */
static ValueId emit_places(Graph *g, int rank, int axis, int64_t n)
{
    Shape s = { .rank = rank };
    Tensor *t;

    for (int a = 0; a < rank; a++)
        s.dim[a] = a == axis ? n : 1;
    if (!(t = tensor_create(g->arena, DT_INT64, &s))) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < n; i++)
        tensor_set_int(t, i, i);
    return graph_add_const_nocopy(g, "places", t);
}

/* x [n] reshaped to lie along `axis` of `rank` axes. */
static ValueId emit_along(Graph *g, ValueId x, int rank, int axis)
{
    int64_t axes[MAX_RANK];
    int count = 0;

    for (int a = 0; a < rank; a++)
        if (a != axis)
            axes[count++] = a;
    return count ? EMIT(g, Unsqueeze, NULL, x, emit_ints(g, count, axes)) : x;
}

static Status replace(Graph *g, Node *n, ValueId y)
{
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

/* ---- ReverseSequence ---- */

enum { INPUT, LENGTHS };

static Status infer_reverse(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, INPUT)->shape;
    const int64_t time = node_int(n, "time_axis"), batch = node_int(n, "batch_axis");

    if (x->rank < 2)
        return FAIL(E_SHAPE, "%s: input of rank %d, expected 2 or more", node_text(g, n), x->rank);
    if (time < 0 || time > 1 || batch != 1 - time)
        return FAIL(E_MODEL, "%s: time_axis %lld and batch_axis %lld, expected 0 and 1 or 1 and 0", node_text(g, n),
                    (long long)time, (long long)batch);
    TRY(check_numbers(g, n, LENGTHS, x->dim[batch]));
    return infer_like(g, n, INPUT);
}

static Status lower_reverse(Graph *g, Node *n)
{
    const Shape x = *in_value(g, n, INPUT)->shape;
    const int time = (int)node_int(n, "time_axis");
    ValueId lengths = emit_along(g, n->in[LENGTHS], x.rank, 1 - time), places, inside, from;

    places = emit_places(g, x.rank, time, x.dim[time]);
    inside = EMIT(g, Less, NULL, places, lengths);
    from = EMIT(g, Sub, NULL, EMIT(g, Sub, NULL, lengths, emit_scalar(g, DT_INT64, 1)), places);
    from = EMIT(g, Where, NULL, inside, from, places);
    return replace(g, n, EMIT(g, GatherElements, ATTRS(INT("axis", time)), n->in[INPUT], emit_expand(g, from, &x)));
}

DEFINE_OP(ReverseSequence, .since = 10, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_ALL | DTYPES_TEXT,
          .attrs = (const AttrDecl[]){ { "batch_axis", A_INT, .i = 1 }, { "time_axis", A_INT, .i = 0 }, { 0 } },
          .infer = infer_reverse, .lower = lower_reverse,
          .doc = "the first elements of each sample, as many as its length, backward");

/* ---- TensorScatter ---- */

enum { CACHE, UPDATE, STARTS };

static Status infer_tensor_scatter(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, CACHE)->shape, *u = in_value(g, n, UPDATE)->shape;
    char past[SHAPE_TEXT], update[SHAPE_TEXT];
    int64_t axis;

    TRY(infer_same_dtype(g, n, 0, 2));
    TRY(infer_axis(g, n, x->rank));
    axis = node_int(n, "axis");
    if (axis == 0)
        return FAIL(E_SHAPE, "%s: axis 0 is the batch, expected another", node_text(g, n));
    for (int a = 0; a < x->rank; a++)
        if (u->rank != x->rank || (a == axis ? u->dim[a] > x->dim[a] : u->dim[a] != x->dim[a]))
            return FAIL(E_SHAPE, "%s: the update %s does not fit into the cache %s along axis %lld", node_text(g, n),
                        shape_text(u, update), shape_text(x, past), (long long)axis);
    if (has_in(n, STARTS))
        TRY(check_numbers(g, n, STARTS, x->dim[0]));
    return infer_like(g, n, CACHE);
}

static Status lower_tensor_scatter(Graph *g, Node *n)
{
    const Shape x = *in_value(g, n, CACHE)->shape, u = *in_value(g, n, UPDATE)->shape;
    const int axis = (int)node_int(n, "axis");
    const bool circular = !strcmp(node_string(n, "mode"), "circular");
    ValueId at = emit_places(g, x.rank, axis, u.dim[axis]), start, negative;

    if (has_in(n, STARTS)) {
        start = emit_along(g, n->in[STARTS], x.rank, 0);
        if (circular)
            start = EMIT(g, Mod, NULL, start, emit_scalar(g, DT_INT64, (double)(x.dim[axis] ? x.dim[axis] : 1)));
        else { /* to ScatterElements, negative positions count from the end; they become an index that is an error */
            negative = EMIT(g, Less, NULL, start, emit_scalar(g, DT_INT64, 0));
            start = EMIT(g, Where, NULL, negative, emit_scalar(g, DT_INT64, (double)x.dim[axis]), start);
        }
        at = EMIT(g, Add, NULL, at, start);
        if (circular)
            at = EMIT(g, Mod, NULL, at, emit_scalar(g, DT_INT64, (double)(x.dim[axis] ? x.dim[axis] : 1)));
    }
    return replace(
        g, n, EMIT(g, ScatterElements, ATTRS(INT("axis", axis)), n->in[CACHE], emit_expand(g, at, &u), n->in[UPDATE]));
}

DEFINE_OP(TensorScatter, .since = 24, .in_min = 2, .in_max = 3, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_ALL | DTYPES_TEXT,
          .attrs = (const AttrDecl[]){ { "mode", A_STRING, .s = "linear", .words = "linear circular" },
                                       { "axis", A_INT, .i = -2, .range = R_AXIS },
                                       { 0 } },
          .infer = infer_tensor_scatter, .lower = lower_tensor_scatter,
          .doc = "a cache with new elements from a position on that each sample has its own");

/* ---- CausalConvWithState ---- */

enum { X, WEIGHT, BIAS, PAST };

static Status infer_causal_conv(Graph *g, Node *n)
{
    const Shape *x = in_value(g, n, X)->shape, *w = in_value(g, n, WEIGHT)->shape, *s;
    Shape state;
    char text[SHAPE_TEXT], other[SHAPE_TEXT];

    TRY(infer_same_dtype(g, n, 0, 4));
    if (x->rank != 3 || w->rank != 3 || w->dim[0] != x->dim[1] || w->dim[1] != 1 || w->dim[2] < 1)
        return FAIL(E_SHAPE, "%s: input %s and weight %s, expected [batch, channels, length] and [channels, 1, size]",
                    node_text(g, n), shape_text(x, text), shape_text(w, other));
    state = SHAPE(x->dim[0], x->dim[1], w->dim[2] - 1);
    s = has_in(n, BIAS) ? in_value(g, n, BIAS)->shape : NULL;
    if (s && (s->rank != 1 || s->dim[0] != x->dim[1]))
        return FAIL(E_SHAPE, "%s: the bias is %s, expected [%lld]", node_text(g, n), shape_text(s, text),
                    (long long)x->dim[1]);
    s = has_in(n, PAST) ? in_value(g, n, PAST)->shape : NULL;
    if (s && !shape_eq(s, &state))
        return FAIL(E_SHAPE, "%s: past_state is %s, expected %s", node_text(g, n), shape_text(s, text),
                    shape_text(&state, other));
    set_out(g, n, 1, in_value(g, n, X)->dtype, &state);
    return infer_like(g, n, X);
}

static Status lower_causal_conv(Graph *g, Node *n)
{
    const Shape x = *in_value(g, n, X)->shape;
    const int64_t before = in_value(g, n, WEIGHT)->shape->dim[2] - 1;
    const ValueId axis = emit_ints(g, 1, (int64_t[]){ 2 });
    const DType t = in_value(g, n, X)->dtype;
    ValueId all = n->in[X], y = all, from;

    if (before && has_in(n, PAST))
        all = EMIT(g, Concat, ATTRS(INT("axis", 2)), n->in[PAST], all);
    else if (before)
        all = EMIT(g, Pad, NULL, all, emit_ints(g, 6, (int64_t[]){ 0, 0, before, 0, 0, 0 }));
    if (x.dim[2])
        y = emit(g, &op_Conv, ATTRS(INT("group", x.dim[1])), 3,
                 (ValueId[]){ all, n->in[WEIGHT], has_in(n, BIAS) ? n->in[BIAS] : NO_VALUE });
    if (x.dim[2] && strcmp(node_string(n, "activation"), "none")) { /* y sigmoid(y), 16 bits in float32 as in ONNX */
        y = emit_cast(g, y, t == DT_FLOAT64 ? t : DT_FLOAT32);
        y = emit_cast(g, EMIT(g, Mul, NULL, y, EMIT(g, Sigmoid, NULL, y)), t);
    }
    from = emit_ints(g, 1, &x.dim[2]);
    all = EMIT(g, Slice, NULL, all, from, emit_ints(g, 1, (int64_t[]){ x.dim[2] + before }), axis);
    if (has_out(n, 1) && !g->status)
        graph_replace(g, n->out[1], all);
    return replace(g, n, y);
}

DEFINE_OP(CausalConvWithState, .since = 27, .in_min = 2, .in_max = 4, .out_min = 1, .out_max = 2,
          .dtypes = DTYPES_FLOAT, .param_in = 6,
          .attrs = (const AttrDecl[]){ { "activation", A_STRING, .s = "none", .words = "none silu swish" }, { 0 } },
          .infer = infer_causal_conv, .lower = lower_causal_conv,
          .doc = "a convolution of each channel over earlier elements");
