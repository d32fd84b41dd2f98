/* Scaled dot-product attention and its gradient, as one node each (passes/fuse/fuse_attention.c makes them):
 *
 *   S = scale Q K^T per batch and head, with S[i,j] = -inf for j > i when `causal`
 *   Y = softmax(S) V,   L = log sum exp of each row of S
 *
 * Q and Y are [B, Tq, H, D], K and V [B, Tk, H, D]: as projections of tokens leave them, so that nothing is transposed.
 * The backward pass finds the probabilities again as exp(S - L), so that nothing of size Tq * Tk is kept (Dao et al.,
 * FlashAttention, 2022). */
#include "graph/grad.h"
#include "graph/place.h"

enum { BATCH, TOKENS, HEADS, DEPTH, ATTENTION_RANK };

static Status check_shapes(const Graph *g, const Node *n)
{
    const Shape *q = &in_value(g, n, 0)->shape, *k = &in_value(g, n, 1)->shape;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (q->rank != ATTENTION_RANK || k->rank != ATTENTION_RANK || q->dim[BATCH] != k->dim[BATCH] ||
        q->dim[HEADS] != k->dim[HEADS] || q->dim[DEPTH] != k->dim[DEPTH])
        return FAIL(E_SHAPE,
                    "%s: expected [batch, tokens, heads, depth] with one number of tokens for queries, one for keys: "
                    "found %s and %s",
                    node_text(g, n), shape_text(q, a), shape_text(k, b));
    if (k->dim[TOKENS] < 1)
        return FAIL(E_SHAPE, "%s: there are no keys", node_text(g, n));
    if (!shape_eq(&in_value(g, n, 2)->shape, k))
        return FAIL(E_SHAPE, "%s: values are %s, expected %s as the keys", node_text(g, n),
                    shape_text(&in_value(g, n, 2)->shape, a), shape_text(k, b));
    return ST_OK;
}

/* Float32 for 16-bit data. */
static DType statistics_type(DType t) { return t == DT_FLOAT64 ? DT_FLOAT64 : DT_FLOAT32; }

static Shape statistics_shape(const Shape *q) { return SHAPE(q->dim[BATCH], q->dim[HEADS], q->dim[TOKENS]); }

static Status infer(Graph *g, Node *n)
{
    const Value *q = in_value(g, n, 0);
    Shape rows;

    TRY(infer_same_dtype(g, n, 0, 3));
    TRY(check_shapes(g, n));
    rows = statistics_shape(&q->shape);
    set_out(g, n, 1, statistics_type(q->dtype), &rows);
    return infer_like(g, n, 0);
}

/* q, k, v, y, l, dy -> dq, dk, dv. */
static Status infer_backward(Graph *g, Node *n)
{
    const Value *q = in_value(g, n, 0), *k = in_value(g, n, 1), *l = in_value(g, n, 4);
    Shape rows;

    TRY(infer_same_dtype(g, n, 0, 4));
    TRY(check_shapes(g, n));
    rows = statistics_shape(&q->shape);
    if (in_value(g, n, 5)->dtype != q->dtype || l->dtype != statistics_type(q->dtype))
        return FAIL(E_SHAPE, "%s: types of the output's gradient and of the statistics do not fit", node_text(g, n));
    if (!shape_eq(&in_value(g, n, 3)->shape, &q->shape) || !shape_eq(&in_value(g, n, 5)->shape, &q->shape) ||
        !shape_eq(&l->shape, &rows))
        return FAIL(E_SHAPE, "%s: output, statistics or output gradient do not fit the queries", node_text(g, n));
    set_out(g, n, 0, q->dtype, &q->shape);
    set_out(g, n, 1, q->dtype, &k->shape);
    set_out(g, n, 2, q->dtype, &k->shape);
    return ST_OK;
}

static Status grad(Grad *gr)
{
    Graph *g = gr->g;
    const Node *n = gr->node;
    const Attr *attrs = ATTRS(INT("causal", node_int(n, "causal")), FLOAT("scale", node_float(n, "scale")));
    ValueId d[3];

    if (has_value(grad_dout(gr, 1)))
        return FAIL(E_UNSUPPORTED, "%s: no gradient through its statistics", node_text(g, n));
    EMIT_MULTI(g, ScaledDotProductAttentionGrad, attrs, 3, d, grad_in(gr, 0), grad_in(gr, 1), grad_in(gr, 2),
               grad_out(gr, 0), grad_out(gr, 1), grad_dout(gr, 0));
    for (int i = 0; i < 3 && !g->status; i++)
        if (grad_wanted(gr, i))
            grad_set(gr, i, d[i]);
    return g->status;
}

/* Samples of the batch do not meet: all inputs are split along it, or nothing is. */
static Status place(Placement *p)
{
    Place have = PLACE_B;

    for (int i = 0; i < p->node->n_in; i++) {
        if (p->in[i].kind == PL_S && p->in[i].axis != BATCH)
            place_mixes(p, "it attends along the split axis");
        else if (have.kind == PL_B && (p->in[i].kind == PL_S || p->in[i].kind == PL_L))
            have = p->in[i];
    }
    for (int i = 0; i < p->node->n_in; i++)
        p->in[i] = have;
    place_set_all(p, have);
    return ST_OK;
}

/* Two products forward, five backward; half of each where the mask hides half. */
static int64_t flops(const Graph *g, const Node *n)
{
    const Shape *q = &in_value(g, n, 0)->shape, *k = &in_value(g, n, 1)->shape;
    int64_t products = n->op == &op_ScaledDotProductAttention ? 2 : 5;

    if (!shape_known(q) || !shape_known(k))
        return 0;
    return 2 * products * shape_numel(q) * k->dim[TOKENS] / (node_int(n, "causal") ? 2 : 1);
}

#define ATTENTION                                                                           \
    .domain = "dpexec", .since = 1, .dtypes = DTYPES_FLOAT, .place = place, .flops = flops, \
    .attrs = (const AttrDecl[])                                                             \
    {                                                                                       \
        { "causal", A_INT, .i = 0 }, { "scale", A_FLOAT, .f = 1 }, { 0 }                    \
    }

DEFINE_OP(ScaledDotProductAttention, ATTENTION, .precision = PREC_LOW, .in_min = 3, .in_max = 3, .out_min = 2,
          .out_max = 2, .doc = "softmax(scale * Q K^T) V and the logarithms of its denominators", .infer = infer,
          .grad = grad);

DEFINE_OP(ScaledDotProductAttentionGrad, ATTENTION, .in_min = 6, .in_max = 6, .out_min = 3, .out_max = 3,
          .doc = "dQ, dK, dV of ScaledDotProductAttention, from (q, k, v, y, l, dy)", .infer = infer_backward);
