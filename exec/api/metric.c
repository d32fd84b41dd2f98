/* The metric over several batches.  Only sums are kept, which add up exactly; the number follows from those of all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "passes/options/recipes.h"

Status measured_create(Measured *m, const Options *o)
{
    const RecipeOptions *r = recipe_options(&o->build);

    return r->metric ? recipe_take(&m->settings, &r->metric->recipe, "metric", r->metric_args, r->settings, o->arena)
                     : ST_OK;
}

void measured_restart(Measured *m)
{
    free(m->sum.data);
    m->sum = (Tensor){ .data = NULL };
    m->weight = m->loss_sum = m->loss_weight = 0;
    m->samples = 0;
}

/* Zeros; integers stay integers, and floats are added in float64 whatever the model's type. */
static Status metric_begin(Measured *m, const Tensor *like)
{
    Tensor t = { dtype_is_float(like->dtype) ? DT_FLOAT64 : DT_INT64, like->shape, NULL };

    if (!(t.data = calloc(1, tensor_bytes(&t) + 1)))
        return FAIL_NOMEM();
    m->sum = t;
    return ST_OK;
}

Status measured_add(Measured *m, const dpx_result *r, const SessionStep *step)
{
    const Tensor *sum = session_output(step, READ_METRIC_SUM), *weight = session_output(step, READ_METRIC_WEIGHT);

    if (session_output(step, READ_LOSS_SUM)) {
        m->loss_sum += r->loss_sum;
        m->loss_weight += r->loss_weight;
        m->samples += r->samples;
    }
    if (!sum)
        return ST_OK;
    if (!m->sum.data)
        TRY(metric_begin(m, sum));
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

static bool metric_counted(const Measured *m, const MetricDef *def)
{
    if (!m->sum.data || !def->table)
        return m->sum.data && m->weight > 0;
    for (int64_t i = 0; i < tensor_numel(&m->sum); i++)
        if (tensor_int(&m->sum, i))
            return true;
    return false;
}

static void metric_give(dpx_metric *out, const dpx_trainer *t, const Measured *m)
{
    const MetricDef *def = recipe_options(&t->options->build)->metric;

    *out = (dpx_metric){ .value = NAN, .loss = NAN, .samples = m->samples };
    if (m->samples)
        out->loss = m->loss_weight != 0 ? m->loss_sum / m->loss_weight : m->loss_sum;
    if (!def || !metric_counted(m, def))
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
    metric_give(out, t, &t->measured);
    out->log = t->log_values.all;
    out->n_log = t->log_values.n_all;
    return DPX_OK;
}

dpx_status dpx_trainer_train_metric(const dpx_trainer *t, dpx_metric *out)
{
    NEED(t, "trainer");
    NEED(out, "out");
    metric_give(out, t, &t->trained);
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

/* ---- in checkpoints: what training measured so far ---- */

/* The name of the sums of this metric in a checkpoint. */
static const char *sums_name(Arena *a, const dpx_trainer *t)
{
    return arena_printf(a, TRAINED "_metric:%s", options_get(t->options, "metric"));
}

Status trainer_keep_trained(Arena *a, const dpx_trainer *t, NamedTensor *list, int *n)
{
    const Measured *m = &t->trained;
    const Shape four = SHAPE(4);
    const char *name;
    Tensor *kept;

    if (!recipe_options(&t->options->build)->metric || !m->sum.data)
        return ST_OK;
    if (!(kept = tensor_create(a, DT_FLOAT64, &four)) || !(name = sums_name(a, t)))
        return FAIL_NOMEM();
    memcpy(kept->data, (double[]){ m->loss_sum, m->loss_weight, (double)m->samples, m->weight }, 4 * sizeof(double));
    list[(*n)++] = (NamedTensor){ TRAINED, *kept };
    list[(*n)++] = (NamedTensor){ name, m->sum };
    return ST_OK;
}

static Status read_sums(Measured *m, const Checkpoint *c, int four, int sums)
{
    const Tensor *like = &c->tensor[sums].tensor;
    double v[4];

    if (c->tensor[four].tensor.dtype != DT_FLOAT64 || tensor_numel(&c->tensor[four].tensor) != 4 ||
        (like->dtype != DT_FLOAT64 && like->dtype != DT_INT64))
        return FAIL(E_IO, "the checkpoint's '%s' is not what training measured", c->tensor[sums].name);
    TRY(tensor_file_read(c->file, four, v, 0, sizeof v));
    if (!(v[2] >= 0 && v[2] < 0x1p53))
        return FAIL(E_IO, "the checkpoint's '%s' counts %g samples", TRAINED, v[2]);
    TRY(metric_begin(m, like));
    TRY(tensor_file_read(c->file, sums, m->sum.data, 0, tensor_bytes(like)));
    m->loss_sum = v[0];
    m->loss_weight = v[1];
    m->samples = (int64_t)v[2];
    m->weight = v[3];
    return ST_OK;
}

Status trainer_resume_trained(dpx_trainer *t, Arena *a, const Checkpoint *c)
{
    const char *name = sums_name(a, t);
    const int four = checkpoint_find(c, TRAINED), sums = name ? checkpoint_find(c, name) : -1;

    measured_restart(&t->trained);
    if (!name)
        return FAIL_NOMEM();
    return four >= 0 && sums >= 0 && recipe_options(&t->options->build)->metric ? read_sums(&t->trained, c, four, sums)
                                                                                : ST_OK;
}
