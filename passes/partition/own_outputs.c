/* own-outputs: puts outputs together from the replicas' outputs of their own parts, in inference.
 *
 * torch.nn.DataParallel joins a module's outputs whatever they mean: numbers, such as a mean loss, as a vector with an
 * entry for each replica that has samples (--scalar-outputs each), others along the axis that its caller names, even if
 * the samples are not there (--output-axis).  Legal because the user asked for it.  An output with its samples along
 * that axis, one by one, stays unchanged: partitioning joins it that way in any case. */
#include "graph/ir/emit.h"
#include "graph/ops/concat.gen.h"
#include "graph/ops/view.gen.h"
#include "graph/tensor/shape.h"
#include "passes/batch_axis.h"
#include "passes/partition/own_parts.h"
#include "passes/report.h"
#include "passes/options/outputs.h"

enum { AS_PLACED = -1, AS_VECTOR = -2 };

typedef struct {
    OwnParts own;
    bool placed; /* outputs other than numbers are joined where placed */
    int given;   /* otherwise the axis of every output */
    int *axis;   /* by output: the axis that joins the replicas' outputs; AS_PLACED, AS_VECTOR */
    int filled;  /* parts that have samples */
} OwnOutputs;

/* The axis along which all split inputs have the samples; -1: there is none, and outputs are joined where they are
 * placed. */
static Status find_inputs_axis(int *out, const Graph *g, PassCtx *ctx)
{
    *out = -1;
    for (int i = 0; i < g->n_input; i++) {
        const char *name = value(g, g->input[i])->name;
        const int axis = data_split_axis(g, ctx->opt, name);

        if (axis >= 0 && *out >= 0 && axis != *out) {
            TRY(report_note(ctx->report, NOTE_NUMBERS, name,
                            "has its samples along axis %d, and another input along %d: outputs are put together "
                            "where they have theirs (--output-axis inputs)",
                            axis, *out));
            *out = -1;
            return ST_OK;
        }
        *out = axis >= 0 ? axis : *out;
    }
    return ST_OK;
}

static const char *axis_text(PassCtx *ctx, int axis)
{
    return output_options(ctx->opt)->join == JOIN_INPUTS ? arena_printf(ctx->scratch, "inputs (%d)", axis)
                                                         : arena_printf(ctx->scratch, "%d", axis);
}

/* E_SHAPE: parts of different sizes are to be joined along another axis than the samples'. */
static Status check_joined(const OwnOutputs *u, const Output *y, int axis)
{
    const OwnParts *o = &u->own;
    const int samples = own_parts_growing(o, y->value);
    int64_t first = 0;

    for (int r = 0; samples >= 0 && samples != axis && r < o->parts; r++) {
        const int64_t size = o->offset[r + 1] - o->offset[r];

        if (size && first && size != first)
            return FAIL(E_SHAPE,
                        "--output-axis %s: output '%s' has its samples along axis %d, and parts of %lld and %lld of "
                        "them cannot be put together along another: expected equal parts, or --output-axis placed",
                        axis_text(o->ctx, axis), y->name, samples, (long long)first, (long long)size);
        first = size ? size : first;
    }
    return ST_OK;
}

static Status find_axis(int *out, const OwnOutputs *u, const Output *y)
{
    const OwnParts *o = &u->own;
    const BuildOptions *opt = o->ctx->opt;
    const Shape *s = own_parts_value(o, y->value)->shape;
    int axis;

    *out = AS_PLACED;
    if (!shape_known(s) || (s->rank && u->placed))
        return ST_OK;
    if (!s->rank) {
        *out = output_options(opt)->numbers_apart && o->depends[y->value.i] ? AS_VECTOR : AS_PLACED;
        return ST_OK;
    }
    if ((axis = axis_of_rank(u->given, s->rank)) < 0)
        return FAIL(E_SHAPE, "--output-axis %s: output '%s' has rank %d, and no such axis", axis_text(o->ctx, u->given),
                    y->name, s->rank);
    if (own_parts_axis(o, y->value) != axis)
        *out = axis;
    return o->parts ? check_joined(u, y, axis) : ST_OK;
}

/* A part's own value of an output in the shape for joining: a number becomes a vector of one. */
static ValueId own_output(OwnParts *o, int output)
{
    const ValueId v = o->g->output[output].value, own = own_parts_of(o, v);
    const int64_t one = 1;

    return own_parts_value(o, v)->shape->rank
               ? own
               : emit_untyped(o->g, &op_Reshape, NULL, 2, (ValueId[]){ own, emit_ints(o->g, 1, &one) });
}

static Status own_outputs_join(OwnOutputs *u, int i, const ValueId *of)
{
    const OwnParts *o = &u->own;
    Output *y = &o->g->output[i];
    const bool vector = u->axis[i] == AS_VECTOR;

    y->value = emit_untyped(o->g, &op_Concat, ATTRS(INT("axis", vector ? 0 : u->axis[i])), u->filled, of);
    y->dim_param = NULL;
    TRY(o->g->status);
    if (vector)
        return report_note(o->ctx->report, NOTE_NUMBERS, y->name,
                           "a vector of what each of %d replicas computes of its own samples (--scalar-outputs each)",
                           u->filled);
    return report_note(o->ctx->report, NOTE_NUMBERS, y->name,
                       "what each of %d replicas computes of its own samples, along axis %d (--output-axis %s)",
                       u->filled, u->axis[i], axis_text(o->ctx, u->axis[i]));
}

static Status own_outputs_make(OwnOutputs *u, const bool *wanted)
{
    OwnParts *o = &u->own;
    ValueId *of;

    TRY(own_parts_collect(&of, &u->filled, o, wanted, own_output));
    for (int i = 0; i < o->g->n_output && u->filled; i++)
        if (wanted[i])
            TRY(own_outputs_join(u, i, of + i * o->parts));
    return graph_sort(o->g);
}

static Status find_and_make(OwnOutputs *u, Graph *g, PassCtx *ctx)
{
    bool *wanted = ARENA_NEW(ctx->scratch, bool, (size_t)g->n_output + 1);
    int n = 0;

    u->given = output_options(ctx->opt)->join_axis;
    if (output_options(ctx->opt)->join == JOIN_INPUTS)
        TRY(find_inputs_axis(&u->given, g, ctx));
    u->placed = output_options(ctx->opt)->join == JOIN_PLACED ||
                (output_options(ctx->opt)->join == JOIN_INPUTS && u->given < 0);
    TRY(own_parts_open(&u->own, g, ctx));
    if (!wanted || !(u->axis = ARENA_NEW(ctx->scratch, int, (size_t)g->n_output + 1)))
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_output; i++) {
        TRY(find_axis(&u->axis[i], u, &g->output[i]));
        wanted[i] = u->axis[i] != AS_PLACED;
        u->own.needed[g->output[i].value.i] |= wanted[i] && u->own.depends[g->output[i].value.i];
        n += wanted[i];
    }
    if (!n)
        return ST_OK;
    if (!u->own.parts)
        return FAIL(E_SHAPE, "--scalar-outputs each and --output-axis need the size of the batch, which is not known: "
                             "give --batch-size");
    own_parts_find(&u->own);
    return own_outputs_make(u, wanted);
}

static Status own_outputs_run(Graph *g, PassCtx *ctx)
{
    const BuildOptions *opt = ctx->opt;
    OwnOutputs u = { .own = { .g = g } };
    Status st;

    if ((!output_options(opt)->numbers_apart && output_options(opt)->join == JOIN_PLACED) || replica_count(opt) < 2)
        return ST_OK;
    st = find_and_make(&u, g, ctx);
    own_parts_close(&u.own);
    return st;
}

const Pass pass_own_outputs = { .name = "own-outputs",
                                .summary = "outputs that are the replicas' own, put together",
                                .modes = 1u << BUILD_INFER | 1u << BUILD_PREDICT,
                                .run = own_outputs_run };
