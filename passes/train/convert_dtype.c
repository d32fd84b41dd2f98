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

typedef struct {
    const DType *type; /* each value's in the file */
    uint32_t n_value;  /* the file's; later values stay unchanged */
    bool *decides;     /* by value: a float that keeps its type */
    bool *keeps;       /* by node: what it reads and makes keeps its type */
} Deciding;

/* A float, or what may be one, but for constants, of which each reader may have its own. */
static bool ties(const Deciding *d, const Graph *g, ValueId v)
{
    return has_value(v) && value(g, v)->kind != V_CONST && (d->type[v.i] == DT_NONE || dtype_is_float(d->type[v.i]));
}

static bool any_counts(const Deciding *d, const Graph *g, int n, const ValueId *v)
{
    for (int i = 0; i < n; i++)
        if (ties(d, g, v[i]) && !d->decides[v[i].i])
            return true;
    return false;
}

static bool all_count(Deciding *d, const Graph *g, int n, const ValueId *v)
{
    bool changed = false;

    for (int i = 0; i < n; i++)
        if (ties(d, g, v[i]) && d->decides[v[i].i]) {
            d->decides[v[i].i] = false;
            changed = true;
        }
    return changed;
}

static bool node_counts(const Deciding *d, const Graph *g, const Node *n)
{
    bool bodies = false;

    for (int i = 0; i < n->n_attr; i++)
        bodies |= n->attr[i].type == A_GRAPH;
    return bodies || op_is_impure(n->op) || any_counts(d, g, n->n_in, n->in) || any_counts(d, g, n->n_out, n->out);
}

/* Floats that no node ties to an input, a state or an output of the graph by other floats. */
static void find_deciding(Deciding *d, const Graph *g)
{
    bool changed = true;

    for (uint32_t i = 1; i < g->n_value; i++)
        d->decides[i] = dtype_is_float(d->type[i]) && g->value[i]->kind == V_TEMP;
    for (int i = 0; i < g->n_output; i++)
        d->decides[g->output[i].value.i] = false;
    for (int i = 0; i < g->n_update; i++)
        d->decides[g->update[i].next.i] = false;
    while (changed) {
        changed = false;
        FOR_NODES(g, n)
            if (node_counts(d, g, n)) {
                changed |= all_count(d, g, n->n_in, n->in);
                changed |= all_count(d, g, n->n_out, n->out);
            }
    }
    FOR_NODES(g, n)
        d->keeps[n->index] = !node_counts(d, g, n);
}

/* A constant that others read too stays theirs, and nodes that keep their types read one of their own. */
static Status own_constants(Deciding *d, Graph *g, Arena *a)
{
    bool *counts = ARENA_NEW(a, bool, g->n_value);

    if (!counts)
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_output; i++)
        counts[g->output[i].value.i] = true;
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in && !d->keeps[n->index]; i++)
            counts[n->in[i].i] = true;
    FOR_NODES(g, n)
        for (int i = 0; i < n->n_in && d->keeps[n->index]; i++) {
            const Tensor *t = in_const(g, n, i);

            if (!t || !dtype_is_float(t->dtype))
                continue;
            if (counts[n->in[i].i])
                node_set_input(g, n, i, graph_add_const_nocopy(g, value(g, n->in[i])->name, t));
            else
                d->decides[n->in[i].i] = true;
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
    PassCtx unsaid = { .scratch = ctx->scratch, .opt = ctx->opt, .eval = ctx->eval };
    DType *type = ARENA_NEW(ctx->scratch, DType, g->n_value);
    Graph *copy;

    *out = NULL;
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

/* *found: there are such floats. */
static Status keep_deciding(Deciding *d, bool *found, Graph *g, PassCtx *ctx)
{
    DType *type;

    *found = false;
    FOR_NODES(g, n)
        *found |= makes_integers(n);
    if (!*found)
        return ST_OK;
    TRY(file_types(&type, g, ctx));
    if (!(*found = type != NULL))
        return ST_OK;
    *d = (Deciding){ type, g->n_value, ARENA_NEW(ctx->scratch, bool, g->n_value),
                     ARENA_NEW(ctx->scratch, bool, g->n_node) };
    if (!d->decides || !d->keeps)
        return FAIL_NOMEM();
    find_deciding(d, g);
    return own_constants(d, g, ctx->scratch);
}

/* `d` may be NULL: all floats are converted. */
static Status convert_graph(Graph *g, DType to, const Deciding *d, int *n_changed)
{
    for (uint32_t i = 1; i < (d ? d->n_value : g->n_value); i++)
        if (!d || !d->decides[i])
            TRY(convert_value(g, g->value[i], to, n_changed));
    FOR_NODES(g, n) {
        bool typed = n->n_out && has_value(n->out[0]) && value(g, n->out[0])->dtype != DT_NONE;

        if (d && d->keeps[n->index])
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
    if (!(st = convert_graph(copy, to, NULL, &changed)) && changed) {
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
    bool found = false;
    Deciding d;

    if (to == DT_NONE)
        return ST_OK;
    if (to != DT_FLOAT32 && to != DT_FLOAT64)
        return FAIL(E_INVALID, "--dtype %s: expected float32 or float64", dtype_name(to));
    if (to == DT_FLOAT64)
        TRY(keep_deciding(&d, &found, g, ctx));
    return convert_graph(g, to, found ? &d : NULL, &ctx->n_changed);
}

const Pass pass_convert_dtype = { .name = "convert-dtype",
                                  .summary = "convert the model's floats to the wanted type",
                                  .idempotent = true,
                                  .run = convert_dtype_run };
