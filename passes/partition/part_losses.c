/* part-losses: with --loss-scaling mean-of-means, losses that the model computes itself become the mean of the
 * replicas' losses of their own parts.
 *
 * Only the model knows over which elements its number is a mean, so its own formula is applied to each part
 * (passes/partition/own_parts.h).  DistributedDataParallel and PyTorch-Encoding minimise the mean of the parts'
 * numbers; a part without samples adds 0.  Outputs that are logged beside a loss are treated the same way, as in those
 * systems.  An output that still has its samples along an axis stays: the criterion takes its mean by parts without
 * copies. */
#include "graph/ir/emit.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/reduce.gen.h"
#include "passes/options/target.h"
#include "passes/partition/own_parts.h"
#include "passes/train/criterion.h"

/* [n_output]: is the output a loss or log variable that each part computes as a number? */
static bool *find_numbers(OwnParts *o, const BuildOptions *opt, int *n)
{
    const Graph *g = o->g;
    bool *is_loss = ARENA_NEW(o->ctx->scratch, bool, (size_t)g->n_output + 1);

    *n = 0;
    if (!is_loss || criterion_find_losses(is_loss, g, opt))
        return is_loss; /* the criterion reports the error */
    for (int i = 0; i < g->n_output; i++) {
        const ValueId v = g->output[i].value;

        is_loss[i] = (is_loss[i] || criterion_logs_outputs(opt)) && dtype_is_float(own_parts_value(o, v)->dtype) &&
                     own_parts_axis(o, v) < 0;
        o->needed[v.i] |= is_loss[i] && o->depends[v.i];
        *n += is_loss[i];
    }
    return is_loss;
}

/* The mean of the output for the part that is being copied (o->part). */
static ValueId own_mean(OwnParts *o, int output)
{
    const ValueId v = o->g->output[output].value, own = own_parts_of(o, v);
    const Shape *s = own_parts_value(o, v)->shape;

    return shape_known(s) && !s->rank ? own : emit_untyped(o->g, &op_ReduceMean, ATTRS(INT("keepdims", 0)), 1, &own);
}

static Status take_means(OwnParts *o, const bool *is_number)
{
    const bool filled = target_options(o->ctx->opt)->mean_over == MEAN_OVER_FILLED;
    ValueId *number;
    int parts;

    TRY(own_parts_collect(&number, &parts, o, is_number, own_mean));
    for (int i = 0; i < o->g->n_output && parts && !o->g->status; i++) {
        Output *y = &o->g->output[i];
        ValueId pair[2];

        if (!is_number[i])
            continue;
        pair[1] = emit_scalar(o->g, own_parts_value(o, y->value)->dtype, filled ? parts : o->parts);
        pair[0] = emit_untyped(o->g, &op_Sum, NULL, parts, number + i * o->parts);
        y->value = emit_untyped(o->g, &op_Div, NULL, 2, pair);
        y->dim_param = NULL;
    }
    TRY(o->g->status);
    return graph_sort(o->g);
}

static Status find_and_take(OwnParts *o, Graph *g, PassCtx *ctx)
{
    const bool *is_number;
    int n;

    TRY(own_parts_open(o, g, ctx));
    if (!(is_number = find_numbers(o, ctx->opt, &n)))
        return FAIL_NOMEM();
    if (!n || (!o->parts && build_mode(ctx->opt) == BUILD_APPLY)) /* which computes nothing of a batch */
        return ST_OK;
    if (!o->parts)
        return FAIL(E_SHAPE, "--loss-scaling mean-of-means: the size of the batch is not known, give --batch-size");
    own_parts_find(o);
    TRY(own_parts_check(o, "--loss-scaling mean-of-means: each part would have its own of what stands between the "
                           "samples and the model's loss; that cannot be of"));
    return take_means(o, is_number);
}

static Status part_losses_run(Graph *g, PassCtx *ctx)
{
    OwnParts o = { .g = g };
    Status st;

    if (!criterion_takes_own_means(ctx->opt) || replica_count(ctx->opt) < 2)
        return ST_OK;
    st = find_and_take(&o, g, ctx);
    own_parts_close(&o);
    return st;
}

const Pass pass_part_losses = { .name = "part-losses",
                                .summary = "the model's own losses as means of what each replica's part makes of them",
                                .modes = MODES_TRAIN,
                                .run = part_losses_run };
