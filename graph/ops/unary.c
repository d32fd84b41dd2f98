/* Functions of one element. */
#include "graph/grad.h"
#include "graph/place.h"

static Status infer(Graph *g, Node *n)
{
    return infer_like(g, n, 0);
}

static Status grad_neg(Grad *gr)
{
    grad_set(gr, 0, EMIT(grad_graph(gr), Neg, NULL, grad_dout(gr, 0)));
    return grad_graph(gr)->status;
}

/* dx = dy * y */
static Status grad_exp(Grad *gr)
{
    grad_set(gr, 0, EMIT(grad_graph(gr), Mul, NULL, grad_dout(gr, 0), grad_out(gr, 0)));
    return grad_graph(gr)->status;
}

#define UNARY .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1, .inplace = { 1 }, .infer = infer

DEFINE_OP(Neg, UNARY, .since = 13, .dtypes = DTYPES_FLOAT | DTYPES_SIGNED, .grad = grad_neg, .place = place_linear, .doc = "-x");
DEFINE_OP(Exp, UNARY, .since = 13, .dtypes = DTYPES_FLOAT, .grad = grad_exp, .place = place_elementwise, .doc = "e^x");
