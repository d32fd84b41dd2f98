/* Det: determinants of the matrices along the last two axes.
 *
 * Its gradient is the matrix of cofactors, which a singular matrix has as well: DetGrad computes it without dividing by
 * a pivot that may be zero. */
#include "graph/grad.h"
#include "graph/place.h"

static Status check_matrices(const Graph *g, const Node *n, Shape *y)
{
    const Shape *x = in_value(g, n, 0)->shape;
    char text[SHAPE_TEXT];

    if (x->rank < 2 || x->dim[x->rank - 1] != x->dim[x->rank - 2])
        return FAIL(E_SHAPE, "%s: input %s, expected square matrices", node_text(g, n), shape_text(x, text));
    *y = *x;
    y->rank -= 2;
    return ST_OK;
}

static Status infer_det(Graph *g, Node *n)
{
    Shape y;

    TRY(check_matrices(g, n, &y));
    set_out(g, n, 0, in_value(g, n, 0)->dtype, &y);
    return g->status;
}

static Status infer_det_grad(Graph *g, Node *n)
{
    Shape y;

    TRY(check_matrices(g, n, &y));
    if (!shape_eq(&y, in_value(g, n, 1)->shape) || in_value(g, n, 0)->dtype != in_value(g, n, 1)->dtype)
        return FAIL(E_SHAPE, "%s: the gradient is not one number for each matrix", node_text(g, n));
    return infer_like(g, n, 0);
}

enum { MAX_SIZE = 32, MAX_MINORS = 1 << 20 /* numbers that all minors have */ };

/* [n, n - 1]: all but i, in order. */
static ValueId others(Graph *g, int64_t n)
{
    const Shape s = SHAPE(n, n - 1);
    Tensor *t = tensor_create(g->arena, DT_INT64, &s);

    if (!t) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n - 1; k++)
            tensor_set_int(t, i * (n - 1) + k, k < i ? k : k + 1);
    return graph_add_const_nocopy(g, "others", t);
}

/* [n, n]: 1 and -1 by turns. */
static ValueId signs(Graph *g, DType type, int64_t n)
{
    const Shape s = SHAPE(n, n);
    Tensor *t = tensor_create(g->arena, type, &s);

    if (!t) {
        (void)graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < n * n; i++)
        tensor_set_float(t, i, (i / n + i % n) % 2 ? -1 : 1);
    return graph_add_const_nocopy(g, "signs", t);
}

/* Cofactors by their definition, determinants of what is left without a row and a column, where these are not too many
 * numbers. */
static Status standard_grad(Graph *g, Node *n)
{
    const Value *x = in_value(g, n, 0);
    const int rank = x->shape->rank;
    const int64_t size = x->shape->dim[rank - 1];
    Shape each = *in_value(g, n, 1)->shape;
    int64_t perm[MAX_RANK];
    ValueId y, but;

    each.dim[each.rank++] = 1;
    each.dim[each.rank++] = 1;
    if (size == 1) {
        graph_replace(g, n->out[0], emit_reshape(g, n->in[1], &each));
        return g->status;
    }
    if (rank + 2 > MAX_RANK || size < 2 || size > MAX_SIZE ||
        shape_numel(&each) > MAX_MINORS / (size * size * (size - 1) * (size - 1)))
        return ST_OK;
    but = others(g, size);
    y = EMIT(g, Gather, ATTRS(INT("axis", rank - 1)), n->in[0], but);
    y = EMIT(g, Gather, ATTRS(INT("axis", rank - 2)), y, but);
    for (int i = 0; i < rank - 2; i++)
        perm[i] = i;
    perm[rank - 2] = rank - 2; /* row, others, column, others */
    perm[rank - 1] = rank;
    perm[rank] = rank - 1;
    perm[rank + 1] = rank + 1;
    y = EMIT(g, Det, NULL, emit_transpose(g, y, rank + 2, perm));
    y = EMIT(g, Mul, NULL, y, signs(g, x->dtype, size));
    graph_replace(g, n->out[0], EMIT(g, Mul, NULL, y, emit_reshape(g, n->in[1], &each)));
    return g->status;
}

static Status grad_det(Grad *gr)
{
    grad_set(gr, 0, EMIT(gr->g, DetGrad, NULL, grad_in(gr, 0), grad_dout(gr, 0)));
    return gr->g->status;
}

/* Axes before the matrices', which are the same of all that the node has, pass. */
static Status place_det(Placement *p)
{
    const int rank = in_value(p->g, p->node, 0)->shape->rank;
    Place have = PLACE_B;

    for (int i = 0; i < p->node->n_in; i++) {
        if (p->in[i].kind == PL_S && p->in[i].axis >= rank - 2)
            return place_all_b(p);
        if (have.kind == PL_B && (p->in[i].kind == PL_S || p->in[i].kind == PL_L))
            have = p->in[i];
    }
    for (int i = 0; i < p->node->n_in; i++)
        p->in[i] = have;
    place_set_all(p, have);
    return ST_OK;
}

static int64_t flops(const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;

    return shape_numel(x) * x->dim[x->rank - 1];
}

DEFINE_OP(Det, .since = 22, .from = 11, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT,
          .precision = PREC_WIDE, .infer = infer_det, .grad = grad_det, .place = place_det, .flops = flops,
          .doc = "determinants of the matrices along the last two axes");

DEFINE_OP(DetGrad, .domain = "dpexec", .since = 1, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_FLOAT, .precision = PREC_WIDE, .infer = infer_det_grad, .standard = standard_grad,
          .place = place_det, .flops = flops, .doc = "gradient of Det, from (x, dy)");
