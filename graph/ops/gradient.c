/* Gradient of ai.onnx.preview.training: the gradients of a part of the model, which the importer puts into `body`.  It
 * differentiates the sum of the body's output by the first inputs, one for each output of the node.
 *
 * Lowering, when types and shapes are known, copies the body, differentiates the copy and puts it in the place of the
 * node.  Most of its forward computations are in the model, too; cse merges them. */
#include "graph/ir/autodiff.h"
#include "graph/ir/emit.h"
#include "graph/ir/grad.h"
#include "graph/ir/inline_graph.h"
#include "graph/ir/lower.h"

static Status gradient_infer(Graph *g, Node *n)
{
    const Graph *body = node_attr(n, "body")->graph;

    if (body->n_input != n->n_in || body->n_output != 1)
        return FAIL(E_MODEL, "%s: its body has %d inputs and %d outputs, expected %d and 1", node_text(g, n),
                    body->n_input, body->n_output, n->n_in);
    if (n->n_out > n->n_in)
        return FAIL(E_MODEL, "%s: %d outputs, expected at most one for each of %d inputs", node_text(g, n), n->n_out,
                    n->n_in);
    for (int i = 0; i < n->n_out; i++) {
        if (has_out(n, i) && !dtype_is_float(in_value(g, n, i)->dtype))
            return FAIL(E_SHAPE, "%s: input %d is %s, expected a float", node_text(g, n), i,
                        dtype_name(in_value(g, n, i)->dtype));
        set_out(g, n, i, in_value(g, n, i)->dtype, in_value(g, n, i)->shape);
    }
    return g->status;
}

/* Infers and lowers the part, and appends the gradients of its output by its first n->n_out inputs. */
static Status differentiate(Graph *part, const Node *n, ValueId *grad)
{
    const Shape scalar = shape_scalar();
    int64_t axes[MAX_RANK];
    ValueId y;

    TRY(graph_lower(part, part->arena, &(Lowering){ .infer = true }));
    TRY(graph_sort(part));
    y = part->output[0].value;
    if (!shape_known(value(part, y)->shape) || !dtype_is_float(value(part, y)->dtype))
        return FAIL(E_UNSUPPORTED, "the value to differentiate has no known shape, or is no float");
    for (int i = 0; i < MAX_RANK; i++)
        axes[i] = i;
    y = shape_numel(value(part, y)->shape) == 1 ? emit_reshape(part, y, &scalar)
                                                : emit_reduce_sum(part, y, value(part, y)->shape->rank, axes, false);
    TRY(part->status);
    return autodiff(part, part->arena, y, n->n_out, part->input, grad);
}

/* Copies the part into g, and replaces n's outputs by the gradients. */
static Status gradient_put(Graph *g, const Node *n, Graph *part, const ValueId *grad)
{
    const char *prefix = arena_printf(g->arena, "%s/", n->name);
    ValueId *copy = ARENA_NEW(g->arena, ValueId, part->n_value); /* by value id of the part */
    const uint32_t from = g->n_node;

    if (!prefix || !copy)
        return FAIL_NOMEM();
    for (int i = 0; i < part->n_input; i++)
        copy[part->input[i].i] = n->in[i];
    TRY(graph_join(g, part, copy, prefix, n->phase));
    for (uint32_t i = from; i < g->n_node; i++)
        TRY(node_infer(g, g->node[i]));
    for (int i = 0; i < n->n_out; i++)
        if (has_out(n, i))
            graph_replace(g, n->out[i],
                          has_value(grad[i]) ? copy[grad[i].i]
                                             : emit_full(g, in_value(g, n, i)->dtype, in_value(g, n, i)->shape, 0));
    return g->status;
}

static Status gradient_lower(Graph *g, Node *n)
{
    ValueId *grad = ARENA_NEW(g->arena, ValueId, n->n_out);
    Graph *part;
    Status st;

    if (!grad)
        return FAIL_NOMEM();
    TRY(graph_clone_lending(&part, node_attr(n, "body")->graph)); /* the body's data live as long as g */
    for (int i = 0; i < n->n_in; i++) { /* inputs that are not differentiated by stay constants */
        Value *v = value(part, part->input[i]);
        const Tensor *t = has_out(n, i) ? NULL : in_const(g, n, i);

        v->dtype = in_value(g, n, i)->dtype;
        value_set_shape(part, v, in_value(g, n, i)->shape);
        v->kind = t ? V_CONST : v->kind;
        v->init = t;
    }
    st = differentiate(part, n, grad);
    st = st ? st : gradient_put(g, n, part, grad);
    graph_free(part);
    return st ? status_prefix(st, "%s", node_text(g, n)) : ST_OK;
}

/* The body has the values and the mode of the file, which training the model would not change. */
static Status gradient_train(Graph *g, Node *n, const TrainMode *mode)
{
    return mode->batch ? FAIL(E_UNSUPPORTED,
                              "%s: a model that computes gradients itself is trained by its training_info: give "
                              "--optimizer file",
                              node_text(g, n))
                       : ST_OK;
}

DEFINE_OP(Gradient, .domain = "dpexec", .since = 1, .in_min = 1, .in_max = -1, .out_min = 1, .out_max = -1,
          .attrs = (const AttrDecl[]){ { "body", A_GRAPH, .rule = ATTR_REQUIRED }, { 0 } }, .infer = gradient_infer,
          .train = gradient_train, .lower = gradient_lower,
          .doc = "gradients of what the body computes, by the inputs in front");
