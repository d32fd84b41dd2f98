/* own-numbers: outputs of one number become vectors, with an entry for each replica that has samples
 * (--scalar-outputs each).
 *
 * torch.nn.DataParallel puts a module's numbers together as they come: what each replica computes of its own part, a
 * mean loss above all (passes/partition/own_parts.h).  Legal because that is what was asked for; all other outputs stay
 * as they are. */
#include "graph/emit.h"
#include "passes/partition/own_parts.h"
#include "passes/report.h"

static bool is_number(const OwnParts *o, const Output *y)
{
    const Shape *s = own_parts_value(o, y->value)->shape;

    return o->depends[y->value.i] && shape_known(s) && !s->rank;
}

/* Parts of [parts] numbers of output i, in `numbers`. */
static Status give_vector(OwnParts *o, int i, const ValueId *numbers, int parts)
{
    Output *y = &o->g->output[i];

    y->value = emit_untyped(o->g, &op_Concat, ATTRS(INT("axis", 0)), parts, numbers);
    y->dim_param = NULL;
    TRY(o->g->status);
    return report_note(o->ctx->report, NOTE_NUMBERS, y->name,
                       "a vector of what each of %d replicas computes of its own samples (--scalar-outputs each)",
                       parts);
}

static Status make_vectors(OwnParts *o)
{
    const int n_output = o->g->n_output;
    ValueId *number = ARENA_NEW(o->ctx->scratch, ValueId, (size_t)n_output * (size_t)o->parts);
    const int64_t one = 1;
    int parts = 0;

    if (!number)
        return FAIL_NOMEM();
    for (int r = 0; r < o->parts; r++) {
        if (o->offset[r] == o->offset[r + 1])
            continue;
        TRY(own_parts_copy(o, r));
        for (int i = 0; i < n_output; i++)
            if (is_number(o, &o->g->output[i]))
                number[i * o->parts + parts] =
                    emit_untyped(o->g, &op_Reshape, NULL, 2,
                                 (ValueId[]){ own_parts_of(o, o->g->output[i].value), emit_ints(o->g, 1, &one) });
        parts++;
    }
    for (int i = 0; i < n_output && parts; i++)
        if (is_number(o, &o->g->output[i]))
            TRY(give_vector(o, i, number + i * o->parts, parts));
    o->ctx->n_changed += parts;
    return graph_sort(o->g);
}

static Status find_and_make(OwnParts *o, Graph *g, PassCtx *ctx)
{
    int n = 0;

    TRY(own_parts_open(o, g, ctx));
    for (int i = 0; i < g->n_output; i++)
        if (is_number(o, &g->output[i])) {
            o->needed[g->output[i].value.i] = true;
            n++;
        }
    if (!n)
        return ST_OK;
    if (!o->parts)
        return FAIL(E_SHAPE, "--scalar-outputs each: the size of the batch is not known, give --batch-size");
    own_parts_find(o);
    return make_vectors(o);
}

static Status run(Graph *g, PassCtx *ctx)
{
    OwnParts o = { .g = g };
    Status st;

    if (!ctx->opt->numbers_apart || replica_count(ctx->opt) < 2)
        return ST_OK;
    st = find_and_make(&o, g, ctx);
    own_parts_close(&o);
    return st;
}

const Pass pass_own_numbers = { .name = "own-numbers",
                                .summary = "outputs of one number as vectors of the replicas' own",
                                .modes = 1u << BUILD_INFER | 1u << BUILD_PREDICT,
                                .run = run };
