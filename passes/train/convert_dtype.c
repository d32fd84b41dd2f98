/* convert-dtype: the model computes in the float type that was asked for.
 *
 * Every float input, constant and state becomes of that type, and so does every type that an attribute names (Cast's
 * `to`, the `dtype` of generators, tensors such as ConstantOfShape's value); inference then finds the new type of all
 * else.  Right because ONNX's operators mean the same in every float type; integers stay as they are. */
#include <string.h>

#include "graph/ir/op.h"
#include "passes/options/types.h"
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

/* A float, or a value that may be one, ties its nodes to one type: the model's new type, or that of the file. Constants
 * do not, because each reader may have its own. */
typedef enum { NO_TIE, TIE_TO_MODEL, TIE_TO_FILE } Tie;

static bool any_to_model(const Tie *tie, int n, const ValueId *v)
{
    bool any = false;

    for (int i = 0; i < n; i++)
        any |= tie[v[i].i] == TIE_TO_MODEL;
    return any;
}

/* Is the node to compute in the model's type? */
static bool is_tied(const Tie *tie, const Node *n)
{
    bool bodies = false;

    for (int i = 0; i < n->n_attr; i++)
        bodies |= n->attr[i].type == A_GRAPH;
    return bodies || op_is_impure(n->op) || any_to_model(tie, n->n_in, n->in) || any_to_model(tie, n->n_out, n->out);
}

static bool tie_to_model(Tie *tie, int n, const ValueId *v)
{
    bool changed = false;

    for (int i = 0; i < n; i++)
        if (tie[v[i].i] == TIE_TO_FILE) {
            tie[v[i].i] = TIE_TO_MODEL;
            changed = true;
        }
    return changed;
}

/* Ties to the file the floats that no node ties to an input, a state or an output of the graph by other floats.
 * `type`, by value id: the file's.  Sets `keeps` of nodes whose values keep their types. */
static void find_ties(Tie *tie, bool *keeps, const Graph *g, const DType *type)
{
    bool changed = true;

    for (uint32_t i = 1; i < g->n_value; i++)
        tie[i] = g->value[i]->kind == V_CONST || (type[i] != DT_NONE && !dtype_is_float(type[i])) ? NO_TIE
                 : g->value[i]->kind == V_TEMP && type[i] != DT_NONE                              ? TIE_TO_FILE
                                                                                                  : TIE_TO_MODEL;
    for (int i = 0; i < g->n_output; i++)
        tie_to_model(tie, 1, &g->output[i].value);
    for (int i = 0; i < g->n_update; i++)
        tie_to_model(tie, 1, &g->update[i].next);
    while (changed) {
        changed = false;
        FOR_NODES(g, n)
            if (is_tied(tie, n)) {
                changed |= tie_to_model(tie, n->n_in, n->in);
                changed |= tie_to_model(tie, n->n_out, n->out);
            }
    }
    FOR_NODES(g, n)
        keeps[n->index] = !is_tied(tie, n);
}

/* A constant that others read too stays theirs, and nodes that keep their types read one of their own. */
static Status own_constants(Graph *g, Tie *tie, const bool *keeps, Arena *a)
{
    bool *converted = ARENA_NEW(a, bool, g->n_value);

    if (!converted)
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_output; i++)
        converted[g->output[i].value.i] = true;
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in && !keeps[n->index]; i++)
            converted[n->in[i].i] = true;
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in && keeps[n->index]; i++) {
            const Tensor *t = in_const(g, n, i);

            if (!t || !dtype_is_float(t->dtype))
                continue;
            if (converted[n->in[i].i])
                node_set_input(g, n, i, graph_add_const_nocopy(g, value(g, n->in[i])->name, t));
            else
                tie[n->in[i].i] = TIE_TO_FILE;
        }
    return g->status;
}

static bool makes_integers(const Node *n)
{
    const Attr *to = node_attr(n, "to");

    return to && to->type == A_INT && !dtype_is_float((DType)to->i);
}

/* The types of all values as the file has them, found in a copy; NULL if they cannot be found, which infer-shapes will
 * report. */
static Status file_types(DType **out, const Graph *g, PassCtx *ctx)
{
    PassCtx quiet = { .scratch = ctx->scratch, .opt = ctx->opt, .eval = ctx->eval };
    DType *type = ARENA_NEW(ctx->scratch, DType, g->n_value);
    Graph *copy;

    *out = NULL;
    if (!type)
        return FAIL_NOMEM();
    TRY(graph_clone_lending(&copy, g));
    if (!pass_infer_shapes.run(copy, &quiet)) {
        for (uint32_t i = 1; i < g->n_value; i++)
            type[i] = copy->value[i]->dtype;
        *out = type;
    }
    graph_free(copy);
    return ST_OK;
}

/* Converts the first n_value values but those that `tie` ties to the file, and the nodes but those that `keeps` names.
 * Both NULL: all. */
static Status convert_graph(Graph *g, DType to, uint32_t n_value, const Tie *tie, const bool *keeps, int *n_changed)
{
    for (uint32_t i = 1; i < n_value; i++)
        if (!tie || tie[i] != TIE_TO_FILE)
            TRY(convert_value(g, g->value[i], to, n_changed));
    FOR_NODES(g, n) {
        bool typed = n->n_out && has_value(n->out[0]) && value(g, n->out[0])->dtype != DT_NONE;

        if (keeps && keeps[n->index])
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
    if (!(st = convert_graph(copy, to, copy->n_value, NULL, NULL, &changed)) && changed) {
        node_set_attr(g, n, &(Attr)GRAPH(a->name, copy));
        st = g->status;
        *n_changed += changed;
    }
    graph_free(copy);
    return st;
}

static Status convert_dtype_run(Graph *g, PassCtx *ctx)
{
    const DType to = type_options(ctx->opt)->dtype;
    const uint32_t n_value = g->n_value; /* values that are added later keep their types */
    DType *type = NULL;
    Tie *tie = NULL;
    bool *keeps = NULL, found = false;

    if (to == DT_NONE)
        return ST_OK;
    if (to != DT_FLOAT32 && to != DT_FLOAT64)
        return FAIL(E_INVALID, "--dtype %s: expected float32 or float64", dtype_name(to));
    FOR_NODES(g, n)
        found |= to == DT_FLOAT64 && makes_integers(n);
    if (found)
        TRY(file_types(&type, g, ctx));
    if (type) {
        tie = ARENA_NEW(ctx->scratch, Tie, n_value);
        keeps = ARENA_NEW(ctx->scratch, bool, g->n_node);
        if (!tie || !keeps)
            return FAIL_NOMEM();
        find_ties(tie, keeps, g, type);
        TRY(own_constants(g, tie, keeps, ctx->scratch));
    }
    return convert_graph(g, to, n_value, tie, keeps, &ctx->n_changed);
}

const Pass pass_convert_dtype = { .name = "convert-dtype",
                                  .summary = "convert the model's floats to the wanted type",
                                  .idempotent = true,
                                  .run = convert_dtype_run };
