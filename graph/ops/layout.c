/* Operators that rearrange elements without computing. */
#include "graph/grad.h"
#include "graph/place.h"

/* ---- Reshape ---- */

static Status infer_reshape(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y = { 0 }, unknown = shape_unknown();
    int64_t known = 1, total = shape_numel(&x->shape);
    int infer_at = -1;

    set_out(g, n, 0, x->dtype, &unknown);
    if (!value_const(g, n->in[1]))
        return ST_OK;
    TRY(value_const_ints(g, n->in[1], y.dim, MAX_RANK, &y.rank));
    for (int i = 0; i < y.rank; i++) {
        if (y.dim[i] == 0 && !node_int(n, "allowzero"))
            y.dim[i] = i < x->shape.rank ? x->shape.dim[i] : 0;
        if (y.dim[i] == -1 && infer_at < 0)
            infer_at = i;
        else
            known *= y.dim[i];
    }
    if (infer_at >= 0)
        y.dim[infer_at] = known ? total / known : 0;
    if (shape_numel(&y) != total) {
        char from[SHAPE_TEXT], to[SHAPE_TEXT];
        return FAIL(E_SHAPE, "%s: shape %s cannot become %s", node_text(g, n), shape_text(&x->shape, from), shape_text(&y, to));
    }
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

static Status grad_reshape(Grad *gr)
{
    grad_set(gr, 0, emit_reshape(gr->g, grad_dout(gr, 0), &grad_in_value(gr, 0)->shape));
    return gr->g->status;
}

DEFINE_OP(Reshape, .since = 14, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1, .flags = OPF_VIEW, .shape_in = 2,
    .attrs = (const AttrDecl[]){ { "allowzero", A_INT, 0, 0, false, NULL }, { 0 } },
    .infer = infer_reshape, .grad = grad_reshape, .doc = "x under another shape of the same size");

/* ---- Expand ---- */

static Status infer_expand(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    Shape y = shape_unknown();

    set_out(g, n, 0, x->dtype, &y);
    if (!value_const(g, n->in[1]))
        return ST_OK;
    TRY(value_const_ints(g, n->in[1], y.dim, MAX_RANK, &y.rank));
    TRY(shape_broadcast(&y, &x->shape, &y, node_text(g, n)));
    set_out(g, n, 0, x->dtype, &y);
    return ST_OK;
}

static Status grad_expand(Grad *gr)
{
    grad_set_unbroadcast(gr, 0, grad_dout(gr, 0));
    return gr->g->status;
}

DEFINE_OP(Expand, .since = 13, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1, .shape_in = 2,
    .infer = infer_expand, .grad = grad_expand, .doc = "x broadcast to a shape");

/* ---- Transpose ---- */

static Status infer_transpose(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    int64_t reversed[MAX_RANK];
    const int64_t *perm;
    Shape y = { .rank = x->shape.rank };
    unsigned seen = 0;
    int count;

    perm = node_ints(n, "perm", &count);
    if (!count && y.rank) {
        for (int i = 0; i < y.rank; i++)
            reversed[i] = y.rank - 1 - i;
        node_set_ints(g, n, "perm", y.rank, reversed);
        perm = node_ints(n, "perm", &count);
    }
    for (int i = 0; i < count && i < y.rank; i++)
        if (perm[i] >= 0 && perm[i] < y.rank) {
            seen |= 1u << perm[i];
            y.dim[i] = x->shape.dim[perm[i]];
        }
    if (count != y.rank || seen != (1u << y.rank) - 1)
        return FAIL(E_SHAPE, "%s: perm is not a permutation of %d axes", node_text(g, n), y.rank);
    set_out(g, n, 0, x->dtype, &y);
    return g->status;
}

static Status grad_transpose(Grad *gr)
{
    int count;
    const int64_t *perm = node_ints(gr->node, "perm", &count);
    int64_t inverse[MAX_RANK];

    for (int i = 0; i < count; i++)
        inverse[perm[i]] = i;
    grad_set(gr, 0, emit_transpose(gr->g, grad_dout(gr, 0), count, inverse));
    return gr->g->status;
}

DEFINE_OP(Transpose, .since = 13, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
    .attrs = (const AttrDecl[]){ { "perm", A_INTS, 0, 0, false, NULL }, { 0 } },
    .infer = infer_transpose, .grad = grad_transpose, .doc = "axes permuted");
