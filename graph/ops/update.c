/* Update: what an optimizer makes of one parameter, as a formula of elementwise operators, so that a backend computes
 * it in one pass over memory.
 *
 * The formula is a body (graph/body.h) without types.  Its inputs are the node's: the states (the parameter, then what
 * the optimizer keeps beside it), then the gradient, all of one shape, then scalars; it returns the states' next values
 * in their order. */
#include "graph/ops/update.h"

#include "graph/op.h"
#include "graph/place.h"

static Status check_body(const Graph *body, const Graph *g, const Node *n)
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (body->n_output != n->n_out || n->n_in <= n->n_out)
        return FAIL(E_MODEL, "its formula returns %d values for %d states of %d inputs", body->n_output, n->n_out,
                    n->n_in);
    FOR_NODES(body, x)
        if (!x->op->elementwise || x->n_out != 1)
            return FAIL(E_MODEL, "%s in a formula is not elementwise", node_text(body, x));
    for (int i = 0; i < n->n_in; i++) {
        const Value *v = in_value(g, n, i), *w = in_value(g, n, 0);
        const Shape want = i <= n->n_out ? w->shape : shape_scalar();

        if (!shape_eq(&v->shape, &want) || (i <= n->n_out && v->dtype != w->dtype))
            return FAIL(E_SHAPE, "input %d is %s%s, expected %s%s", i, dtype_name(v->dtype), shape_text(&v->shape, a),
                        dtype_name(i <= n->n_out ? w->dtype : v->dtype), shape_text(&want, b));
    }
    for (int i = 0; i < n->n_out; i++) {
        const Value *y = value(body, body->output[i].value), *w = in_value(g, n, i);

        if (!y->producer) /* it may be overwritten before it is copied */
            return FAIL(E_MODEL, "the next value of state %d is not computed by the formula", i);

        if (y->dtype != w->dtype || !shape_eq(&y->shape, &w->shape))
            return FAIL(E_SHAPE, "the next value of state %d is %s%s, expected %s%s", i, dtype_name(y->dtype),
                        shape_text(&y->shape, a), dtype_name(w->dtype), shape_text(&w->shape, b));
    }
    return ST_OK;
}

static Status body_of(Graph **out, const Graph *g, const Node *n)
{
    const Graph *formula = node_graph(n, "formula");
    Status st;

    for (int i = 0; i < n->n_in; i++)
        if (!has_in(n, i))
            return FAIL(E_MODEL, "input %d is absent", i);
    for (int i = 0; i < n->n_out; i++)
        if (!has_out(n, i))
            return FAIL(E_MODEL, "output %d is absent", i);
    if (!formula)
        return FAIL(E_MODEL, "it has no formula");
    TRY(body_instance(out, formula, g, n->n_in, n->in));
    if ((st = check_body(*out, g, n)))
        graph_free(*out);
    else
        for (int i = 0; i < n->n_out; i++)
            value(*out, (*out)->output[i].value)->layout = value(g, n->out[i])->layout;
    return st;
}

Status update_body(Graph **out, const Graph *g, const Node *n)
{
    return status_prefix(body_of(out, g, n), "%s", node_text(g, n));
}

static Status infer(Graph *g, Node *n)
{
    Graph *body;

    TRY(update_body(&body, g, n));
    graph_free(body);
    for (int i = 0; i < n->n_out; i++)
        set_out(g, n, i, in_value(g, n, i)->dtype, &in_value(g, n, i)->shape);
    return ST_OK;
}

/* One for each operator and element. */
static int64_t flops(const Graph *g, const Node *n)
{
    return (int64_t)node_graph(n, "formula")->n_node * shape_numel(&value(g, n->out[0])->shape);
}

DEFINE_OP(Update, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 2, .in_max = -1, .out_min = 1,
          .out_max = -1, .dtypes = DTYPES_F32_F64, .flags = OPF_INPLACE_EACH | OPF_ELEMENTS,
          .attrs = (const AttrDecl[]){ { "formula", A_GRAPH, .rule = ATTR_REQUIRED }, { 0 } }, .infer = infer,
          .grad = grad_none, .place = place_update, .flops = flops,
          .doc = "the next values of a parameter and of its optimizer's states, by a formula of elementwise operators; "
                 "inputs states, gradient, scalars");
