/* convert-dtype: the model computes in the float type that was asked for.
 *
 * Every float input, constant and state becomes of that type, and so does every type that an attribute names (Cast's
 * `to`, the `dtype` of generators, tensors such as ConstantOfShape's value); inference then finds the new type of all
 * else.  Right because ONNX's operators mean the same in every float type; integers stay as they are. */
#include <string.h>

#include "graph/ir/op.h"
#include "passes/pass.h"

static Status convert_tensor(const Tensor **out, Graph *g, const Tensor *t, DType to)
{
    Tensor *copy;

    if (!t || t->dtype == to || !dtype_is_float(t->dtype))
        return ST_OK;
    if (!(copy = tensor_create(g->arena, to, &t->shape)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < tensor_numel(t); i++)
        tensor_set_float(copy, i, tensor_float(t, i));
    *out = copy;
    return ST_OK;
}

static bool names_dtype(const Attr *a)
{
    return a->type == A_INT && (!strcmp(a->name, "to") || !strcmp(a->name, "dtype")) && dtype_is_float((DType)a->i);
}

static Status convert_body(Graph *g, Node *n, const Attr *a, DType to, int *n_changed);

static Status convert_attrs(Graph *g, Node *n, DType to, int *n_changed)
{
    for (int i = 0; i < n->n_attr; i++) {
        Attr a = n->attr[i];

        if (names_dtype(&a) && a.i != to) {
            a.i = to;
            ++*n_changed;
        }
        if (a.type == A_TENSOR)
            TRY(convert_tensor(&a.tensor, g, a.tensor, to));
        if (!attr_same(&a, &n->attr[i]))
            node_set_attr(g, n, &a);
        if (a.type == A_GRAPH)
            TRY(convert_body(g, n, &a, to, n_changed));
    }
    return ST_OK;
}

static Status convert_value(Graph *g, Value *v, DType to, int *n_changed)
{
    if (v->kind == V_TEMP || v->dtype == to || !dtype_is_float(v->dtype))
        return ST_OK;
    TRY(convert_tensor(&v->init, g, v->init, to));
    v->dtype = to;
    ++*n_changed;
    return ST_OK;
}

static Status convert_graph(Graph *g, DType to, int *n_changed)
{
    for (uint32_t i = 1; i < g->n_value; i++)
        TRY(convert_value(g, g->value[i], to, n_changed));
    FOR_NODES(g, n) {
        bool typed = n->n_out && has_value(n->out[0]) && value(g, n->out[0])->dtype != DT_NONE;

        TRY(convert_attrs(g, n, to, n_changed));
        if (typed)
            TRY(node_infer(g, n));
    }
    return g->status;
}

/* Another body in the place of one that names types. */
static Status convert_body(Graph *g, Node *n, const Attr *a, DType to, int *n_changed)
{
    Graph *copy;
    Status st;
    int changed = 0;

    if (!a->graph)
        return ST_OK;
    TRY(graph_clone(&copy, a->graph));
    if (!(st = convert_graph(copy, to, &changed)) && changed) {
        node_set_attr(g, n, &(Attr)GRAPH(a->name, copy));
        st = g->status;
        *n_changed += changed;
    }
    graph_free(copy);
    return st;
}

static Status run(Graph *g, PassCtx *ctx)
{
    DType to = ctx->opt->dtype;

    if (to == DT_NONE)
        return ST_OK;
    if (to != DT_FLOAT32 && to != DT_FLOAT64)
        return FAIL(E_INVALID, "--dtype %s: expected float32 or float64", dtype_name(to));
    return convert_graph(g, to, &ctx->n_changed);
}

const Pass pass_convert_dtype = { .name = "convert-dtype",
                                  .summary = "convert the model's floats to the wanted type",
                                  .run = run };
