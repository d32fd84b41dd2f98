/* narrow-sums: sends gradients between devices in 16 bits (--reduce-dtype).
 *
 * Sums over devices for the end of a step, of more than one number in float32 or float64, are rounded before the
 * collective and widened after it, so that it moves half the bytes or a quarter.  Sums of a device's own replicas come
 * before, in full precision.  Legal because the user asked for it; each rounding is a visible Cast.
 *
 * Gradients are divided before they are rounded, so that sums in float16 stay small: the loss's gradient has its
 * denominator from the start, and after accumulation the division that follows the sum moves in front of it:
 * AllReduce(g) / w becomes Cast(AllReduce(Cast(g / w))). */
#include "graph/ir/collective.h"
#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "passes/options/collectives.h"
#include "passes/pass.h"

/* Does the node sum floats that nothing of a replica's own is computed from?  `inner`, by value id: a path leads from
 * it to a replica's own computation. */
static bool narrows(const Graph *g, const Node *n, const bool *inner)
{
    const Value *v = n->op->flags & OPF_COLLECTIVE && n->n_in ? in_value(g, n, 0) : NULL;

    if (!v || !exchange_of(n).sum || shape_numel(v->shape) <= 1 || !(DTYPES_F32_F64 & DTYPE_BIT(v->dtype)))
        return false;
    for (int o = 0; o < n->n_out; o++)
        if (inner[n->out[o].i])
            return false;
    return true;
}

/* Places v's node on the device and replica of `like`. */
static ValueId placed(Graph *g, ValueId v, const Value *like)
{
    Node *n = g->status ? NULL : value(g, v)->producer;

    if (!n)
        return v;
    n->device = value(g, v)->device = like->device;
    n->replica = value(g, v)->replica = like->kind == V_STATE ? -1 : like->replica;
    return v;
}

/* The divisor on device d if every copy of the sum is only read by a division; otherwise NO_VALUE.  `reader`, by value
 * id: the one node that reads it; NULL: none does, or several do. */
static ValueId divisor_on(const Graph *g, Node *const *reader, const Node *sum, int d)
{
    for (int o = 0; o < sum->n_out; o++) {
        const Node *by = reader[sum->out[o].i];

        if (!by || by->op != &op_Div || !value_eq(by->in[0], sum->out[o]))
            return NO_VALUE;
        if (value(g, sum->out[o])->device == d)
            return by->in[1];
    }
    return NO_VALUE;
}

/* The operand v of the sum in type `to`, divided first where the sum is. */
static ValueId narrowed(Graph *g, DType to, Node *const *reader, const Node *sum, ValueId v)
{
    const Value like = *value(g, v);
    const ValueId by = divisor_on(g, reader, sum, like.device);

    if (has_value(by))
        v = placed(g, EMIT(g, Div, NULL, v, by), &like);
    return placed(g, emit_cast(g, v, to), &like);
}

static Status narrow_sums_narrow(Graph *g, DType to, Node *const *reader, Node *sum, Arena *scratch)
{
    const bool divided = has_value(divisor_on(g, reader, sum, value(g, sum->out[0])->device));
    const char **names = ARENA_NEW(scratch, const char *, sum->n_out);
    ValueId *in = ARENA_NEW(scratch, ValueId, sum->n_in);
    Node *made;

    if (!names || !in)
        return FAIL_NOMEM();
    graph_begin_purpose(g, sum->phase, sum->name);
    for (int i = 0; i < sum->n_in; i++)
        in[i] = narrowed(g, to, reader, sum, sum->in[i]);
    for (int o = 0; o < sum->n_out; o++)
        if (!(names[o] = arena_printf(scratch, "%s.narrow", value(g, sum->out[o])->name)))
            return FAIL_NOMEM();
    TRY(g->status);
    if (!(made = graph_add_node_like(g, sum, sum->n_in, in, sum->n_out, names)))
        return g->status;
    TRY(node_infer(g, made));
    for (int o = 0; o < sum->n_out; o++) {
        const Value *old = value(g, sum->out[o]);
        Node *by = divided ? reader[sum->out[o].i] : sum;
        Value *v = value(g, made->out[o]);

        v->device = old->device;
        v->replica = old->replica;
        v->logical = old->logical;
        graph_replace(g, divided ? by->out[0] : sum->out[o], placed(g, emit_cast(g, made->out[o], old->dtype), old));
        if (divided)
            graph_remove(g, by);
    }
    graph_remove(g, sum);
    return g->status;
}

static Status narrow_sums_run(Graph *g, PassCtx *ctx)
{
    const DType to = collective_options(ctx->opt)->reduce;
    const uint32_t n_node = g->n_node;
    bool *inner = ARENA_NEW(ctx->scratch, bool, g->n_value), *read = ARENA_NEW(ctx->scratch, bool, g->n_value);
    Node **reader = ARENA_NEW(ctx->scratch, Node *, g->n_value);

    if (to == DT_NONE)
        return ST_OK;
    if (!inner || !read || !reader)
        return FAIL_NOMEM();
    for (uint32_t k = n_node; k-- > 0;) {
        Node *n = g->node[k];
        bool leads = n->replica >= 0;

        for (int o = 0; n->op && o < n->n_out; o++)
            leads |= inner[n->out[o].i];
        for (int i = 0; n->op && i < n->n_in; i++) {
            inner[n->in[i].i] |= leads;
            reader[n->in[i].i] = read[n->in[i].i] ? NULL : n;
            read[n->in[i].i] = true;
        }
        inner[0] = false;
    }
    for (uint32_t i = 0; i < n_node; i++)
        if (g->node[i]->op && narrows(g, g->node[i], inner)) {
            TRY(narrow_sums_narrow(g, to, reader, g->node[i], ctx->scratch));
            ctx->n_changed++;
        }
    return ctx->n_changed ? graph_sort(g) : ST_OK;
}

const Pass pass_narrow_sums = { .name = "narrow-sums",
                                .summary = "gradients cross devices in 16 bits",
                                .modes = MODES_UPDATE,
                                .run = narrow_sums_run };
