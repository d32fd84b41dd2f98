/* ONNX's Attention and RotaryEmbedding, lowered to simpler operators; passes/fuse/fuse_attention.c fuses plain
 * attention again.
 *
 * Attention: heads are [batch, heads, tokens, depth]; Hq / Hk heads of Q share a head of K and V:
 *
 *   S = cap(scale Q K^T) + bias,   Y = softmax(S) V
 *
 * The bias is the mask, with -inf for keys that it excludes, for keys past its end, for keys after the query (causal),
 * and for keys from nonpad_kv_seqlen on; cap(s) = softcap tanh(s / softcap).  Past keys and values precede the new
 * ones. The first query's position is the length of the past; or nonpad_kv_seqlen less the number of queries; or 0.  A
 * query for which the bias leaves no key gives zeros (ONNX 1.23 on versions 23 and 24). */
#include <math.h>

#include "graph/ir/emit.h"
#include "graph/ir/op.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/compare.gen.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/generate.gen.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/reduce.gen.h"
#include "graph/ops/select.gen.h"
#include "graph/ops/softmax.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/ops/where.gen.h"

enum { Q, K, V, MASK, PAST_K, PAST_V, LENGTHS };
enum { Y, PRESENT_K, PRESENT_V, SCORES };

typedef struct {
    int64_t heads, kv_heads, tq, tk, past, depth, v_depth; /* tk: with the past */
} Sizes;

/* The shape [batch, heads, tokens, depth] of input i, which may also be [batch, tokens, heads * depth]. */
static Status heads_of(Shape *out, const Graph *g, const Node *n, int i, int64_t heads)
{
    const Shape *x = in_value(g, n, i)->shape;

    if (x->rank == 4) {
        *out = *x;
        return ST_OK;
    }
    if (x->rank != 3 || heads < 1 || x->dim[2] % heads)
        return FAIL(E_SHAPE,
                    "%s: input %d of rank %d, expected [batch, heads, tokens, depth], or [batch, tokens, heads depth] "
                    "and the number of heads",
                    node_text(g, n), i, x->rank);
    *out = SHAPE(x->dim[0], heads, x->dim[1], x->dim[2] / heads);
    return ST_OK;
}

static Status read_past(int64_t *past, const Graph *g, const Node *n, int i, const Shape *now)
{
    const Shape *x;

    *past = 0;
    if (!has_in(n, i))
        return ST_OK;
    x = in_value(g, n, i)->shape;
    if (x->rank != 4 || x->dim[0] != now->dim[0] || x->dim[1] != now->dim[1] || x->dim[3] != now->dim[3])
        return FAIL(E_SHAPE, "%s: input %d does not fit in front of the new keys or values", node_text(g, n), i);
    *past = x->dim[2];
    return ST_OK;
}

static Status transformer_read_sizes(Sizes *s, const Graph *g, const Node *n)
{
    int64_t past_v;
    Shape q, k, v;

    TRY(heads_of(&q, g, n, Q, node_int(n, "q_num_heads")));
    TRY(heads_of(&k, g, n, K, node_int(n, "kv_num_heads")));
    TRY(heads_of(&v, g, n, V, node_int(n, "kv_num_heads")));
    TRY(read_past(&s->past, g, n, PAST_K, &k));
    TRY(read_past(&past_v, g, n, PAST_V, &v));
    if (q.dim[0] != k.dim[0] || k.dim[0] != v.dim[0] || k.dim[1] != v.dim[1] || q.dim[3] != k.dim[3] ||
        k.dim[2] != v.dim[2] || s->past != past_v || k.dim[1] < 1 || q.dim[1] % k.dim[1])
        return FAIL(E_SHAPE, "%s: sizes of queries, keys and values do not go together", node_text(g, n));
    s->heads = q.dim[1];
    s->kv_heads = k.dim[1];
    s->tq = q.dim[2];
    s->tk = k.dim[2] + s->past;
    s->depth = q.dim[3];
    s->v_depth = v.dim[3];
    return ST_OK;
}

static Status check_attention(const Graph *g, const Node *n, const Sizes *s)
{
    const Shape *q = in_value(g, n, Q)->shape;
    Shape all = SHAPE(q->dim[0], s->heads, s->tq, s->tk), out;
    DType t = in_value(g, n, Q)->dtype;

    if (node_int(n, "qk_matmul_output_mode") < 0 || node_int(n, "qk_matmul_output_mode") > 3)
        return FAIL(E_MODEL, "%s: qk_matmul_output_mode must be 0 to 3", node_text(g, n));
    for (int i = K; i <= V; i++)
        if (in_value(g, n, i)->dtype != t)
            return FAIL(E_UNSUPPORTED, "%s: queries, keys and values of different types", node_text(g, n));
    if (has_in(n, LENGTHS) &&
        (in_value(g, n, LENGTHS)->shape->rank != 1 || in_value(g, n, LENGTHS)->shape->dim[0] != q->dim[0]))
        return FAIL(E_SHAPE, "%s: nonpad_kv_seqlen must have one length for each sample", node_text(g, n));
    if (has_in(n, MASK)) {
        Shape m = *in_value(g, n, MASK)->shape;

        if (m.rank < 1 || m.dim[m.rank - 1] > s->tk)
            return FAIL(E_SHAPE, "%s: the mask is for more keys than there are", node_text(g, n));
        m.dim[m.rank - 1] = s->tk;
        TRY(shape_broadcast(&out, &m, &all, node_text(g, n)));
        if (!shape_eq(&out, &all))
            return FAIL(E_SHAPE, "%s: the mask is larger than the scores", node_text(g, n));
    }
    return ST_OK;
}

static Status infer_attention(Graph *g, Node *n)
{
    const Shape *q = in_value(g, n, Q)->shape;
    const int64_t batch = q->dim[0];
    const DType t = in_value(g, n, Q)->dtype;
    Shape y, k, v, scores;
    Sizes s;

    TRY(transformer_read_sizes(&s, g, n));
    TRY(check_attention(g, n, &s));
    y = q->rank == 3 ? SHAPE(batch, s.tq, s.heads * s.v_depth) : SHAPE(batch, s.heads, s.tq, s.v_depth);
    k = SHAPE(batch, s.kv_heads, s.tk, s.depth);
    v = SHAPE(batch, s.kv_heads, s.tk, s.v_depth);
    scores = SHAPE(batch, s.heads, s.tq, s.tk);
    set_out(g, n, Y, t, &y);
    set_out(g, n, PRESENT_K, t, &k);
    set_out(g, n, PRESENT_V, t, &v);
    set_out(g, n, SCORES, t, &scores);
    return g->status;
}

/* [batch, tokens, heads * depth] as [batch, heads, tokens, depth]. */
static ValueId split_heads(Graph *g, ValueId x, int64_t heads, int64_t depth)
{
    if (value(g, x)->shape->rank == 4)
        return x;
    x = EMIT(g, Reshape, NULL, x, emit_ints(g, 4, (int64_t[]){ 0, 0, heads, depth }));
    return emit_transpose(g, x, 4, (int64_t[]){ 0, 2, 1, 3 });
}

/* Repeats each head of x [batch, heads, ...] for the queries' heads that share it. */
static ValueId repeat_heads(Graph *g, ValueId x, const Sizes *s, int64_t depth)
{
    const int64_t shared = s->heads / s->kv_heads;

    if (shared == 1 || g->status)
        return x;
    x = EMIT(g, Unsqueeze, NULL, x, emit_ints(g, 1, (int64_t[]){ 2 }));
    x = EMIT(g, Tile, NULL, x, emit_ints(g, 5, (int64_t[]){ 1, 1, shared, 1, 1 }));
    return EMIT(g, Reshape, NULL, x, emit_ints(g, 4, (int64_t[]){ 0, s->heads, s->tk, depth }));
}

/* 0 where the bool `shown` is true, else -inf. */
static ValueId hide(Graph *g, ValueId shown, DType t)
{
    const ValueId zero = emit_scalar(g, t, 0);

    return EMIT(g, Where, NULL, shown, zero, emit_scalar(g, t, -INFINITY));
}

/* The mask as a bias for all keys; keys past its end are hidden. */
static ValueId whole_mask(Graph *g, const Node *n, const Sizes *s)
{
    const Value *m = in_value(g, n, MASK);
    const Shape shape = *m->shape;
    int64_t pads[2 * MAX_RANK] = { 0 };
    const DType t = in_value(g, n, Q)->dtype;
    ValueId mask = m->dtype == DT_BOOL ? hide(g, n->in[MASK], t) : emit_cast(g, n->in[MASK], t), widths;

    pads[2 * shape.rank - 1] = s->tk - shape.dim[shape.rank - 1];
    if (!pads[2 * shape.rank - 1])
        return mask;
    widths = emit_ints(g, 2 * shape.rank, pads);
    return EMIT(g, Pad, NULL, mask, widths, emit_scalar(g, t, -INFINITY));
}

static ValueId count_to(Graph *g, int64_t n)
{
    const ValueId from = emit_scalar(g, DT_INT64, 0), to = emit_scalar(g, DT_INT64, (double)n);

    return EMIT(g, Range, NULL, from, to, emit_scalar(g, DT_INT64, 1));
}

/* [batch, 1, 1, tk]: -inf for keys from the sample's length on.  With `causal` the queries are the last before that
 * length: [batch, 1, tq, tk], -inf for keys after the query. */
static ValueId length_mask(Graph *g, ValueId lengths, const Sizes *s, DType t, bool causal)
{
    const ValueId keys = count_to(g, s->tk);

    lengths = EMIT(g, Unsqueeze, NULL, lengths, emit_ints(g, 3, (int64_t[]){ 1, 2, 3 }));
    if (causal) {
        const ValueId behind = emit_ints(g, 1, (int64_t[]){ s->tq - 1 });
        const ValueId queries = EMIT(g, Sub, NULL, count_to(g, s->tq), behind);

        lengths = EMIT(g, Add, NULL, lengths, EMIT(g, Unsqueeze, NULL, queries, emit_ints(g, 1, (int64_t[]){ 1 })));
    }
    return hide(g, EMIT(g, Less, NULL, keys, lengths), t);
}

static ValueId add_to(Graph *g, ValueId sum, ValueId x) { return has_value(sum) ? EMIT(g, Add, NULL, sum, x) : x; }

static ValueId bias_of(Graph *g, const Node *n, const Sizes *s)
{
    const DType t = in_value(g, n, Q)->dtype;
    const bool causal = node_int(n, "is_causal") != 0, by_length = causal && has_in(n, LENGTHS) && !has_in(n, PAST_K);
    ValueId bias = NO_VALUE;

    if (has_in(n, MASK))
        bias = whole_mask(g, n, s);
    if (causal && !by_length) { /* [tq, tk]: -inf for keys after the query */
        const Shape shape = SHAPE(s->tq, s->tk);
        ValueId all = emit_full(g, DT_BOOL, &shape, 1);

        all = EMIT(g, Trilu, ATTRS(INT("upper", 0)), all, emit_scalar(g, DT_INT64, (double)s->past));
        bias = add_to(g, bias, hide(g, all, t));
    }
    if (has_in(n, LENGTHS))
        bias = add_to(g, bias, length_mask(g, n->in[LENGTHS], s, t, by_length));
    return bias;
}

/* ---- queries without keys ---- */

/* Does each row of the mask leave a key?  With `causal` only keys up to the query count. */
static bool shows_each(const Tensor *mask, const Sizes *s, bool causal)
{
    const int rank = mask->shape.rank;
    const int64_t keys = mask->shape.dim[rank - 1], queries = rank > 1 ? mask->shape.dim[rank - 2] : 1;

    for (int64_t row = 0; keys && row < tensor_numel(mask) / keys; row++) {
        const int64_t last = s->past + row % queries, n = causal && last < keys ? last + 1 : keys;
        bool any = false;

        for (int64_t i = 0; i < n && !any; i++)
            any = mask->dtype == DT_BOOL ? tensor_int(mask, row * keys + i) != 0
                                         : tensor_float(mask, row * keys + i) != -INFINITY;
        if (!any)
            return false;
    }
    return keys != 0;
}

/* May the bias leave a query without any key?  A causal bias alone never does. */
static bool may_hide_all(const Graph *g, const Node *n, const Sizes *s)
{
    const Tensor *mask = in_const(g, n, MASK);

    if (has_in(n, LENGTHS))
        return true;
    return has_in(n, MASK) && !(mask && shows_each(mask, s, node_int(n, "is_causal") != 0));
}

static ValueId zero_where(Graph *g, ValueId none, ValueId x, DType t)
{
    return has_value(none) ? EMIT(g, Where, NULL, none, emit_scalar(g, t, 0), x) : x;
}

/* The past, if there is one, followed by x. */
static ValueId with_past(Graph *g, Node *n, int past, ValueId x)
{
    return has_in(n, past) ? EMIT(g, Concat, ATTRS(INT("axis", 2)), n->in[past], x) : x;
}

static Status lower_attention(Graph *g, Node *n)
{
    const DType t = in_value(g, n, Q)->dtype, soft = (DType)node_int(n, "softmax_precision");
    const double cap = node_float(n, "softcap"), given = node_float(n, "scale");
    const int64_t mode = node_int(n, "qk_matmul_output_mode");
    const bool flat = in_value(g, n, Q)->shape->rank == 3;
    const Attr *last = ATTRS(INT("axis", -1));
    ValueId q, k, v, s, shown[4], bias, y, none = NO_VALUE;
    Sizes sizes;

    TRY(transformer_read_sizes(&sizes, g, n));
    q = split_heads(g, n->in[Q], sizes.heads, sizes.depth);
    k = with_past(g, n, PAST_K, split_heads(g, n->in[K], sizes.kv_heads, sizes.depth));
    v = with_past(g, n, PAST_V, split_heads(g, n->in[V], sizes.kv_heads, sizes.v_depth));
    bias = bias_of(g, n, &sizes);
    s = emit_transpose(g, repeat_heads(g, k, &sizes, sizes.depth), 4, (int64_t[]){ 0, 1, 3, 2 });
    s = EMIT(g, MatMul, NULL, q, s);
    s = EMIT(g, Mul, NULL, s, emit_scalar(g, t, given != 0 ? given : 1 / sqrt((double)sizes.depth)));
    shown[0] = s;
    if (cap > 0) {
        s = EMIT(g, Tanh, NULL, EMIT(g, Div, NULL, s, emit_scalar(g, t, cap)));
        s = EMIT(g, Mul, NULL, s, emit_scalar(g, t, cap));
    }
    shown[1] = s;
    if (may_hide_all(g, n, &sizes)) { /* [..., 1]: is the whole row of the bias -inf? */
        none = EMIT(g, ReduceMax, NULL, bias, emit_ints(g, 1, (int64_t[]){ -1 }));
        none = EMIT(g, Equal, NULL, none, emit_scalar(g, t, -INFINITY));
    }
    shown[2] = has_out(n, SCORES) && mode == 2 ? add_to(g, bias, s) : NO_VALUE;
    if (has_value(bias)) /* fully hidden rows get no bias, since -inf - -inf would give NaN here and in gradients */
        s = EMIT(g, Add, NULL, s, zero_where(g, none, bias, t));
    y = emit_cast(g, EMIT(g, Softmax, last, soft ? emit_cast(g, s, soft) : s), t);
    shown[3] = has_out(n, SCORES) && mode == 3 ? zero_where(g, none, y, t) : NO_VALUE;
    y = EMIT(g, MatMul, NULL, y, repeat_heads(g, v, &sizes, sizes.v_depth));
    y = zero_where(g, none, y, t);
    if (g->status)
        return g->status;
    if (flat) {
        y = emit_transpose(g, y, 4, (int64_t[]){ 0, 2, 1, 3 });
        y = EMIT(g, Reshape, NULL, y, emit_ints(g, 3, (int64_t[]){ 0, 0, sizes.heads * sizes.v_depth }));
    }
    graph_replace(g, n->out[Y], y);
    if (has_out(n, PRESENT_K))
        graph_replace(g, n->out[PRESENT_K], k);
    if (has_out(n, PRESENT_V))
        graph_replace(g, n->out[PRESENT_V], v);
    if (has_out(n, SCORES))
        graph_replace(g, n->out[SCORES], shown[mode]);
    return g->status;
}

DEFINE_OP(Attention, .since = 24, .from = 23, .in_min = 3, .in_max = 7, .out_min = 1, .out_max = 4,
          .dtypes = DTYPES_FLOAT,
          .attrs = (const AttrDecl[]){ { "is_causal", A_INT, .i = 0 },
                                       { "kv_num_heads", A_INT, .i = 0, .range = R_NATURAL },
                                       { "q_num_heads", A_INT, .i = 0, .range = R_NATURAL },
                                       { "qk_matmul_output_mode", A_INT, .i = 0 },
                                       { "scale", A_FLOAT, .f = 0 },
                                       { "softcap", A_FLOAT, .f = 0 },
                                       { "softmax_precision", A_INT, .i = 0, .range = R_DTYPE },
                                       { 0 } },
          .doc = "softmax(cap(scale Q K^T) + bias) V", .infer = infer_attention, .lower = lower_attention);

/* ---- RotaryEmbedding ---- */

/* The input's shape as [batch, heads, tokens, depth].  The first `turned` elements of a head are rotated in pairs by
 * the angles of their token. */
static Status read_rotation(Shape *h, int64_t *turned, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape, *c = in_value(g, n, 1)->shape;

    TRY(heads_of(h, g, n, 0, node_int(n, "num_heads")));
    *turned = node_int(n, "rotary_embedding_dim") ? node_int(n, "rotary_embedding_dim") : h->dim[3];
    if (*turned < 0 || *turned > h->dim[3] || *turned % 2)
        return FAIL(E_MODEL, "%s: rotary_embedding_dim is %lld, expected an even number up to %lld", node_text(g, n),
                    (long long)*turned, (long long)h->dim[3]);
    if (!shape_eq(c, in_value(g, n, 2)->shape) || c->rank != (has_in(n, 3) ? 2 : 3) ||
        c->dim[c->rank - 1] != *turned / 2 || (!has_in(n, 3) && (c->dim[0] != x->dim[0] || c->dim[1] != h->dim[2])))
        return FAIL(E_SHAPE, "%s: cosines and sines must be %s", node_text(g, n),
                    has_in(n, 3) ? "[positions, half the elements turned]"
                                 : "[batch, tokens, half the elements turned]");
    return ST_OK;
}

static Status infer_rotary(Graph *g, Node *n)
{
    int64_t turned;
    Shape heads;

    TRY(infer_same_dtype(g, n, 0, 3));
    TRY(read_rotation(&heads, &turned, g, n));
    return infer_like(g, n, 0);
}

/* Input i, cosines or sines, as [batch, tokens, 1, half] if `tokens_first`, else as [batch, 1, tokens, half]. */
static ValueId angles(Graph *g, const Node *n, int i, bool tokens_first)
{
    ValueId c = n->in[i];

    if (has_in(n, 3))
        c = EMIT(g, Gather, NULL, c, n->in[3]);
    return EMIT(g, Unsqueeze, NULL, c, emit_ints(g, 1, (int64_t[]){ tokens_first ? 2 : 1 }));
}

static Status lower_rotary(Graph *g, Node *n)
{
    const Shape shape = *in_value(g, n, 0)->shape;
    const bool flat = shape.rank == 3, between = node_int(n, "interleaved") != 0;
    const Attr *last = ATTRS(INT("axis", -1));
    ValueId x = n->in[0], a, b, real, imaginary, cosine, sine, y;
    int64_t turned, half;
    Shape h;

    TRY(read_rotation(&h, &turned, g, n));
    half = turned / 2;
    if (flat)
        x = EMIT(g, Reshape, NULL, x, emit_ints(g, 4, (int64_t[]){ 0, 0, h.dim[1], h.dim[3] }));
    cosine = angles(g, n, 1, flat);
    sine = angles(g, n, 2, flat);
    a = between ? emit_slice_by(g, x, 3, 0, turned, 2) : emit_slice_by(g, x, 3, 0, half, 1);
    b = between ? emit_slice_by(g, x, 3, 1, turned, 2) : emit_slice_by(g, x, 3, half, turned, 1);
    real = EMIT(g, Mul, NULL, cosine, a);
    real = EMIT(g, Sub, NULL, real, EMIT(g, Mul, NULL, sine, b));
    imaginary = EMIT(g, Mul, NULL, sine, a);
    imaginary = EMIT(g, Add, NULL, imaginary, EMIT(g, Mul, NULL, cosine, b));
    if (between) {
        const ValueId four = emit_ints(g, 1, (int64_t[]){ 4 });

        real = EMIT(g, Unsqueeze, NULL, real, four);
        imaginary = EMIT(g, Unsqueeze, NULL, imaginary, four);
    }
    y = EMIT(g, Concat, last, real, imaginary);
    if (between)
        y = EMIT(g, Reshape, NULL, y, emit_ints(g, 4, (int64_t[]){ 0, 0, flat ? h.dim[1] : shape.dim[2], turned }));
    if (turned < h.dim[3])
        y = EMIT(g, Concat, last, y, emit_slice_by(g, x, 3, turned, h.dim[3], 1));
    if (flat)
        y = EMIT(g, Reshape, NULL, y, emit_ints(g, 3, (int64_t[]){ 0, 0, shape.dim[2] }));
    if (!g->status)
        graph_replace(g, n->out[0], y);
    return g->status;
}

DEFINE_OP(RotaryEmbedding, .since = 23, .in_min = 3, .in_max = 4, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT,
          .attrs = (const AttrDecl[]){ { "interleaved", A_INT, .i = 0 },
                                       { "num_heads", A_INT, .i = 0, .range = R_NATURAL },
                                       { "rotary_embedding_dim", A_INT, .i = 0, .range = R_NATURAL },
                                       { 0 } },
          .doc = "pairs of elements turned by the angles of their token's position", .infer = infer_rotary,
          .lower = lower_rotary);
