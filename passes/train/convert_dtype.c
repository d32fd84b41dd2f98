/* convert-dtype: the model computes in the float type that was asked for.
 *
 * Every float input, constant and state becomes of that type, and so does every type that an attribute names (Cast's
 * `to`, the `dtype` of generators, tensors such as ConstantOfShape's value); inference then finds the new type of all
 * else.  Right because ONNX's operators mean the same in every float type; integers stay as they are. */
#include <string.h>

#include "graph/ir/op.h"
#include "passes/pass.h"
#include "passes/passes.gen.h"

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

/* ---- floats that only decide integers ---- */

/* A float, or what may be one. */
static bool may_float(const DType *type, ValueId v)
{
    return has_value(v) && (type[v.i] == DT_NONE || dtype_is_float(type[v.i]));
}

static bool any_counts(const DType *type, const bool *decides, int n, const ValueId *v)
{
    for (int i = 0; i < n; i++)
        if (may_float(type, v[i]) && !decides[v[i].i])
            return true;
    return false;
}

static bool all_count(const DType *type, bool *decides, int n, const ValueId *v)
{
    bool changed = false;

    for (int i = 0; i < n; i++)
        if (may_float(type, v[i]) && decides[v[i].i]) {
            decides[v[i].i] = false;
            changed = true;
        }
    return changed;
}

static bool node_counts(const Node *n, const DType *type, const bool *decides)
{
    bool bodies = false;

    for (int i = 0; i < n->n_attr; i++)
        bodies |= n->attr[i].type == A_GRAPH;
    return bodies || op_is_unlike(n->op) || any_counts(type, decides, n->n_in, n->in) ||
           any_counts(type, decides, n->n_out, n->out);
}

/* decides[i]: value i is a float that no node ties to an input, a state or an output of the graph by other floats. */
static void find_deciding(bool *decides, const Graph *g, const DType *type)
{
    bool changed = true;

    for (uint32_t i = 1; i < g->n_value; i++)
        decides[i] = dtype_is_float(type[i]) && (g->value[i]->kind == V_TEMP || g->value[i]->kind == V_CONST);
    for (int i = 0; i < g->n_output; i++)
        decides[g->output[i].value.i] = false;
    for (int i = 0; i < g->n_update; i++)
        decides[g->update[i].next.i] = false;
    while (changed) {
        changed = false;
        FOR_NODES(g, n)
            if (node_counts(n, type, decides)) {
                changed |= all_count(type, decides, n->n_in, n->in);
                changed |= all_count(type, decides, n->n_out, n->out);
            }
    }
}

static bool makes_integers(const Node *n)
{
    const Attr *to = n->op ? node_attr(n, "to") : NULL;

    return to && to->type == A_INT && !dtype_is_float((DType)to->i);
}

/* The types of all values as the file has them, found in a copy; NULL where nothing decides integers, or types cannot
 * be found, of which infer-shapes will tell. */
static Status file_types(DType **out, const Graph *g, PassCtx *ctx)
{
    PassCtx unsaid = { .scratch = ctx->scratch, .opt = ctx->opt, .eval = ctx->eval };
    DType *type = ARENA_NEW(ctx->scratch, DType, g->n_value);
    bool any = false;
    Graph *copy;

    *out = NULL;
    FOR_NODES(g, n)
        any |= makes_integers(n);
    if (!any)
        return ST_OK;
    if (!type)
        return FAIL_NOMEM();
    TRY(graph_clone_lending(&copy, g));
    if (!pass_infer_shapes.run(copy, &unsaid)) {
        for (uint32_t i = 1; i < g->n_value; i++)
            type[i] = copy->value[i]->dtype;
        *out = type;
    }
    graph_free(copy);
    return ST_OK;
}

/* decides: floats that stay, by value; NULL: none does. */
static Status convert_graph(Graph *g, DType to, const bool *decides, const DType *type, int *n_changed)
{
    for (uint32_t i = 1; i < g->n_value; i++)
        if (!decides || !decides[i])
            TRY(convert_value(g, g->value[i], to, n_changed));
    FOR_NODES(g, n) {
        bool typed = n->n_out && has_value(n->out[0]) && value(g, n->out[0])->dtype != DT_NONE;

        if (decides && !node_counts(n, type, decides))
            continue;
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
    if (!(st = convert_graph(copy, to, NULL, NULL, &changed)) && changed) {
        node_set_attr(g, n, &(Attr)GRAPH(a->name, copy));
        st = g->status;
        *n_changed += changed;
    }
    graph_free(copy);
    return st;
}

static Status run(Graph *g, PassCtx *ctx)
{
    const DType to = ctx->opt->dtype;
    bool *decides = NULL;
    DType *type = NULL;

    if (to == DT_NONE)
        return ST_OK;
    if (to != DT_FLOAT32 && to != DT_FLOAT64)
        return FAIL(E_INVALID, "--dtype %s: expected float32 or float64", dtype_name(to));
    if (to == DT_FLOAT64)
        TRY(file_types(&type, g, ctx));
    if (type && !(decides = ARENA_NEW(ctx->scratch, bool, g->n_value)))
        return FAIL_NOMEM();
    if (type)
        find_deciding(decides, g, type);
    return convert_graph(g, to, decides, type, &ctx->n_changed);
}

const Pass pass_convert_dtype = { .name = "convert-dtype",
                                  .summary = "convert the model's floats to the wanted type",
                                  .run = run };
