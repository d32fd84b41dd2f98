/* Uses of bodies: a copy with the types of a use, and the body's nodes among those of a graph.  Both infer types, so
 * this stands above the operators, and body.c below them. */
#include "graph/ir/body.h"
#include "graph/ir/op.h"

Status body_instance(Graph **out, const Graph *body, const Graph *g, int n, const ValueId *in)
{
    Graph *copy;
    Status st = ST_OK;

    if (body->n_input != n)
        return FAIL(E_MODEL, "its body has %d inputs, expected %d", body->n_input, n);
    TRY(graph_clone_lending(&copy, body));
    for (int i = 0; i < n; i++) {
        Value *x = value(copy, copy->input[i]);

        x->dtype = value(g, in[i])->dtype;
        x->shape = value(g, in[i])->shape;
        x->layout = value(g, in[i])->layout;
    }
    FOR_NODES(copy, x)
        st = st ? st : node_infer(copy, x);
    if ((st = st ? st : copy->status))
        graph_free(copy);
    else
        *out = copy;
    return st;
}

Status body_inline(ValueId *out, Graph *g, const Graph *body, const ValueId *in)
{
    ValueId *copy = ARENA_NEW(g->arena, ValueId, body->n_value); /* by value id of the body */

    if (!copy)
        return graph_fail_nomem(g);
    for (int i = 0; i < body->n_input; i++)
        copy[body->input[i].i] = in[i];
    for (uint32_t i = 1; i < body->n_value; i++)
        if (body->value[i]->kind == V_CONST)
            copy[i] = graph_add_const(g, "const", body->value[i]->init);
    TRY(g->status);
    FOR_NODES(body, x) {
        ValueId *read = ARENA_NEW(g->arena, ValueId, (size_t)x->n_in), y;

        if (!read)
            return graph_fail_nomem(g);
        for (int i = 0; i < x->n_in; i++)
            read[i] = has_in(x, i) ? copy[x->in[i].i] : NO_VALUE;
        y = body_add_like(g, x, read, NULL);
        TRY(g->status);
        copy[x->out[0].i] = y;
        TRY(node_infer(g, value(g, y)->producer));
    }
    for (int i = 0; i < body->n_output; i++)
        out[i] = copy[body->output[i].value.i];
    return g->status;
}
