/* precision: computes products and the nodes around them in 16-bit floats, everything else and all state in float32.
 *
 * Parameters stay float32 states and are converted where they are used, so the optimizer works on full values ("master
 * weights") and their gradients come back through the conversion in float32.  OpDef.precision says which operators take
 * 16 bits: products always; sums, exponentials and losses never; the rest if its data has 16 bits already, with
 * statistics and scales of normalisation left in float32.  It runs before autodiff: a gradient is computed like its
 * node, and the gradient of a conversion is the conversion back.  Outputs of the model keep their type. */
#include "graph/ir/emit.h"
#include "passes/pass.h"
#include "passes/options/types.h"

typedef struct {
    Graph *g;
    DType low;
    ValueId *cast;    /* by value: it in the other type, once needed */
    uint32_t n_value; /* the table's size: values from before the pass */
    int n_changed;
} Precision;

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

/* The value in the other type; each is converted once. */
static ValueId in_type(Precision *p, ValueId v, DType to)
{
    const Value *x = value(p->g, v);
    ValueId *known = v.i < p->n_value ? &p->cast[v.i] : NULL, made;

    if (known && has_value(*known))
        return *known;
    made = x->kind == V_CONST ? cast_const(p->g, x, to) : emit_cast(p->g, v, to);
    if (known)
        *known = made;
    return made;
}

static bool is(const Precision *p, const Node *n, int i, DType t)
{
    return has_in(n, i) && in_value(p->g, n, i)->dtype == t;
}

static bool stays_wide(const Node *n, int i) { return i < 8 && n->op->wide_in >> i & 1; }

/* Does the node compute in 16 bits? */
static bool wants_low(const Precision *p, const Node *n)
{
    if (n->op->precision == PREC_WIDE || (n->op->dtypes && !(n->op->dtypes & DTYPE_BIT(p->low))))
        return false;
    for (int i = 0; i < n->n_in; i++)
        if (!stays_wide(n, i) && (is(p, n, i, p->low) || (n->op->precision == PREC_LOW && is(p, n, i, DT_FLOAT32))))
            return true;
    return false;
}

static Status precision_visit(Precision *p, Node *n)
{
    DType to = wants_low(p, n) ? p->low : DT_FLOAT32, from = to == DT_FLOAT32 ? p->low : DT_FLOAT32;

    if (n->op->precision == PREC_OWN)
        return ST_OK;
    for (int i = 0; i < n->n_in; i++)
        if (is(p, n, i, from) && !(to == p->low && stays_wide(n, i)))
            n->in[i] = in_type(p, n->in[i], to);
    TRY(p->g->status);
    p->n_changed += to == p->low;
    return node_infer(p->g, n);
}

/* Outputs and next states keep their types. */
static void keep_types_outside(Precision *p)
{
    Graph *g = p->g;

    for (int i = 0; i < g->n_output; i++)
        if (value(g, g->output[i].value)->dtype == p->low)
            g->output[i].value = in_type(p, g->output[i].value, DT_FLOAT32);
    for (int i = 0; i < g->n_update; i++)
        if (value(g, g->update[i].next)->dtype == p->low && value(g, g->update[i].state)->dtype == DT_FLOAT32)
            g->update[i].next = in_type(p, g->update[i].next, DT_FLOAT32);
}

static Status precision_run(Graph *g, PassCtx *ctx)
{
    Precision p = { .g = g, .low = type_options(ctx->opt)->precision, .n_value = g->n_value };
    uint32_t n_node = g->n_node;

    if (p.low == DT_NONE || p.low == DT_FLOAT32)
        return ST_OK;
    if (type_options(ctx->opt)->dtype == DT_FLOAT64)
        return FAIL(E_INVALID, "--precision %s does not go with --dtype float64", dtype_name(p.low));
    if (!(p.cast = ARENA_NEW(ctx->scratch, ValueId, g->n_value)))
        return FAIL_NOMEM();
    for (uint32_t i = 0; i < n_node; i++)
        if (g->node[i]->op)
            TRY(precision_visit(&p, g->node[i]));
    keep_types_outside(&p);
    ctx->n_changed += p.n_changed;
    return graph_sort(g);
}

const Pass pass_precision = { .name = "precision",
                              .summary = "compute products in 16-bit floats, keep state in float32",
                              .run = precision_run };
