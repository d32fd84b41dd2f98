/* Copies of a computation for each part of a batch, where values belong to the whole batch.
 *
 * For each part, the nodes between the values that have the samples along an axis of their own and the value that is
 * asked for are copied, and the values that have samples are cut along that axis (Split).  The graph is inferred with
 * batches of two and of three samples (OwnParts.trial): the axis of the samples is the one that grows.
 *
 * A value with such an axis may still belong to the whole batch: the rows of a table of all pairs, a softmax over the
 * samples, their numbers 0, 1, 2.  So everything is copied from the first value on that has no growing axis, or that
 * follows from the batch's size alone, or whose operator mixes samples by its placement rule.  Batch-norm is exempt:
 * --bn decides whose statistics it takes. */
#include "passes/partition/own_parts.h"

#include <string.h>

#include "graph/ir/emit.h"
#include "graph/ir/op.h"
#include "graph/ops/concat.gen.h"
#include "passes/batch_axis.h"
#include "passes/options/batch.h"
#include "passes/simplify/infer_shapes.h"

int own_parts_growing(const OwnParts *o, ValueId v)
{
    const int axis = growing_axis(o->trial[0].g->value[v.i]->shape, o->trial[1].g->value[v.i]->shape);

    return axis >= 0 ? axis : -1;
}

/* The contents of a value that follows from shapes alone; NULL: it does not. */
static const Tensor *shape_constant(const OwnParts *o, ValueId v)
{
    const Value *at = o->trial[1].g->value[v.i];

    return at->kind == V_CONST ? at->init : NULL;
}

int own_parts_axis(const OwnParts *o, ValueId v)
{
    const int axis = shape_constant(o, v) || o->mixed[v.i] ? -1 : own_parts_growing(o, v);

    return axis >= 0 && o->trial[0].g->value[v.i]->shape->dim[axis] == LESS_SAMPLES ? axis : -1;
}

const Value *own_parts_value(const OwnParts *o, ValueId v) { return o->trial[0].g->value[v.i]; }

/* ---- opening ---- */

/* *out: does the operator's placement rule say that it mixes samples?  n is in the graph of MORE_SAMPLES samples, each
 * of which is a part. */
static Status mixes(bool *out, const OwnParts *o, const Node *n)
{
    static const int64_t count[MORE_SAMPLES] = { 1, 1, 1 }, offset[MORE_SAMPLES] = { 0, 1, 2 };
    const Split parts = { .n = MORE_SAMPLES, .total = MORE_SAMPLES, .count = count, .offset = offset };
    Placement p = { .g = o->trial[1].g,
                    .node = n,
                    .split = &parts,
                    .in = ARENA_NEW(o->ctx->scratch, Place, n->n_in),
                    .out = ARENA_NEW(o->ctx->scratch, Place, n->n_out) };

    *out = false;
    if (!p.in || !p.out)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++) {
        const int axis = has_value(n->in[i]) && n->in[i].i < o->n_value ? own_parts_growing(o, n->in[i]) : -1;

        p.in[i] = axis < 0 ? PLACE_B : (Place){ .kind = PL_S, .axis = axis, .blocks = 1, .split = &parts };
    }
    for (int i = 0; i < n->n_out; i++)
        if (has_value(n->out[i]) && !shape_known(value(p.g, n->out[i])->shape))
            return ST_OK;
    if (n->op->place)
        *out = !place_by_rule(&p) && p.mixes;
    for (int i = 0; i < n->n_in && !n->op->place && !n->op->elementwise && !n->op->train; i++)
        *out |= p.in[i].kind == PL_S; /* a composite operator may mix; --bn decides for batch-norm */
    return ST_OK;
}

/* Does input i follow from the batch's size, other than as a shape or as equal rows for all samples? */
static bool counts_samples(const OwnParts *o, const Node *n, int i)
{
    const Tensor *t = has_value(n->in[i]) && o->depends[n->in[i].i] ? shape_constant(o, n->in[i]) : NULL;
    const int axis = t ? own_parts_growing(o, n->in[i]) : -1;

    return t && n->op->shape_in != i + 1 && !(axis >= 0 && rows_equal(t, axis));
}

static Status find_mixed(OwnParts *o)
{
    for (uint32_t k = 0; k < o->n_node; k++) {
        const Node *n = o->g->node[k], *there = o->trial[1].g->node[k];
        bool any = false;

        if (!n->op)
            continue;
        if (there->op && there->op == n->op)
            TRY(mixes(&any, o, there));
        for (int i = 0; i < n->n_in; i++)
            any |= has_value(n->in[i]) && (o->mixed[n->in[i].i] || counts_samples(o, n, i));
        for (int i = 0; i < n->n_out; i++)
            o->mixed[n->out[i].i] = has_value(n->out[i]) && !shape_constant(o, n->out[i]) &&
                                    (any || (o->depends[n->out[i].i] && own_parts_growing(o, n->out[i]) < 0));
    }
    return ST_OK;
}

static Status open_trials(OwnParts *o)
{
    for (int i = 0; i < OWN_TRIALS; i++) {
        TRY(trial_open(&o->trial[i], o->g, o->ctx->opt, i ? MORE_SAMPLES : LESS_SAMPLES, OPEN_SIZE));
        TRY(trial_infer(o->trial[i].g, o->ctx));
    }
    for (int i = 0; i < o->g->n_input; i++)
        o->depends[o->g->input[i].i] = own_parts_growing(o, o->g->input[i]) >= 0;
    FOR_NODES(o->g, n) {
        bool any = false;

        for (int i = 0; i < n->n_in; i++)
            any |= has_value(n->in[i]) && o->depends[n->in[i].i];
        for (int i = 0; i < n->n_out; i++)
            o->depends[n->out[i].i] = any;
    }
    o->depends[0] = false;
    return find_mixed(o);
}

/* The number of samples of the batch, by the options or the model; 0: unknown. */
static int64_t given_samples(const Graph *g, const BuildOptions *opt)
{
    const int64_t declared = declared_batch(g, opt);
    const BatchOptions *batch = batch_options(opt);

    if (batch->batch > 0)
        return batch->batch;
    for (int i = 0; i < batch->n_input_shape; i++) {
        const InputShape *given = &batch->input_shape[i];
        const int axis = data_split_axis(g, opt, given->name);

        if (axis >= 0 && axis < given->shape.rank)
            return given->shape.dim[axis];
    }
    return declared > 0 ? declared : 0;
}

Status own_parts_open(OwnParts *o, Graph *g, PassCtx *ctx)
{
    const int64_t samples = given_samples(g, ctx->opt);
    int first, last;

    *o = (OwnParts){ .g = g, .ctx = ctx };
    TRY(graph_sort(g));
    o->n_value = g->n_value;
    o->n_node = g->n_node;
    o->depends = ARENA_NEW(ctx->scratch, bool, g->n_value);
    o->mixed = ARENA_NEW(ctx->scratch, bool, g->n_value);
    o->needed = ARENA_NEW(ctx->scratch, bool, g->n_value);
    o->own = ARENA_NEW(ctx->scratch, ValueId, g->n_value);
    o->piece = ARENA_NEW(ctx->scratch, ValueId *, g->n_value);
    if (!o->depends || !o->mixed || !o->needed || !o->own || !o->piece)
        return FAIL_NOMEM();
    TRY(open_trials(o));
    if (!samples)
        return ST_OK;
    o->parts = replica_count(ctx->opt);
    return batch_offsets(o->offset, &first, &last, ctx->opt, samples, 0, device_count(ctx->opt));
}

void own_parts_close(OwnParts *o)
{
    for (int i = 0; i < OWN_TRIALS; i++)
        graph_free(o->trial[i].g);
}

/* ---- nodes to copy ---- */

void own_parts_find(OwnParts *o)
{
    for (uint32_t k = o->n_node; k-- > 0;) {
        const Node *x = o->g->node[k];
        bool any = false;

        for (int i = 0; x->op && i < x->n_out; i++)
            any |= has_value(x->out[i]) && o->needed[x->out[i].i];
        for (int i = 0; any && i < x->n_in; i++)
            o->needed[x->in[i].i] |= o->depends[x->in[i].i] && own_parts_axis(o, x->in[i]) < 0;
    }
    o->needed[0] = false;
}

static bool is_needed(const OwnParts *o, const Node *n)
{
    bool any = false;

    for (int i = 0; n->op && i < n->n_out; i++)
        any |= o->needed[n->out[i].i];
    return any;
}

Status own_parts_check(const OwnParts *o, const char *why)
{
    PROBLEMS(wrong);

    for (uint32_t k = 0; k < o->n_node; k++) {
        const Node *n = o->g->node[k];

        if (is_needed(o, n) && (n->op->train || op_is_impure(n->op)))
            problems_add(&wrong, "%s", node_text(o->g, n));
    }
    return problems_fail(&wrong, E_UNSUPPORTED, "%s", why);
}

/* ---- copies ---- */

ValueId emit_untyped(Graph *g, const OpDef *op, const Attr *attrs, int n_in, const ValueId *in)
{
    Node *n = graph_add_node(g, op, NULL, attrs, n_in, in, 1, NULL);

    if (n && (g->status = node_normalise(g, n)))
        return NO_VALUE;
    return n ? n->out[0] : NO_VALUE;
}

static ValueId *own_parts_cut(OwnParts *o, ValueId v)
{
    ValueId *piece = ARENA_NEW(o->ctx->scratch, ValueId, o->parts);
    int64_t *size = ARENA_NEW(o->ctx->scratch, int64_t, o->parts);
    Node *n;

    if (!piece || !size) {
        graph_fail_nomem(o->g);
        return NULL;
    }
    for (int r = 0; r < o->parts; r++)
        size[r] = o->offset[r + 1] - o->offset[r];
    n = graph_add_node(o->g, &op_Split, NULL, ATTRS(INT("axis", own_parts_axis(o, v))), 2,
                       (ValueId[]){ v, emit_ints(o->g, o->parts, size) }, o->parts, NULL);
    if (!n || (o->g->status = node_normalise(o->g, n)))
        return NULL;
    memcpy(piece, n->out, (size_t)o->parts * sizeof *piece);
    return piece;
}

ValueId own_parts_of(OwnParts *o, ValueId v)
{
    if (!o->depends[v.i] || has_value(o->own[v.i]))
        return o->depends[v.i] ? o->own[v.i] : v;
    if (!o->piece[v.i] && !(o->piece[v.i] = own_parts_cut(o, v)))
        return NO_VALUE;
    return o->own[v.i] = o->piece[v.i][o->part];
}

static Status own_parts_copy_node(OwnParts *o, const Node *n)
{
    ValueId *in = ARENA_NEW(o->ctx->scratch, ValueId, n->n_in);
    Node *copy;

    if (!in)
        return FAIL_NOMEM();
    for (int i = 0; i < n->n_in; i++)
        in[i] = own_parts_of(o, n->in[i]);
    TRY(o->g->status);
    if (!(copy = graph_add_node_like(o->g, n, n->n_in, in, n->n_out, NULL)))
        return o->g->status;
    for (int i = 0; i < n->n_out; i++)
        o->own[n->out[i].i] = copy->out[i];
    o->own[0] = NO_VALUE;
    return ST_OK;
}

/* Copies the marked nodes for a part that has samples. */
static Status copy_part(OwnParts *o, int part)
{
    memset(o->own, 0, o->n_value * sizeof *o->own);
    o->part = part;
    for (uint32_t k = 0; k < o->n_node; k++)
        if (is_needed(o, o->g->node[k]))
            TRY(own_parts_copy_node(o, o->g->node[k]));
    return o->g->status;
}

Status own_parts_collect(ValueId **of, int *filled, OwnParts *o, const bool *wanted, OwnTake *take)
{
    const int n_output = o->g->n_output;

    *filled = 0;
    if (!(*of = ARENA_NEW(o->ctx->scratch, ValueId, (size_t)n_output * (size_t)o->parts)))
        return FAIL_NOMEM();
    for (int r = 0; r < o->parts; r++) {
        if (o->offset[r] == o->offset[r + 1])
            continue;
        TRY(copy_part(o, r));
        for (int i = 0; i < n_output; i++)
            if (wanted[i])
                (*of)[i * o->parts + *filled] = take(o, i);
        ++*filled;
    }
    o->ctx->n_changed += *filled;
    return o->g->status;
}
