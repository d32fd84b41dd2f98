/* mark-batch: marks the axis of every value that carries a batch of one sample, for the partition.
 *
 * Any size is a multiple of one, so the sizes of a batch of one do not show which axis of a Reshape's result carries it
 * ([T,1,C] as [T,C]: rows, or features?), nor whether a tensor [1,T,C] is one sample or a parameter that all samples
 * share.  The pass infers the model for two and for three samples: the axis that grows with them is the batch's. Values
 * that later passes make inherit the mark of the value they replace, or have none; without a mark the partition goes by
 * sizes.  Any mark is legal: replica 0 has the sample and all others have nothing, along whichever axis. */
#include "graph/ir/op.h"
#include "passes/batch_axis.h"
#include "passes/model/rebatch.h"
#include "passes/options/batch.h"
#include "passes/options/replicas.h"
#include "passes/simplify/infer_shapes.h"

enum { TRIALS = 2 };

/* May the batch be of one sample? */
static bool may_be_one(const Graph *g, const BuildOptions *opt)
{
    const BatchOptions *batch = batch_options(opt);

    if (batch->batch > 0)
        return batch->batch == 1;
    for (int i = 0; i < batch->n_input_shape; i++) {
        const InputShape *given = &batch->input_shape[i];
        const int axis = axis_of_rank(data_batch_axis(g, opt, given->name), given->shape.rank);

        if (axis >= 0 && given->shape.dim[axis] == 1)
            return true;
    }
    return declared_batch(g, opt) == 1;
}

int growing_axis(const Shape *less, const Shape *more)
{
    int found = GROWS_NOWHERE;

    if (!shape_known(less) || !shape_known(more) || less->rank != more->rank)
        return GROWS_OTHERWISE;
    for (int a = 0; a < less->rank; a++) {
        if (less->dim[a] == more->dim[a])
            continue;
        if (found >= 0 || less->dim[a] % LESS_SAMPLES || less->dim[a] / LESS_SAMPLES * MORE_SAMPLES != more->dim[a])
            return GROWS_OTHERWISE;
        found = a;
    }
    return found;
}

Status trial_infer(Graph *g, PassCtx *ctx)
{
    FOR_NODES(g, n) {
        Status st = infer_and_fold(g, ctx, n);

        if (st == E_NOMEM)
            return st;
        g->status = ST_OK;
    }
    return ST_OK;
}

/* The caller frees the trial models, after a failure as well. */
static Status mark(Graph *g, PassCtx *ctx, TrialModel *trial)
{
    for (int i = 0; i < TRIALS; i++) {
        TRY(trial_open(&trial[i], g, ctx->opt, i ? MORE_SAMPLES : LESS_SAMPLES, OPEN_SIZE));
        TRY(trial_infer(trial[i].g, ctx));
    }
    for (uint32_t i = 1; i < g->n_value; i++) {
        const int axis = growing_axis(trial[0].g->value[i]->shape, trial[1].g->value[i]->shape);

        g->value[i]->batch_axis = (int8_t)(axis >= 0 ? axis + 1 : axis == GROWS_NOWHERE ? BATCH_NONE : BATCH_UNKNOWN);
        ctx->n_changed += g->value[i]->batch_axis > 0;
    }
    return ST_OK;
}

static Status mark_batch_run(Graph *g, PassCtx *ctx)
{
    const ReplicaOptions *replicas = replica_options(ctx->opt);
    TrialModel trial[TRIALS] = { { NULL, 0 } };
    Status st = ST_OK;

    if ((replicas->replicas < 2 && replicas->devices < 2) || graph_is_step(g) || !may_be_one(g, ctx->opt))
        return ST_OK;
    if (!(st = graph_sort(g)))
        st = mark(g, ctx, trial);
    for (int i = 0; i < TRIALS; i++)
        graph_free(trial[i].g);
    return st;
}

const Pass pass_mark_batch = { .name = "mark-batch",
                               .summary = "where a batch of one sample lies in every value",
                               .run = mark_batch_run };
