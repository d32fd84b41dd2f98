/* Reverse-mode differentiation: appends the nodes of the backward pass that the loss needs.
 *
 * A value wants a gradient when it depends on a parameter; a gradient flows to it when the loss depends on it.  Nodes
 * are visited in reverse order, so all readers of a node's outputs have contributed before its turn.  Contributions are
 * added as they arrive, in an order that the order of the nodes fixes.  New nodes are appended behind the forward pass
 * and stay in topological order.  Each is named after the node, or the parameter, whose gradient it computes. */
#include "graph/ir/autodiff.h"

#include <string.h>

#include "graph/ir/grad.h"
#include "graph/ops/binary.gen.h"

static bool differentiable(const Graph *g, ValueId v) { return has_value(v) && dtype_is_float(value(g, v)->dtype); }

/* Marks in `wants` all values that depend on those which are marked. */
static void mark_wanted(bool *wants, const Graph *g)
{
    FOR_NODES(g, n) {
        bool any = false;

        for (int i = 0; i < n->n_in; i++)
            any |= differentiable(g, n->in[i]) && wants[n->in[i].i];
        if (!any || n->op->grad == grad_none || (n->op->flags & OPF_ZERO_GRAD))
            continue;
        for (int i = 0; i < n->n_out; i++)
            if (differentiable(g, n->out[i]))
                wants[n->out[i].i] = true;
    }
}

/* Nodes added from now on are named "gradient of OF". */
static Status begin_gradient(Graph *g, const char *of)
{
    const char *purpose = arena_printf(g->arena, GRADIENT_OF "%s", of);

    graph_begin_purpose(g, PHASE_BACKWARD, purpose);
    return purpose ? ST_OK : FAIL_NOMEM();
}

/* Names the nodes that compute only the gradient of a parameter after it: the last one, and those it is a view of. */
static Status name_gradient(Graph *g, ValueId param, ValueId grad)
{
    Node *n = value(g, grad)->producer;

    if (value(g, param)->kind != V_STATE)
        return ST_OK;
    TRY(begin_gradient(g, value(g, param)->name));
    while (n && n->n_out == 1 && n->phase == PHASE_BACKWARD) {
        n->name = g->purpose;
        n = n->op->flags & OPF_VIEW ? value(g, n->in[0])->producer : NULL;
    }
    return ST_OK;
}

/* Adds dx, the gradient by that input of n, to the sum in `grad`, by value id. */
static Status contribute(ValueId *grad, Graph *g, const Node *n, int input, ValueId dx)
{
    ValueId x = n->in[input];
    const char *purpose = g->purpose;
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (!has_value(dx))
        return ST_OK;
    if (value(g, dx)->dtype != value(g, x)->dtype || !shape_eq(value(g, dx)->shape, value(g, x)->shape))
        return FAIL(E_INTERNAL, "%s: gradient by input %d is %s%s, the input %s%s", node_text(g, n), input,
                    dtype_name(value(g, dx)->dtype), shape_text(value(g, dx)->shape, a), dtype_name(value(g, x)->dtype),
                    shape_text(value(g, x)->shape, b));
    if (value(g, dx)->batch_axis == BATCH_UNKNOWN)
        value(g, dx)->batch_axis = value(g, x)->batch_axis;
    TRY(name_gradient(g, x, dx));
    grad[x.i] = has_value(grad[x.i]) ? EMIT(g, Add, NULL, grad[x.i], dx) : dx;
    graph_begin_purpose(g, PHASE_BACKWARD, purpose);
    return g->status;
}

/* Adds the gradients by the node's inputs to `grad`; a node without a gradient is added to `missing`. */
static Status autodiff_visit(ValueId *grad, Problems *missing, Graph *g, const Node *n, const bool *wants,
                             Arena *scratch)
{
    Grad gr = { .g = g, .node = n };
    ValueId *dout = ARENA_NEW(scratch, ValueId, n->n_out), *din = ARENA_NEW(scratch, ValueId, n->n_in);
    bool *wanted = ARENA_NEW(scratch, bool, n->n_in), flows = false;

    if (!dout || !din || !wanted)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_out; i++) {
        dout[i] = has_value(n->out[i]) && wants[n->out[i].i] ? grad[n->out[i].i] : NO_VALUE;
        flows |= has_value(dout[i]);
    }
    if (!flows)
        return ST_OK;
    if (!n->op->grad) {
        problems_add(missing, "%s", node_text(g, n));
        return ST_OK;
    }
    for (int i = 0; i < n->n_in; i++)
        wanted[i] = differentiable(g, n->in[i]) && wants[n->in[i].i];
    gr.dout = dout;
    gr.din = din;
    gr.wanted = wanted;
    TRY(begin_gradient(g, n->name));
    TRY(n->op->grad(&gr));
    TRY(g->status);
    for (int i = 0; i < n->n_in; i++)
        if (wanted[i])
            TRY(contribute(grad, g, n, i, din[i]));
    return ST_OK;
}

Status autodiff(Graph *g, Arena *scratch, ValueId loss, int n_wrt, const ValueId *wrt, ValueId *grads)
{
    bool *wants;       /* by value id: depends on a value to differentiate by */
    ValueId *grad;     /* by value id: the sum of contributions so far */
    PROBLEMS(missing); /* nodes without a gradient */
    uint32_t n_forward = g->n_node;

    if (shape_numel(value(g, loss)->shape) != 1 || !differentiable(g, loss))
        return FAIL(E_SHAPE, "the loss '%s' is not a float scalar", value(g, loss)->name);
    wants = ARENA_NEW(scratch, bool, g->n_value);
    grad = ARENA_NEW(scratch, ValueId, g->n_value);
    if (!wants || !grad)
        return FAIL_NOMEM();
    for (int i = 0; i < n_wrt; i++)
        wants[wrt[i].i] = true;
    mark_wanted(wants, g);
    graph_begin_purpose(g, PHASE_BACKWARD, GRADIENT_OF "the loss");
    if (wants[loss.i])
        grad[loss.i] = emit_full(g, value(g, loss)->dtype, value(g, loss)->shape, 1);
    for (uint32_t i = n_forward; i-- > 0;)
        if (g->node[i]->op)
            TRY(autodiff_visit(grad, &missing, g, g->node[i], wants, scratch));
    TRY(problems_fail(&missing, E_UNSUPPORTED,
                      "no gradient is known for %d operator%s between the loss and the parameters", missing.n,
                      missing.n == 1 ? "" : "s"));
    for (int i = 0; i < n_wrt; i++)
        grads[i] = grad[wrt[i].i];
    return graph_sort(g); /* nodes of an embedder's gradient may have been lowered, which appends nodes */
}
