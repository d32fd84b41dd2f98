/* The metrics over several batches.  Only sums are kept, which add up exactly; the numbers follow from those of all. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "graph/base/foreign.h"
#include "graph/base/heap_array.h"
#include "passes/options/recipes.h"
#include "passes/options/target.h"

static const RecipeOptions *recipes_of(const dpx_trainer *t) { return recipe_options(&t->options->build); }

bool scores_exactly(const dpx_trainer *t) { return recipes_of(t)->exact; }

Status metrics_create(RecipeSettings out[MAX_METRICS], const Options *o)
{
    const RecipeOptions *r = recipe_options(&o->build);

    for (int k = 0; k < metric_count(r); k++)
        TRY(recipe_take(&out[k], &r->metric[k].def->recipe, "metric", r->metric[k].args, r->settings, o->arena));
    return ST_OK;
}

void measured_restart(Measured *m)
{
    for (int k = 0; k < MAX_METRICS; k++) {
        free(m->metric[k].sum.data);
        free(m->metric[k].rows);
    }
    *m = (Measured){ .samples = 0 };
}

/* Zeros; integers stay integers, and floats are added in float64 whatever the model's type. */
static Status sums_begin(MetricSums *m, const MetricDef *def, const Tensor *like)
{
    Tensor t = { dtype_is_float(like->dtype) ? DT_FLOAT64 : DT_INT64, like->shape, NULL };
    double *rows = def->rows ? calloc((size_t)(like->shape.dim[0] * def->columns) + 1, sizeof *rows) : NULL;

    if (!(t.data = calloc(1, tensor_bytes(&t) + 1)) || (def->rows && !rows)) {
        free(t.data);
        free(rows);
        return FAIL_NOMEM();
    }
    *m = (MetricSums){ .sum = t, .rows = rows };
    return ST_OK;
}

/* Appends the pairs of a batch; m->sum is float64 [pairs, 2]. */
static Status sums_append(MetricSums *m, const Tensor *pairs)
{
    const int64_t n = tensor_numel(pairs), had = m->sum.data ? tensor_numel(&m->sum) : 0;
    double *more = heap_reserve(m->sum.data, sizeof *more, (size_t)(had + n) + 1, &m->room);

    if (!more)
        return FAIL_NOMEM();
    for (int64_t i = 0; i < n; i++)
        more[had + i] = tensor_float(pairs, i);
    m->sum = (Tensor){ DT_FLOAT64, SHAPE((had + n) / 2, 2), more };
    return ST_OK;
}

static Status sums_add(MetricSums *m, const MetricDef *def, const Tensor *sum)
{
    if (def->lists && dtype_is_float(sum->dtype))
        return sums_append(m, sum);
    if (!m->sum.data)
        TRY(sums_begin(m, def, sum));
    if (!shape_eq(&m->sum.shape, &sum->shape))
        return FAIL(E_SHAPE, "the metric of this batch has another number of classes than of those before: restart it");
    if (def->merge) {
        def->merge(m->sum.data, sum->data, tensor_numel(sum));
        return ST_OK;
    }
    for (int64_t i = 0; i < tensor_numel(sum); i++)
        if (m->sum.dtype == DT_INT64)
            ((int64_t *)m->sum.data)[i] += tensor_int(sum, i);
        else
            ((double *)m->sum.data)[i] += tensor_float(sum, i);
    return ST_OK;
}

Status measured_add(Measured *m, const dpx_trainer *t, const dpx_result *r, const SessionStep *step)
{
    const RecipeOptions *o = recipes_of(t);

    if (session_output(step, READ_LOSS_SUM)) {
        m->loss_sum += r->loss_sum;
        m->loss_weight += r->loss_weight;
        m->samples += r->samples;
    }
    for (int k = 0; k < metric_count(o); k++) {
        const Tensor *sum = session_output(step, READ_METRICS + 2 * k),
                     *weight = session_output(step, READ_METRICS + 2 * k + 1);

        if (!sum)
            continue;
        TRY(sums_add(&m->metric[k], o->metric[k].def, sum));
        m->metric[k].weight += weight ? tensor_float(weight, 0) : 0;
    }
    return ST_OK;
}

static bool counted(const MetricSums *m, const MetricDef *def)
{
    if (!m->sum.data || !def->table)
        return m->sum.data && m->weight > 0;
    for (int64_t i = 0; i < tensor_numel(&m->sum); i++)
        if (m->sum.dtype == DT_FLOAT64 ? tensor_float(&m->sum, i) != 0 : tensor_int(&m->sum, i) != 0)
            return true;
    return false;
}

static dpx_tensor give_table(const MetricSums *m, const MetricDef *def, const MetricTotals *totals)
{
    dpx_tensor t = { .name = def->recipe.name, .dtype = DPX_INT64, .rank = 2, .data = m->sum.data };

    memcpy(t.dim, m->sum.shape.dim, sizeof t.dim);
    if (def->rows) {
        def->rows(m->rows, totals);
        t.dtype = DPX_FLOAT64;
        t.dim[1] = def->columns;
        t.data = m->rows;
    }
    return t;
}

static void give_value(dpx_metric *out, const dpx_trainer *t, const Measured *of, int k)
{
    const RecipeOptions *o = recipes_of(t);
    const MetricDef *def = o->metric[k].def;
    const MetricSums *m = &of->metric[k];
    const MetricTotals totals = {
        .sum = &m->sum, .weight = m->weight, .binary = o->loss && o->loss->binary, .settings = &t->metric[k]
    };

    if (!def || !counted(m, def))
        return;
    out->measured = 1;
    if (def->value)
        out->value = def->value(&totals);
    else if (!def->table)
        out->value = tensor_float(&m->sum, 0) / m->weight;
    else
        out->table = give_table(m, def, &totals);
    if (def->value && def->table && isnan(out->value)) /* counts do not define it */
        out->measured = 0;
    else if (def->bound)
        out->bound = def->bound(&totals);
}

/* Gives metric `index` of the options; a trainer without metrics has one that is never measured. */
static Status read_metric(dpx_metric *out, const dpx_trainer *t, const Measured *m, int index, const char *function)
{
    const int n = metric_count(recipes_of(t));

    if (index < 0 || (index && index >= n))
        return FAIL(E_INVALID, "%s: metric %d of %d", function, index, n);
    *out = (dpx_metric){ .value = NAN, .loss = NAN, .samples = m->samples };
    if (m->samples)
        out->loss = m->loss_weight != 0 ? m->loss_sum / m->loss_weight : m->loss_sum;
    give_value(out, t, m, index);
    return ST_OK;
}

/* Gives the caller metric `index` of evaluations, or of training steps (`trained`). */
static dpx_status give_metric(dpx_metric *out, size_t size, const dpx_trainer *t, int index, bool trained,
                              const char *function)
{
    dpx_metric m;
    Status st = read_metric(&m, t, trained ? &t->trained : &t->measured, index, function);

    if (st)
        return (dpx_status)st;
    if (!trained) {
        m.log = t->log_values.all;
        m.n_log = t->log_values.n_all;
    }
    GIVE(out, size, m);
    return DPX_OK;
}

dpx_status dpx_trainer_metric_sized(const dpx_trainer *t, dpx_metric *out, size_t size)
{
    NEED(t, "trainer");
    NEED(out, "out");
    NEED_SIZE(size, dpx_metric);
    return give_metric(out, size, t, 0, false, "dpx_trainer_metric");
}

dpx_status dpx_trainer_metric_at_sized(const dpx_trainer *t, int index, dpx_metric *out, size_t size)
{
    NEED(t, "trainer");
    NEED(out, "out");
    NEED_SIZE(size, dpx_metric);
    return give_metric(out, size, t, index, false, "dpx_trainer_metric_at");
}

dpx_status dpx_trainer_train_metric_sized(const dpx_trainer *t, dpx_metric *out, size_t size)
{
    NEED(t, "trainer");
    NEED(out, "out");
    NEED_SIZE(size, dpx_metric);
    return give_metric(out, size, t, 0, true, "dpx_trainer_train_metric");
}

dpx_status dpx_trainer_train_metric_at_sized(const dpx_trainer *t, int index, dpx_metric *out, size_t size)
{
    NEED(t, "trainer");
    NEED(out, "out");
    NEED_SIZE(size, dpx_metric);
    return give_metric(out, size, t, index, true, "dpx_trainer_train_metric_at");
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

/* The name of metric k's sums or weight in a checkpoint. */
static const char *kept_name(Arena *a, const dpx_trainer *t, const char *what, int k)
{
    return arena_printf(a, TRAINED "_%s:%s", what, recipes_of(t)->metric[k].name);
}

/* Have all metrics sums? */
static bool all_begun(const dpx_trainer *t)
{
    const int n = metric_count(recipes_of(t));
    bool all = n > 0;

    for (int k = 0; k < n; k++)
        all &= t->trained.metric[k].sum.data != NULL;
    return all;
}

Status trainer_keep_trained(Arena *a, const dpx_trainer *t, NamedTensor *list, int *n)
{
    const Measured *m = &t->trained;
    const int metrics = metric_count(recipes_of(t));
    const Shape four = SHAPE(4), one = SHAPE(1);
    Tensor *kept;

    if (!all_begun(t))
        return ST_OK;
    if (!(kept = tensor_create(a, DT_FLOAT64, &four)))
        return FAIL_NOMEM();
    memcpy(kept->data, (double[]){ m->loss_sum, m->loss_weight, (double)m->samples, m->metric[0].weight },
           4 * sizeof(double));
    list[(*n)++] = (NamedTensor){ TRAINED, *kept };
    for (int k = 0; k < metrics; k++) {
        const char *name = kept_name(a, t, "metric", k), *weight = kept_name(a, t, "weight", k);

        if (!name || !weight || !(kept = tensor_create(a, DT_FLOAT64, &one)))
            return FAIL_NOMEM();
        list[(*n)++] = (NamedTensor){ name, m->metric[k].sum };
        memcpy(kept->data, &m->metric[k].weight, sizeof(double));
        if (metrics > 1)
            list[(*n)++] = (NamedTensor){ weight, *kept };
    }
    return ST_OK;
}

static Status damaged_sums(const char *name)
{
    return FAIL(E_IO, "the checkpoint's '%s' is not what training measured", name);
}

/* Has a checkpoint's tensor the type and shape of the metric's sums? */
static bool are_sums(const MetricDef *def, const Tensor *t)
{
    if (t->dtype != DT_FLOAT64 && t->dtype != DT_INT64)
        return false;
    if (!def->table)
        return t->shape.rank == 0;
    return t->shape.rank == 2 && t->shape.dim[0] == (def->lines ? def->lines : t->shape.dim[1]);
}

/* Reads metric k's sums and weight; `weight`: of a checkpoint with a single metric. */
static Status read_sums(MetricSums *m, const dpx_trainer *t, Arena *a, const Checkpoint *c, int k, double weight)
{
    const char *name = kept_name(a, t, "metric", k), *of_weight = kept_name(a, t, "weight", k);
    const int sums = name ? checkpoint_find(c, name) : -1, at = of_weight ? checkpoint_find(c, of_weight) : -1;
    const Tensor *like = sums < 0 ? NULL : &c->tensor[sums].tensor;

    if (!like)
        return FAIL_NOMEM();
    if (!are_sums(recipes_of(t)->metric[k].def, like))
        return damaged_sums(name);
    if (at >= 0 && (c->tensor[at].tensor.dtype != DT_FLOAT64 || tensor_numel(&c->tensor[at].tensor) != 1))
        return damaged_sums(of_weight);
    TRY(sums_begin(m, recipes_of(t)->metric[k].def, like));
    TRY(tensor_file_read(c->file, sums, m->sum.data, 0, tensor_bytes(like)));
    m->weight = weight;
    return at < 0 ? ST_OK : tensor_file_read(c->file, at, &m->weight, 0, sizeof m->weight);
}

/* Does the checkpoint have the sums of all metrics of this run?  With others the run measures the rest. */
static bool has_sums(const dpx_trainer *t, Arena *a, const Checkpoint *c)
{
    const int n = metric_count(recipes_of(t));
    bool all = n > 0 && checkpoint_find(c, TRAINED) >= 0;

    for (int k = 0; k < n && all; k++) {
        const char *name = kept_name(a, t, "metric", k);

        all = name && checkpoint_find(c, name) >= 0;
    }
    return all;
}

Status trainer_resume_trained(dpx_trainer *t, Arena *a, const Checkpoint *c)
{
    const int four = checkpoint_find(c, TRAINED);
    Measured *m = &t->trained;
    double v[4];

    measured_restart(m);
    if (!has_sums(t, a, c))
        return ST_OK;
    if (c->tensor[four].tensor.dtype != DT_FLOAT64 || tensor_numel(&c->tensor[four].tensor) != 4)
        return damaged_sums(TRAINED);
    TRY(tensor_file_read(c->file, four, v, 0, sizeof v));
    if (!(v[2] >= 0 && v[2] < 0x1p53))
        return FAIL(E_IO, "the checkpoint's '%s' counts %g samples", TRAINED, v[2]);
    for (int k = 0; k < metric_count(recipes_of(t)); k++)
        TRY(read_sums(&m->metric[k], t, a, c, k, v[3]));
    m->loss_sum = v[0];
    m->loss_weight = v[1];
    m->samples = (int64_t)v[2];
    return ST_OK;
}

/* ---- weights of losses that the model computes ---- */

void trainer_warn_of_weights(dpx_trainer *t, const char *what)
{
    const BuildOptions *b = &t->options->build;
    const TargetOptions *target = target_options(b);
    const RecipeOptions *r = recipes_of(t);
    char line[512];

    if (t->warned_of_weights || !loss_is_output(b) || target->loss_weight || target->loss_is_sum)
        return;
    snprintf(line, sizeof line,
             "%s: the loss of each batch, %s%s%s, is weighted by its number of samples; where it is a mean over "
             "anything else give --loss-weight OUTPUT%s",
             what, r->loss->logs ? "the sum of outputs" : "output '", r->loss->logs ? "" : r->loss_args,
             r->loss->logs ? "" : "'", r->loss->logs ? "" : ", where it is a sum --loss-weight sum");
    foreign_clean(line);
    if (t->log)
        t->log(t->log_user, DPX_LOG_WARNING, line);
    t->warned_of_weights = true;
}
