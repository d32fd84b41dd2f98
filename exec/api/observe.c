/* Schedules that follow evaluations: what they have observed is the trainer's, and goes into its checkpoints. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "exec/api/trainer.h"

enum { COLUMNS = sizeof(ScheduleState) / sizeof(double) };
_Static_assert(COLUMNS == 4 && sizeof(ScheduleState) == COLUMNS * sizeof(double), "a state is four numbers");

int dpx_trainer_observes(const dpx_trainer *t) { return t ? options_observe(t->options) : 0; }

void trainer_forget_observed(dpx_trainer *t)
{
    for (int k = 0; k <= MAX_GROUPS; k++)
        t->seen[k] = SCHEDULE_BEGIN;
    t->seen_step = -1;
}

static Status observe(dpx_trainer *t, double loss, double metric)
{
    double both[] = { loss, metric };

    if (!options_observe(t->options))
        return ST_OK;
    world_set_purpose(trainer_world(t), "what schedules follow after step %" PRId64, t->step);
    if (trainer_has_peers(t))
        TRY(world_share(trainer_world(t), 0, both, sizeof both));
    if ((options_observe(t->options) & OBSERVES_METRIC) && isnan(both[1]))
        return FAIL(E_INVALID,
                    "--lr-schedule plateau follows the metric, which is not one number: choose another --metric");
    if (t->step < t->options->warmup_steps || t->step == t->seen_step)
        return ST_OK;
    options_observed(t->options, t->seen, both[0], both[1]);
    t->seen_step = t->step;
    return ST_OK;
}

dpx_status dpx_trainer_observe(dpx_trainer *t, double loss, double metric)
{
    NEED(t, "trainer");
    return (dpx_status)trainer_share_failure(t, observe(t, loss, metric));
}

/* ---- in checkpoints ---- */

static Shape kept_shape(const dpx_trainer *t)
{
    return (Shape){ .rank = 2, .dim = { t->options->n_group + 2, COLUMNS } };
}

static size_t seen_bytes(const dpx_trainer *t) { return (size_t)(t->options->n_group + 1) * sizeof *t->seen; }

Status trainer_keep_observed(Arena *a, const dpx_trainer *t, NamedTensor *list, int *n)
{
    const Shape shape = kept_shape(t);
    ScheduleState *row;
    Tensor *kept;

    if (!options_observe(t->options))
        return ST_OK;
    if (!(kept = tensor_create(a, DT_FLOAT64, &shape)))
        return FAIL_NOMEM();
    row = kept->data;
    memcpy(row, t->seen, seen_bytes(t));
    row[t->options->n_group + 1] = (ScheduleState){ .factor = (double)t->seen_step };
    list[(*n)++] = (NamedTensor){ OBSERVED, *kept };
    return ST_OK;
}

static bool is_sound(const dpx_trainer *t, const ScheduleState *row, int64_t at)
{
    const double step = row[t->options->n_group + 1].factor;
    bool sound = step >= -1 && step <= (double)at;

    for (int k = 0; k <= t->options->n_group; k++)
        sound = sound && row[k].factor >= 0 && row[k].factor <= 1 && row[k].bad >= 0 && row[k].cooldown >= 0;
    return sound;
}

Status trainer_resume_observed(dpx_trainer *t, const Checkpoint *c)
{
    const Shape want = kept_shape(t);
    ScheduleState row[2 + MAX_GROUPS];
    char has[SHAPE_TEXT], text[SHAPE_TEXT];
    const int i = checkpoint_find(c, OBSERVED);

    trainer_forget_observed(t);
    if (i < 0 || !options_observe(t->options))
        return ST_OK;
    if (c->tensor[i].tensor.dtype != DT_FLOAT64 || !shape_eq(&c->tensor[i].tensor.shape, &want))
        return FAIL(E_IO, "the checkpoint's '%s' is %s%s, expected float64%s", OBSERVED,
                    dtype_name(c->tensor[i].tensor.dtype), shape_text(&c->tensor[i].tensor.shape, has),
                    shape_text(&want, text));
    TRY(tensor_file_read(c->file, i, row, 0, seen_bytes(t) + sizeof *row));
    if (!is_sound(t, row, c->step))
        return FAIL(E_IO, "the checkpoint's '%s' is not what schedules observe up to step %lld", OBSERVED,
                    (long long)c->step);
    memcpy(t->seen, row, seen_bytes(t));
    t->seen_step = (int64_t)row[t->options->n_group + 1].factor;
    return ST_OK;
}

Status trainer_agree_observed(Facts *f, const dpx_trainer *t)
{
    if (!options_observe(t->options))
        return ST_OK;
    return facts_add_digest(f, "what schedules have observed, of digest", t->seen, seen_bytes(t));
}
