/* Scaled dot-product attention and its gradient, as one node each (passes/fuse/fuse_attention.c makes them):
 *
 *   S = scale Q K^T + mask for each batch and head; with `causal`, `later` (default -inf) replaces the product of a
 *       query and a later key and has no gradient: S[i,j] = later + mask for j > i
 *   Y = softmax(S) V,   L = log sum exp of each row of S
 *
 * Q and Y are [B, Tq, H, D], K and V [B, Tk, H, D], the layout of projected tokens, so nothing is transposed.  The
 * optional mask is [1 or B, 1 or H, 1 or Tq, 1 or Tk], of Q's type, or bool: entries that are false score `fill`.  It
 * has no gradient.  With `safe`, a row that is -inf throughout, whose softmax would be NaN, gives zeros.  The backward
 * pass computes the probabilities again as exp(S - L), so nothing of size Tq * Tk is kept (Dao et al., FlashAttention,
 * 2022).
 *
 * PackedAttention has Q, K and V in one tensor, the result of one projection: [B, T, W], or [T, B, W] with
 * `tokens_first`, W = 3 H D.  A row is [3, H, D], or [H, 3, D] with `interleaved`; `order` gives the positions of Q, K
 * and V among the three.  Y is [B, T, H, D] or [T, B, H, D].  The gradient is one tensor, too. */
#include "graph/ops/attention.h"

#include <math.h>

#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/attention.gen.h"

bool attention_is_packed(const Node *n) { return n->op == &op_PackedAttention || n->op == &op_PackedAttentionGrad; }

int attention_mask(const Node *n)
{
    if (n->op == &op_ScaledDotProductAttention)
        return 3;
    if (n->op == &op_ScaledDotProductAttentionGrad)
        return 6;
    return n->op == &op_PackedAttention ? 1 : 4;
}

static AttentionPart attention_rows_of(const Shape *s)
{
    return (AttentionPart){ 0, s->dim[1] * s->dim[2] * s->dim[3], s->dim[2] * s->dim[3], s->dim[3] };
}

static void sizes_packed(AttentionSizes *a, const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int first = node_int(n, "tokens_first") != 0, count;
    int64_t width = x->dim[2], across = node_int(n, "tokens_first") ? x->dim[1] : 1;
    const int64_t *order = node_ints(n, "order", &count);

    a->batch = x->dim[first];
    a->tq = a->tk = x->dim[1 - first];
    a->heads = node_int(n, "heads");
    a->depth = width / 3 / a->heads;
    for (int i = 0; i < 3; i++)
        a->part[i] = (AttentionPart){ order[i] * a->depth * (node_int(n, "interleaved") ? 1 : a->heads),
                                      first ? width : width * a->tq, width * across,
                                      a->depth * (node_int(n, "interleaved") ? 3 : 1) };
    a->y = (AttentionPart){ 0, a->heads * a->depth * (first ? 1 : a->tq), a->heads * a->depth * across, a->depth };
}

void attention_sizes(AttentionSizes *a, const Graph *g, const Node *n)
{
    const Shape *q = in_value(g, n, 0)->shape, *k = attention_is_packed(n) ? NULL : in_value(g, n, 1)->shape;
    int mask = attention_mask(n);

    *a = (AttentionSizes){ .scale = node_float(n, "scale"),
                           .fill = node_float(n, "fill"),
                           .later = node_float(n, "later"),
                           .causal = node_int(n, "causal") && node_float(n, "later") == -INFINITY,
                           .replaced = node_int(n, "causal") && node_float(n, "later") != -INFINITY,
                           .safe = node_int(n, "safe"),
                           .mask = has_in(n, mask) ? mask : -1 };
    if (k) {
        a->batch = q->dim[0];
        a->tq = q->dim[1];
        a->heads = q->dim[2];
        a->depth = q->dim[3];
        a->tk = k->dim[1];
        a->part[0] = a->y = attention_rows_of(q);
        a->part[1] = a->part[2] = attention_rows_of(k);
    } else
        sizes_packed(a, g, n);
    if (a->mask >= 0) {
        const Shape *m = in_value(g, n, mask)->shape;

        for (int i = 0; i < 4; i++)
            a->mask_step[i] = m->dim[i] == 1 ? 0 : shape_count(m, i + 1, 4);
    }
}

/* ---- shapes ---- */

static Status attention_check_shapes(const Graph *g, const Node *n)
{
    const Shape *q = in_value(g, n, 0)->shape, *k = in_value(g, n, 1)->shape;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (q->rank != 4 || k->rank != 4 || q->dim[0] != k->dim[0] || q->dim[2] != k->dim[2] || q->dim[3] != k->dim[3])
        return FAIL(E_SHAPE,
                    "%s: expected [batch, tokens, heads, depth] with one number of tokens for queries, one for keys: "
                    "found %s and %s",
                    node_text(g, n), shape_text(q, a), shape_text(k, b));
    if (k->dim[1] < 1)
        return FAIL(E_SHAPE, "%s: there are no keys", node_text(g, n));
    if (!shape_eq(in_value(g, n, 2)->shape, k))
        return FAIL(E_SHAPE, "%s: values are %s, expected %s as the keys", node_text(g, n),
                    shape_text(in_value(g, n, 2)->shape, a), shape_text(k, b));
    return ST_OK;
}

static Status check_packed(const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int64_t heads = node_int(n, "heads");
    unsigned seen = 0;
    int count;
    const int64_t *order = node_ints(n, "order", &count);
    char text[SHAPE_TEXT];

    for (int i = 0; i < count; i++)
        seen |= order[i] >= 0 && order[i] < 3 ? 1u << order[i] : 0;
    if (count != 3 || seen != 7)
        return FAIL(E_SHAPE, "%s: order is not a permutation of 0, 1, 2", node_text(g, n));
    if (x->rank != 3 || heads < 1 || x->dim[2] < 1 || x->dim[2] / 3 / heads * heads * 3 != x->dim[2])
        return FAIL(E_SHAPE, "%s: expected three axes, the last 3 times %lld heads: found %s", node_text(g, n),
                    (long long)heads, shape_text(x, text));
    if (x->dim[!node_int(n, "tokens_first")] < 1)
        return FAIL(E_SHAPE, "%s: there are no keys", node_text(g, n));
    return ST_OK;
}

static Status check_mask(const Graph *g, const Node *n)
{
    int i = attention_mask(n);
    const Value *m = has_in(n, i) ? in_value(g, n, i) : NULL;
    AttentionSizes a;
    char text[SHAPE_TEXT];

    if (!m)
        return ST_OK;
    if (m->dtype != DT_BOOL && m->dtype != in_value(g, n, 0)->dtype)
        return FAIL(E_SHAPE, "%s: the mask is %s, expected bool or %s", node_text(g, n), dtype_name(m->dtype),
                    dtype_name(in_value(g, n, 0)->dtype));
    if (m->shape->rank == 4) {
        attention_sizes(&a, g, n);
        const int64_t full[] = { a.batch, a.heads, a.tq, a.tk };

        for (i = 0; i < 4 && (m->shape->dim[i] == 1 || m->shape->dim[i] == full[i]);)
            i++;
        if (i == 4)
            return ST_OK;
    }
    return FAIL(E_SHAPE, "%s: a mask of shape %s does not fit scores [batch, heads, queries, keys]", node_text(g, n),
                shape_text(m->shape, text));
}

/* Float32 for 16-bit data. */
static DType statistics_type(DType t) { return t == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32; }

static Shape statistics_shape(const AttentionSizes *a) { return SHAPE(a->batch, a->heads, a->tq); }

static void set_statistics(Graph *g, Node *n)
{
    AttentionSizes a;
    Shape rows;

    attention_sizes(&a, g, n);
    rows = statistics_shape(&a);
    set_out(g, n, 1, statistics_type(in_value(g, n, 0)->dtype), &rows);
}

static Status attention_infer(Graph *g, Node *n)
{
    TRY(infer_same_dtype(g, n, 0, 3));
    TRY(attention_check_shapes(g, n));
    TRY(check_mask(g, n));
    set_statistics(g, n);
    return infer_like(g, n, 0);
}

static Shape shape_of_packed_y(const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;
    int64_t heads = node_int(n, "heads");

    return SHAPE(x->dim[0], x->dim[1], heads, x->dim[2] / 3 / heads);
}

static Status infer_packed(Graph *g, Node *n)
{
    Shape y;

    TRY(check_packed(g, n));
    TRY(check_mask(g, n));
    set_statistics(g, n);
    y = shape_of_packed_y(g, n);
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &y);
    return ST_OK;
}

/* Checks y, l and dy, the inputs from `first` on, and the mask; y must have shape `y`. */
static Status check_backward(Graph *g, Node *n, int first, const Shape *y)
{
    const Value *x = in_value(g, n, 0), *l = in_value(g, n, first + 1), *dy = in_value(g, n, first + 2);
    AttentionSizes a;
    Shape rows;

    TRY(check_mask(g, n));
    attention_sizes(&a, g, n);
    rows = statistics_shape(&a);
    if (in_value(g, n, first)->dtype != x->dtype || dy->dtype != x->dtype || l->dtype != statistics_type(x->dtype))
        return FAIL(E_SHAPE, "%s: types of the output's gradient and of the statistics do not fit", node_text(g, n));
    if (!shape_eq(in_value(g, n, first)->shape, y) || !shape_eq(dy->shape, y) || !shape_eq(l->shape, &rows))
        return FAIL(E_SHAPE, "%s: output, statistics or output gradient do not fit the queries", node_text(g, n));
    return ST_OK;
}

/* q, k, v, y, l, dy, mask -> dq, dk, dv. */
static Status attention_infer_backward(Graph *g, Node *n)
{
    const Value *q = in_value(g, n, 0), *k = in_value(g, n, 1);

    TRY(infer_same_dtype(g, n, 0, 3));
    TRY(attention_check_shapes(g, n));
    TRY(check_backward(g, n, 3, q->shape));
    set_out(g, n, 0, q->dtype, q->shape);
    set_out(g, n, 1, q->dtype, k->shape);
    set_out(g, n, 2, q->dtype, k->shape);
    return ST_OK;
}

/* x, y, l, dy, mask -> dx. */
static Status infer_packed_backward(Graph *g, Node *n)
{
    Shape y;

    TRY(check_packed(g, n));
    y = shape_of_packed_y(g, n);
    TRY(check_backward(g, n, 1, &y));
    return infer_like(g, n, 0);
}

/* ---- gradients ---- */

static Status check_wanted(Grad *gr, int mask)
{
    if (has_value(grad_dout(gr, 1)))
        return FAIL(E_UNSUPPORTED, "%s: no gradient through its statistics", node_text(gr->g, gr->node));
    if (has_in(gr->node, mask) && grad_wanted(gr, mask))
        return FAIL(E_UNSUPPORTED, "%s: no gradient of its mask", node_text(gr->g, gr->node));
    return ST_OK;
}

static ValueId mask_of(const Grad *gr, int i) { return has_in(gr->node, i) ? gr->node->in[i] : NO_VALUE; }

/* The attributes of scores, which the gradient shares with the node. */
#define SCORES_OF(n)                                                              \
    INT("causal", node_int(n, "causal")), FLOAT("later", node_float(n, "later")), \
        FLOAT("scale", node_float(n, "scale")), FLOAT("fill", node_float(n, "fill")), INT("safe", node_int(n, "safe"))

static Status attention_grad(Grad *gr)
{
    Graph *g = gr->g;
    const Node *n = gr->node;
    const Attr *attrs = ATTRS(SCORES_OF(n));
    ValueId d[3], in[] = { grad_in(gr, 0),  grad_in(gr, 1),   grad_in(gr, 2), grad_out(gr, 0),
                           grad_out(gr, 1), grad_dout(gr, 0), mask_of(gr, 3) };

    TRY(check_wanted(gr, 3));
    emit_multi(g, &op_ScaledDotProductAttentionGrad, attrs, has_value(in[6]) ? 7 : 6, in, 3, d);
    for (int i = 0; i < 3 && !g->status; i++)
        if (grad_wanted(gr, i))
            grad_set(gr, i, d[i]);
    return g->status;
}

static Status grad_packed(Grad *gr)
{
    Graph *g = gr->g;
    const Node *n = gr->node;
    int count;
    const int64_t *order = node_ints(n, "order", &count);
    const Attr *attrs =
        ATTRS(SCORES_OF(n), INT("heads", node_int(n, "heads")), INT("interleaved", node_int(n, "interleaved")),
              INT("tokens_first", node_int(n, "tokens_first")), INTS("order", count, order));
    ValueId in[] = { grad_in(gr, 0), grad_out(gr, 0), grad_out(gr, 1), grad_dout(gr, 0), mask_of(gr, 1) };

    TRY(check_wanted(gr, 1));
    grad_set(gr, 0, emit(g, &op_PackedAttentionGrad, attrs, has_value(in[4]) ? 5 : 4, in));
    return g->status;
}

/* ---- placement, work ---- */

enum { NO_AXIS = -2 };

/* The batch axis of input i; NO_AXIS: it has none. */
static int batch_axis(const Placement *p, int i)
{
    const Node *n = p->node;
    bool packed = attention_is_packed(n);
    bool statistics = n->op == &op_ScaledDotProductAttentionGrad ? i == 4 : n->op == &op_PackedAttentionGrad && i == 2;

    if (i == attention_mask(n))
        return in_value(p->g, n, i)->shape->dim[0] == 1 ? NO_AXIS : 0;
    return packed && node_int(n, "tokens_first") && !statistics ? 1 : 0;
}

/* Samples are independent: all inputs are split along the batch, or none is. */
static Status attention_place(Placement *p)
{
    const Node *n = p->node;
    int data = batch_axis(p, 0);
    Place have = PLACE_B;

    for (int i = 0; i < n->n_in; i++) {
        if (p->in[i].kind == PL_S && p->in[i].axis != batch_axis(p, i))
            place_mixes(p, "it attends along the split axis");
        else if (have.kind == PL_B && (p->in[i].kind == PL_S || p->in[i].kind == PL_L))
            have = p->in[i];
    }
    for (int i = 0; i < n->n_in; i++) {
        p->in[i] = have;
        if (have.kind == PL_S && batch_axis(p, i) == NO_AXIS)
            p->in[i] = PLACE_B;
        else if (have.kind == PL_S)
            p->in[i].axis = batch_axis(p, i);
    }
    if (have.kind == PL_S)
        have.axis = data;
    place_set_all(p, have);
    if (have.kind == PL_S && n->op == &op_PackedAttention) { /* their tokens may come first */
        have.axis = 0;
        place_set(p, 1, have); /* the statistics */
    }
    return ST_OK;
}

/* Two products forward, five backward; half of each with a causal mask. */
static int64_t attention_flops(const Graph *g, const Node *n)
{
    bool forward = n->op == &op_ScaledDotProductAttention || n->op == &op_PackedAttention;
    AttentionSizes a;

    if (!node_inputs_known(g, n))
        return 0;
    attention_sizes(&a, g, n);
    return (forward ? 4 : 10) * a.batch * a.heads * a.tq * a.tk * a.depth / (a.causal ? 2 : 1);
}

#define COMMON \
    .domain = "dpexec", .since = 1, .dtypes = DTYPES_FLOAT, .place = attention_place, .flops = attention_flops
#define SCORES                                                                                      \
    { "causal", A_INT, .i = 0 }, { "scale", A_FLOAT, .f = 1 }, { "fill", A_FLOAT, .f = -INFINITY }, \
        { "later", A_FLOAT, .f = -INFINITY },                                                       \
    {                                                                                               \
        "safe", A_INT, .i = 0                                                                       \
    }

static const AttrDecl plain_attrs[] = { SCORES, { 0 } };
static const AttrDecl packed_attrs[] = { SCORES,
                                         { "heads", A_INT, .rule = ATTR_REQUIRED, .range = R_POSITIVE },
                                         { "interleaved", A_INT, .i = 0 },
                                         { "tokens_first", A_INT, .i = 0 },
                                         { "order", A_INTS, .rule = ATTR_REQUIRED, .range = R_PERM },
                                         { 0 } };

DEFINE_OP(ScaledDotProductAttention, COMMON, .precision = PREC_LOW, .attrs = plain_attrs, .in_min = 3, .in_max = 4,
          .out_min = 2, .out_max = 2, .doc = "softmax(scale * Q K^T + mask) V and the logarithms of its denominators",
          .infer = attention_infer, .grad = attention_grad);

DEFINE_OP(ScaledDotProductAttentionGrad, COMMON, .attrs = plain_attrs, .in_min = 6, .in_max = 7, .out_min = 3,
          .out_max = 3, .doc = "dQ, dK, dV of ScaledDotProductAttention, from (q, k, v, y, l, dy, mask)",
          .infer = attention_infer_backward);

DEFINE_OP(PackedAttention, COMMON, .precision = PREC_LOW, .attrs = packed_attrs, .in_min = 1, .in_max = 2, .out_min = 2,
          .out_max = 2, .doc = "ScaledDotProductAttention of queries, keys and values that one tensor holds",
          .infer = infer_packed, .grad = grad_packed);

DEFINE_OP(PackedAttentionGrad, COMMON, .attrs = packed_attrs, .in_min = 4, .in_max = 5, .out_min = 1, .out_max = 1,
          .doc = "gradient of PackedAttention, from (x, y, l, dy, mask)", .infer = infer_packed_backward);
