/* Det: determinants of the matrices along the last two axes.
 *
 * Its gradient is the matrix of cofactors, which exists for singular matrices, too: DetGrad computes it without
 * dividing by a pivot that may be zero. */
#include "graph/ir/grad.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/det.gen.h"
#include "graph/ops/det_standard.h"

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

static Status grad_det(Grad *gr)
{
    grad_set(gr, 0, EMIT(gr->g, DetGrad, NULL, grad_in(gr, 0), grad_dout(gr, 0)));
    return gr->g->status;
}

/* A split along an axis before the matrices' passes; all inputs and outputs have these axes. */
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

static int64_t det_flops(const Graph *g, const Node *n)
{
    const Shape *x = in_value(g, n, 0)->shape;

    return shape_numel(x) * x->dim[x->rank - 1];
}

DEFINE_OP(Det, .since = 22, .from = 11, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, .dtypes = DTYPES_FLOAT,
          .precision = PREC_WIDE, .infer = infer_det, .grad = grad_det, .place = place_det, .flops = det_flops,
          .doc = "determinants of the matrices along the last two axes");

DEFINE_OP(DetGrad, .domain = "dpexec", .since = 1, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_FLOAT, .precision = PREC_WIDE, .infer = infer_det_grad, .standard = det_standard_grad,
          .place = place_det, .flops = det_flops, .doc = "gradient of Det, from (x, dy)");
