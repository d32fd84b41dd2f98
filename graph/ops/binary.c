/* Arithmetic of two tensors with numpy broadcasting. */
#include "graph/grad.h"
#include "graph/place.h"

static Status infer(Graph *g, Node *n)
{
    return infer_broadcast(g, n, DT_NONE);
}

static Status grad_add(Grad *gr)
{
    grad_set_unbroadcast(gr, 0, grad_dout(gr, 0));
    grad_set_unbroadcast(gr, 1, grad_dout(gr, 0));
    return grad_graph(gr)->status;
}

static Status grad_sub(Grad *gr)
{
    grad_set_unbroadcast(gr, 0, grad_dout(gr, 0));
    if (grad_wanted(gr, 1))
        grad_set_unbroadcast(gr, 1, EMIT(grad_graph(gr), Neg, NULL, grad_dout(gr, 0)));
    return grad_graph(gr)->status;
}

static Status grad_mul(Grad *gr)
{
    Graph *g = grad_graph(gr);

    for (int i = 0; i < 2; i++)
        if (grad_wanted(gr, i))
            grad_set_unbroadcast(gr, i, EMIT(g, Mul, NULL, grad_dout(gr, 0), grad_in(gr, 1 - i)));
    return g->status;
}

#define BINARY .since = 14, .in_min = 2, .in_max = 2, .out_min = 1, .out_max = 1, .dtypes = DTYPES_NUMERIC, .inplace = { 3 }, .infer = infer

DEFINE_OP(Add, BINARY, .grad = grad_add, .place = place_add, .doc = "a + b");
DEFINE_OP(Sub, BINARY, .grad = grad_sub, .place = place_add, .doc = "a - b");
DEFINE_OP(Mul, BINARY, .grad = grad_mul, .place = place_mul, .doc = "a * b");
