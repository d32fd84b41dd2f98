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
#include "passes/options/outputs.h"
#include "passes/partition/own_parts.h"
#include "passes/report.h"

enum { AS_PLACED = -1, AS_VECTOR = -2 };

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
                            "has its samples along axis %d, and another input along %d: outputs are joined along the "
                            "axes of their own samples (--output-axis inputs)",
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
static Status check_joined(const OwnParts *o, const Output *y, int axis)
{
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

/* *out: the axis that joins the replicas' outputs; AS_PLACED, AS_VECTOR.  `given`: the axis of every output that is no
 * number, unless they are joined where `placed`. */
static Status find_axis(int *out, const OwnParts *o, const Output *y, bool placed, int given)
{
    const BuildOptions *opt = o->ctx->opt;
    const Shape *s = own_parts_value(o, y->value)->shape;
    int axis;

    *out = AS_PLACED;
    if (!shape_known(s) || (s->rank && placed))
        return ST_OK;
    if (!s->rank) {
        *out = output_options(opt)->numbers_apart && o->depends[y->value.i] ? AS_VECTOR : AS_PLACED;
        return ST_OK;
    }
    if ((axis = axis_of_rank(given, s->rank)) < 0)
        return FAIL(E_SHAPE, "--output-axis %s: output '%s' has rank %d, and no such axis", axis_text(o->ctx, given),
                    y->name, s->rank);
    if (own_parts_axis(o, y->value) != axis)
        *out = axis;
    return o->parts ? check_joined(o, y, axis) : ST_OK;
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

/* Output i becomes the `filled` own outputs of the replicas that have samples, along the axis. */
static Status own_outputs_join(const OwnParts *o, int i, int axis, int filled, const ValueId *of)
{
    Output *y = &o->g->output[i];
    const bool vector = axis == AS_VECTOR;

    y->value = emit_untyped(o->g, &op_Concat, ATTRS(INT("axis", vector ? 0 : axis)), filled, of);
    y->dim_param = NULL;
    TRY(o->g->status);
    if (vector)
        return report_note(o->ctx->report, NOTE_NUMBERS, y->name,
                           "a vector of what each of %d replicas computes of its own samples (--scalar-outputs each)",
                           filled);
    return report_note(o->ctx->report, NOTE_NUMBERS, y->name,
                       "what each of %d replicas computes of its own samples, along axis %d (--output-axis %s)", filled,
                       axis, axis_text(o->ctx, axis));
}

static Status find_and_make(OwnParts *own, Graph *g, PassCtx *ctx)
{
    const OutputOptions *out = output_options(ctx->opt);
    bool *wanted = ARENA_NEW(ctx->scratch, bool, (size_t)g->n_output + 1), placed;
    int *axis = ARENA_NEW(ctx->scratch, int, (size_t)g->n_output + 1), given = out->join_axis, filled, n = 0;
    ValueId *of;

    if (out->join == JOIN_INPUTS)
        TRY(find_inputs_axis(&given, g, ctx));
    placed = out->join == JOIN_PLACED || (out->join == JOIN_INPUTS && given < 0);
    TRY(own_parts_open(own, g, ctx));
    if (!wanted || !axis)
        return FAIL_NOMEM();
    for (int i = 0; i < g->n_output; i++) {
        TRY(find_axis(&axis[i], own, &g->output[i], placed, given));
        wanted[i] = axis[i] != AS_PLACED;
        own->needed[g->output[i].value.i] |= wanted[i] && own->depends[g->output[i].value.i];
        n += wanted[i];
    }
    if (!n)
        return ST_OK;
    if (!own->parts)
        return FAIL(E_SHAPE, "--scalar-outputs each and --output-axis need the size of the batch, which is not known: "
                             "give --batch-size");
    own_parts_find(own);
    TRY(own_parts_collect(&of, &filled, own, wanted, own_output));
    for (int i = 0; i < g->n_output && filled; i++)
        if (wanted[i])
            TRY(own_outputs_join(own, i, axis[i], filled, of + i * own->parts));
    return graph_sort(g);
}

static Status own_outputs_run(Graph *g, PassCtx *ctx)
{
    const OutputOptions *out = output_options(ctx->opt);
    OwnParts own = { .g = g };
    Status st;

    if ((!out->numbers_apart && out->join == JOIN_PLACED) || replica_count(ctx->opt) < 2)
        return ST_OK;
    st = find_and_make(&own, g, ctx);
    own_parts_close(&own);
    return st;
}

const Pass pass_own_outputs = { .name = "own-outputs",
                                .summary = "outputs that are the replicas' own, put together",
                                .modes = 1u << BUILD_INFER | 1u << BUILD_PREDICT,
                                .run = own_outputs_run };
