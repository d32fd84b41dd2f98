/* The metric over several batches.  Only sums are kept, which add up exactly; the number follows from those of all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"

Status measured_create(Measured *m, const Options *o)
{
    const BuildOptions *b = &o->build;

    if (!b->metric)
        return ST_OK;
    return recipe_take(&m->settings, &b->metric->recipe, "metric", b->metric_args, b->settings, o->arena);
}

void measured_restart(Measured *m)
{
    free(m->sum.data);
    m->sum = (Tensor){ .data = NULL };
    m->weight = 0;
}

/* Zeros; integers stay integers, and floats are added in float64 whatever the model's type. */
static Status begin(Measured *m, const Tensor *like)
{
    Tensor t = { dtype_is_float(like->dtype) ? DT_FLOAT64 : DT_INT64, like->shape, NULL };

    if (!(t.data = calloc(1, tensor_bytes(&t) + 1)))
        return FAIL_NOMEM();
    m->sum = t;
    return ST_OK;
}

Status measured_add(Measured *m, const NamedTensor *out, int n)
{
    const Tensor *sum = named_find(out, n, OUT_METRIC_SUM), *weight = named_find(out, n, OUT_METRIC_WEIGHT);

    if (!sum)
        return ST_OK;
    if (!m->sum.data)
        TRY(begin(m, sum));
    if (!shape_eq(&m->sum.shape, &sum->shape))
        return FAIL(E_SHAPE, "the metric of this batch has another number of classes than of those before: restart it");
    for (int64_t i = 0; i < tensor_numel(sum); i++)
        if (m->sum.dtype == DT_INT64)
            ((int64_t *)m->sum.data)[i] += tensor_int(sum, i);
        else
            ((double *)m->sum.data)[i] += tensor_float(sum, i);
    m->weight += weight ? tensor_float(weight, 0) : 0;
    return ST_OK;
}

static bool counted(const Measured *m, const MetricDef *def)
{
    if (!m->sum.data || !def->table)
        return m->sum.data && m->weight > 0;
    for (int64_t i = 0; i < tensor_numel(&m->sum); i++)
        if (tensor_int(&m->sum, i))
            return true;
    return false;
}

static void give(dpx_metric *out, const dpx_trainer *t, const Measured *m)
{
    const MetricDef *def = t->options->build.metric;

    *out = (dpx_metric){ .value = NAN };
    if (!def || !counted(m, def))
        return;
    out->measured = 1;
    if (def->value)
        out->value = def->value(&m->sum, m->weight, &t->measured.settings);
    else if (!def->table)
        out->value = tensor_float(&m->sum, 0) / m->weight;
    else {
        out->table = (dpx_tensor){
            .name = def->recipe.name, .dtype = (dpx_dtype)m->sum.dtype, .rank = m->sum.shape.rank, .data = m->sum.data
        };
        memcpy(out->table.dim, m->sum.shape.dim, sizeof out->table.dim);
    }
}

dpx_status dpx_trainer_metric(const dpx_trainer *t, dpx_metric *out)
{
    NEED(t, "trainer");
    NEED(out, "out");
    give(out, t, &t->measured);
    out->log = t->log_values.all;
    out->n_log = t->log_values.n_all;
    return DPX_OK;
}

dpx_status dpx_trainer_train_metric(const dpx_trainer *t, dpx_metric *out)
{
    NEED(t, "trainer");
    NEED(out, "out");
    give(out, t, &t->trained);
    return DPX_OK;
}

void dpx_trainer_restart_train_metric(dpx_trainer *t)
{
    if (t)
        measured_restart(&t->trained);
}

void dpx_trainer_restart_metric(dpx_trainer *t)
{
    if (!t)
        return;
    measured_restart(&t->measured);
    t->log_values.n_all = 0;
    t->log_values.weight = 0;
}
