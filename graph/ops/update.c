/* Update: what an optimizer makes of parameters, as a formula of elementwise operators, so that a backend computes it
 * in one pass over memory.
 *
 * The formula is a body (graph/ir/body.h) without types, of one parameter.  Its inputs: the states (the parameter, then
 * what the optimizer keeps beside it), then the gradient, all of one shape, then scalars; it returns the states' next
 * values in their order.  A node holds one parameter or, grouped (passes/fuse/group_updates.c), `count` of them: the
 * states of each, then the gradient of each, then the scalars, which all share. */
#include "graph/ops/update.h"

#include <stdlib.h>

#include "graph/ir/op.h"
#include "graph/ir/placement_rules.h"
#include "graph/ops/update.gen.h"

bool update_is(const Node *n) { return n->op && n->op == &op_Update; }

UpdateForm update_form(const Node *n)
{
    const int count = (int)node_int(n, "count");

    return (UpdateForm){ count, n->n_out / count };
}

/* ---- the formula of one parameter ---- */

static Status update_check_body(const Graph *body, const Graph *g, const Node *n, int p, const UpdateForm *f)
{
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (body->n_output != f->states)
        return FAIL(E_MODEL, "its formula returns %d values for %d states of %d inputs", body->n_output, f->states,
                    body->n_input);
    TRY(body_check_elementwise(body));
    for (int k = 0; k < f->states; k++) {
        const Value *y = value(body, body->output[k].value), *w = in_value(g, n, update_state(f, p, k));

        if (!y->producer) /* it may be overwritten before it is copied */
            return FAIL(E_MODEL, "the next value of state %d is not computed by the formula", k);
        if (y->dtype != w->dtype || !shape_eq(y->shape, w->shape))
            return FAIL(E_SHAPE, "the next value of state %d is %s%s, expected %s%s", k, dtype_name(y->dtype),
                        shape_text(y->shape, a), dtype_name(w->dtype), shape_text(w->shape, b));
    }
    return ST_OK;
}

/* Lists the inputs of the formula for parameter p. */
static void update_list_inputs(ValueId *in, const Node *n, const UpdateForm *f, int p)
{
    for (int k = 0; k < f->states; k++)
        in[k] = n->in[update_state(f, p, k)];
    in[f->states] = n->in[update_grad(f, p)];
    for (int s = 0; s < update_scalars(f, n); s++)
        in[f->states + 1 + s] = n->in[update_scalar(f, s)];
}

Status update_body(Graph **out, const Graph *g, const Node *n, int p)
{
    const UpdateForm f = update_form(n);
    const int own = f.states + 1, scalars = update_scalars(&f, n);
    ValueId *in = malloc(sizeof *in * (size_t)(own + scalars));
    Status st;

    if (!in)
        return FAIL_NOMEM();
    update_list_inputs(in, n, &f, p);
    st = body_instance(out, node_graph(n, "formula"), g, own + scalars, in);
    free(in);
    TRY(st);
    if ((st = update_check_body(*out, g, n, p, &f)))
        graph_free(*out);
    else
        for (int k = 0; k < f.states; k++)
            value(*out, (*out)->output[k].value)->layout = value(g, n->out[update_state(&f, p, k)])->layout;
    return st;
}

/* ---- the operator ---- */

/* Input i looks like state 0 of its parameter, or is a scalar. */
static Status update_check_input(const Graph *g, const Node *n, const UpdateForm *f, int i)
{
    const int own = update_grad(f, 0), scalar = update_scalar(f, 0);
    const int p = i < own ? i / f->states : i < scalar ? i - own : 0;
    const Value *v = in_value(g, n, i), *w = in_value(g, n, update_state(f, p, 0));
    const Shape want = i < scalar ? *w->shape : shape_scalar();
    char a[SHAPE_TEXT], b[SHAPE_TEXT];

    if (shape_eq(v->shape, &want) && (i >= scalar || v->dtype == in_value(g, n, 0)->dtype))
        return ST_OK;
    return FAIL(E_SHAPE, "input %d is %s%s, expected %s%s", i, dtype_name(v->dtype), shape_text(v->shape, a),
                dtype_name(i < scalar ? in_value(g, n, 0)->dtype : v->dtype), shape_text(&want, b));
}

static Status update_check(const Graph *g, const Node *n)
{
    const int64_t count = node_int(n, "count");
    UpdateForm f;

    TRY(node_check_present(n));
    if (!node_graph(n, "formula"))
        return FAIL(E_MODEL, "it has no formula");
    if (count > n->n_out || n->n_out % count || n->n_in < n->n_out + count)
        return FAIL(E_MODEL, "%d inputs and %d outputs for %d parameters", n->n_in, n->n_out, (int)count);
    f = update_form(n);
    for (int i = 0; i < n->n_in; i++)
        TRY(update_check_input(g, n, &f, i));
    return ST_OK;
}

static Status update_infer(Graph *g, Node *n)
{
    Graph *body;

    TRY(status_prefix(update_check(g, n), "%s", node_text(g, n)));
    TRY(status_prefix(update_body(&body, g, n, 0), "%s", node_text(g, n)));
    graph_free(body);
    for (int i = 0; i < n->n_out; i++)
        set_out(g, n, i, in_value(g, n, i)->dtype, in_value(g, n, i)->shape);
    return ST_OK;
}

/* One for each operator and element. */
static int64_t update_flops(const Graph *g, const Node *n)
{
    const UpdateForm f = update_form(n);
    int64_t elements = 0;

    for (int p = 0; p < f.count; p++)
        elements += shape_numel(value(g, n->out[update_state(&f, p, 0)])->shape);
    return (int64_t)node_graph(n, "formula")->n_node * elements;
}

/* ---- in ONNX's operators ---- */

static Status standard_one(Graph *g, const Node *n, const UpdateForm *f, int p)
{
    ValueId *in = ARENA_NEW(g->arena, ValueId, f->states + 1 + update_scalars(f, n));
    ValueId *next = ARENA_NEW(g->arena, ValueId, (size_t)f->states);

    if (!in || !next)
        return graph_fail_nomem(g);
    update_list_inputs(in, n, f, p);
    TRY(body_inline(next, g, node_graph(n, "formula"), in));
    for (int k = 0; k < f->states; k++)
        graph_replace(g, n->out[update_state(f, p, k)], next[k]);
    return g->status;
}

static Status update_standard(Graph *g, Node *n)
{
    const UpdateForm f = update_form(n);

    for (int p = 0; p < f.count; p++)
        TRY(standard_one(g, n, &f, p));
    return g->status;
}

/* ---- what a step reads of a parameter that it has updated before ---- */

static Status infer_updated(Graph *g, Node *n) { return infer_like(g, n, 0); }

DEFINE_OP(Updated, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = 1, .out_min = 1, .out_max = 1,
          .dtypes = DTYPES_F32_F64, .flags = OPF_NEXT_STATE, .infer = infer_updated, .grad = grad_none,
          .doc = "what the state will be after the step; there from take-turns until add-optimizer knows it");

DEFINE_OP(Update, .layout = LAYOUT_ANY, .domain = "dpexec", .since = 1, .in_min = 2, .in_max = -1, .out_min = 1,
          .out_max = -1, .dtypes = DTYPES_F32_F64, .flags = OPF_INPLACE_EACH | OPF_ELEMENTS | OPF_MANY,
          .attrs = (const AttrDecl[]){ { "formula", A_GRAPH, .rule = ATTR_REQUIRED },
                                       { "count", A_INT, .i = 1, .range = R_POSITIVE },
                                       { 0 } },
          .infer = update_infer, .grad = grad_none, .standard = update_standard, .place = place_update,
          .flops = update_flops,
          .doc = "the next values of `count` parameters and of their optimizer's states, by a formula of elementwise "
                 "operators; inputs the states of each, the gradient of each, scalars");
