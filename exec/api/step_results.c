/* Results of a step, read from its outputs by number: loss, metric, norms, loss scales, and the log variables of a
 * model that computes its loss itself (--loss outputs). */
#include <math.h>
#include <string.h>

#include "exec/api/trainer.h"
#include "passes/options/recipes.h"
#include "passes/train/criterion.h"
#include "passes/update_groups.h"

/* ---- names, once ---- */

/* Adds the log variable unless it is there; index 0 is the total. */
static Status log_values_add_name(LogValues *l, Arena *a, const char *name)
{
    for (int i = 1; name && i < l->n; i++)
        if (!strcmp(l->output[i] + sizeof OUT_LOG_PREFIX - 1, name))
            return ST_OK;
    if (!name)
        return FAIL_NOMEM();
    l->output[l->n] = arena_printf(a, OUT_LOG_PREFIX "%s", name);
    return l->output[l->n++] ? ST_OK : FAIL_NOMEM();
}

static Status log_values_create(LogValues *l, const Graph *model, Options *o)
{
    const LossDef *loss = recipe_options(&o->build)->loss;
    const size_t room = (size_t)model->n_output + 1;
    bool *is_loss = ARENA_NEW(o->arena, bool, room);

    if (!is_loss || !(l->output = ARENA_NEW(o->arena, const char *, room)))
        return FAIL_NOMEM();
    TRY(criterion_find_losses(is_loss, model, &o->build));
    if (!loss || !loss->logs)
        return ST_OK;
    for (int k = 0; k <= MAX_BEGUN; k++)
        if (!(l->value[k] = ARENA_NEW(o->arena, dpx_log_value, room)))
            return FAIL_NOMEM();
    if (!(l->all = ARENA_NEW(o->arena, dpx_log_value, room)))
        return FAIL_NOMEM();
    TRY(log_values_add_name(l, o->arena, OUT_LOSS));
    for (int i = 0; i < model->n_output; i++)
        TRY(log_values_add_name(l, o->arena, criterion_log_name(o->arena, model, i)));
    return ST_OK;
}

Status trainer_number_outputs(dpx_trainer *t)
{
    static const char *const fixed[READ_METRICS] = { OUT_LOSS_SUM, OUT_LOSS_WEIGHT, OUT_LOSS, OUT_GRAD_NORM };
    const BuildOptions *b = &t->options->build;
    const int metrics = metric_count(recipe_options(b));
    Arena *a = t->options->arena;
    const char **name;
    int n = READ_METRICS;

    TRY(log_values_create(&t->log_values, t->model->graph, t->options));
    t->read_groups = READ_METRICS + 2 * metrics;
    t->log_values.number = t->read_groups + 3 * (t->options->n_group + 1);
    if (!(name = ARENA_NEW(a, const char *, t->log_values.number + t->log_values.n)))
        return FAIL_NOMEM();
    memcpy(name, fixed, sizeof fixed);
    for (int k = 0; k < metrics; k++) {
        char text[GROUP_NAME];

        name[n++] = arena_strdup(a, group_name(text, OUT_METRIC_SUM, k));
        name[n++] = arena_strdup(a, group_name(text, OUT_METRIC_WEIGHT, k));
        if (!name[n - 2] || !name[n - 1])
            return FAIL_NOMEM();
    }
    for (int k = 0; k <= t->options->n_group; k++) {
        const int player = update_group_player(b, k);
        /* The norm of a player's gradients is that of its groups; the norm of all is no group's. */
        const int with_norm = player ? update_group_norm(b, k) : k;
        char text[GROUP_NAME];

        name[n++] = arena_strdup(a, group_name(text, OUT_GRAD_NORM, with_norm));
        name[n++] = arena_strdup(a, group_name(text, OUT_LOSS_SCALE, player));
        name[n++] = arena_strdup(a, group_name(text, OUT_APPLIED, player));
        if (!name[n - 3] || !name[n - 2] || !name[n - 1])
            return FAIL_NOMEM();
    }
    for (int i = 0; i < t->log_values.n; i++)
        name[n++] = t->log_values.output[i];
    session_number_outputs(t->session, name, n);
    return ST_OK;
}

/* ---- values, every step ---- */

static double real_output(const SessionStep *step, int number, double fallback)
{
    const Tensor *t = session_output(step, number);

    return !t || t->shape.rank ? fallback : dtype_is_float(t->dtype) ? tensor_float(t, 0) : (double)tensor_int(t, 0);
}

static int64_t count_output(const SessionStep *step, int number)
{
    const Tensor *t = session_output(step, number);

    return t && !t->shape.rank && t->dtype == DT_INT64 ? tensor_int(t, 0) : 0;
}

static void read_groups(dpx_trainer *t, dpx_result *r, const SessionStep *step)
{
    r->loss_scale = NAN;
    r->skipped = 0;
    for (int k = 0; k <= t->options->n_group; k++) {
        const int first = t->read_groups + 3 * k;
        const Tensor *norm = session_output(step, first), *scale = session_output(step, first + 1),
                     *applied = session_output(step, first + 2);

        t->group_norm[k] = norm ? tensor_float(norm, 0) : NAN;
        t->group_scale[k] = scale ? tensor_float(scale, 0) : NAN;
        t->group_skipped[k] = applied && !tensor_int(applied, 0);
        r->loss_scale = fmin(r->loss_scale, t->group_scale[k]); /* NaN is no number to it */
        r->skipped |= t->group_skipped[k];
    }
    t->has_norms = true;
}

static void log_values_read(LogValues *l, dpx_result *r, const SessionStep *step)
{
    const size_t skip = sizeof OUT_LOG_PREFIX - 1;
    dpx_log_value *v;

    if (!l->n || isnan(r->loss_weight))
        return;
    r->log = v = l->value[l->turn];
    l->turn = (l->turn + 1) % (MAX_BEGUN + 1);
    *v++ = (dpx_log_value){ l->output[0] + skip, r->loss, r->loss_sum };
    for (int i = 1; i < l->n; i++) {
        const Tensor *sum = session_output(step, l->number + i);

        if (sum)
            *v++ = (dpx_log_value){ l->output[i] + skip, tensor_float(sum, 0) / r->loss_weight, tensor_float(sum, 0) };
    }
    r->n_log = (int)(v - r->log);
}

void trainer_read_outputs(dpx_trainer *t, dpx_result *r, const SessionStep *step)
{
    r->loss_sum = real_output(step, READ_LOSS_SUM, NAN);
    r->loss_weight = real_output(step, READ_LOSS_WEIGHT, isnan(r->loss_sum) ? NAN : 0);
    r->loss = real_output(step, READ_LOSS, r->loss_sum / r->loss_weight);
    if (metric_count(recipe_options(&t->options->build))) {
        r->metric_sum = real_output(step, READ_METRICS, 0);
        r->metric_weight = real_output(step, READ_METRICS + 1, 0);
        r->correct = count_output(step, READ_METRICS);
        r->counted = count_output(step, READ_METRICS + 1);
    }
    r->grad_norm = real_output(step, READ_GRAD_NORM, NAN);
    read_groups(t, r, step);
    log_values_read(&t->log_values, r, step);
}

void log_values_add(LogValues *l, const dpx_result *r)
{
    l->weight += r->n_log ? r->loss_weight : 0;
    for (int i = 0; i < r->n_log; i++) {
        l->all[i] = (dpx_log_value){ r->log[i].name, 0, (l->n_all ? l->all[i].sum : 0) + r->log[i].sum };
        l->all[i].value = l->all[i].sum / l->weight;
    }
    l->n_all = r->n_log ? r->n_log : l->n_all;
}
