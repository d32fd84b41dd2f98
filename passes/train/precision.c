/* precision: computes products and the nodes around them in 16-bit floats, everything else and all state in float32.
 *
 * Parameters stay float32 states and are converted where they are used, so the optimizer works on full values ("master
 * weights") and their gradients come back through the conversion in float32.  OpDef.precision says which operators take
 * 16 bits: products always; sums, exponentials and losses never; the rest if its data has 16 bits already, with
 * statistics and scales of normalisation left in float32.  It runs before autodiff: a gradient is computed like its
 * node, and the gradient of a conversion is the conversion back.  Outputs of the model keep their type. */
#include "graph/ir/emit.h"
#include "passes/options/types.h"
#include "passes/pass.h"

static ValueId cast_const(Graph *g, const Value *v, DType to)
{
    Tensor *t = tensor_create(g->arena, to, v->shape);

    if (!t) {
        graph_fail_nomem(g);
        return NO_VALUE;
    }
    for (int64_t i = 0; i < tensor_numel(t); i++)
        tensor_set_float(t, i, tensor_float(v->init, i));
    return graph_add_const_nocopy(g, v->name, t);
}

/* The value in the other type.  Each is converted once: `cast`, [n_value] of those from before the pass. */
static ValueId in_type(Graph *g, ValueId *cast, uint32_t n_value, ValueId v, DType to)
{
    const Value *x = value(g, v);
    ValueId *known = v.i < n_value ? &cast[v.i] : NULL, made;

    if (known && has_value(*known))
        return *known;
    made = x->kind == V_CONST ? cast_const(g, x, to) : emit_cast(g, v, to);
    if (known)
        *known = made;
    return made;
}

static bool is(const Graph *g, const Node *n, int i, DType t) { return has_in(n, i) && in_value(g, n, i)->dtype == t; }

static bool stays_wide(const Node *n, int i) { return i < 8 && n->op->wide_in >> i & 1; }

/* Does the node compute in the 16-bit type? */
static bool wants_low(const Graph *g, const Node *n, DType low)
{
    if (n->op->precision == PREC_WIDE || (n->op->dtypes && !(n->op->dtypes & DTYPE_BIT(low))))
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (!stays_wide(n, i) && (is(g, n, i, low) || (n->op->precision == PREC_LOW && is(g, n, i, DT_FLOAT32))))
            return true;
    return false;
}

static Status precision_run(Graph *g, PassCtx *ctx)
{
    const TypeOptions *o = type_options(ctx->opt);
    const DType low = o->precision;
    const uint32_t n_node = g->n_node, n_value = g->n_value;
    ValueId *cast = ARENA_NEW(ctx->scratch, ValueId, n_value);

    if (low == DT_NONE || low == DT_FLOAT32)
        return ST_OK;
    if (o->dtype == DT_FLOAT64)
        return FAIL(E_INVALID, "--precision %s does not go with --dtype float64", dtype_name(low));
    if (!cast)
        return FAIL_NOMEM();
    for (uint32_t k = 0; k < n_node; k++) {
        Node *n = g->node[k];
        const bool narrow = n->op && wants_low(g, n, low);

        if (!n->op || n->op->precision == PREC_OWN)
            continue;
        for (int i = 0; i < n->n_in; i++)
            if (is(g, n, i, narrow ? DT_FLOAT32 : low) && !(narrow && stays_wide(n, i)))
                n->in[i] = in_type(g, cast, n_value, n->in[i], narrow ? low : DT_FLOAT32);
        TRY(g->status);
        ctx->n_changed += narrow;
        TRY(node_infer(g, n));
    }
    for (int i = 0; i < g->n_output; i++) /* outputs and next states keep their types */
        if (value(g, g->output[i].value)->dtype == low)
            g->output[i].value = in_type(g, cast, n_value, g->output[i].value, DT_FLOAT32);
    for (int i = 0; i < g->n_update; i++)
        if (value(g, g->update[i].next)->dtype == low && value(g, g->update[i].state)->dtype == DT_FLOAT32)
            g->update[i].next = in_type(g, cast, n_value, g->update[i].next, DT_FLOAT32);
    return graph_sort(g);
}

const Pass pass_precision = { .name = "precision",
                              .summary = "compute products in 16-bit floats, keep state in float32",
                              .run = precision_run };
