/* Learning rates: those of the schedules, and those that the caller sets in their place, which checkpoints keep. */
#include <math.h>
#include <string.h>

#include "exec/api/trainer.h"

double trainer_rate(const dpx_trainer *t, int group, int64_t step)
{
    return isnan(t->rate[group]) ? options_group_rate(t->options, group, step, t->seen) : t->rate[group];
}

static Status set_lr(dpx_trainer *t, int group, double lr)
{
    if (group < 0 || group > t->options->n_group)
        return FAIL(E_INVALID, "dpx_trainer_set_lr: group %d, expected 0 to %d", group, t->options->n_group);
    if (isinf(lr) || lr < 0)
        return FAIL(E_INVALID, "dpx_trainer_set_lr: a learning rate of %g, expected a number from 0 on, or NaN", lr);
    world_set_purpose(trainer_world(t), "the learning rate of group %d", group);
    if (trainer_has_peers(t))
        TRY(world_share(trainer_world(t), 0, &lr, sizeof lr));
    t->rate[group] = lr;
    return ST_OK;
}

dpx_status dpx_trainer_set_lr(dpx_trainer *t, int group, double lr)
{
    NEED(t, "trainer");
    return (dpx_status)trainer_share_failure(t, set_lr(t, group, lr));
}

/* ---- in checkpoints ---- */

static Shape rates_shape(const dpx_trainer *t) { return (Shape){ .rank = 1, .dim = { t->options->n_group + 1 } }; }

Status trainer_keep_rates(Arena *a, const dpx_trainer *t, NamedTensor *list, int *n)
{
    const Shape shape = rates_shape(t);
    bool any = false;
    Tensor *kept;

    for (int k = 0; k <= t->options->n_group; k++)
        any |= !isnan(t->rate[k]);
    if (!any)
        return ST_OK;
    if (!(kept = tensor_create(a, DT_FLOAT64, &shape)))
        return FAIL_NOMEM();
    memcpy(kept->data, t->rate, tensor_bytes(kept));
    list[(*n)++] = (NamedTensor){ RATES, *kept };
    return ST_OK;
}

Status trainer_read_rates(double rate[1 + MAX_GROUPS], const dpx_trainer *t, const Checkpoint *c)
{
    const Shape want = rates_shape(t);
    const int i = checkpoint_find(c, RATES);
    char has[SHAPE_TEXT], text[SHAPE_TEXT];

    for (int k = 0; k <= MAX_GROUPS; k++)
        rate[k] = NAN;
    if (i >= 0 && (c->tensor[i].tensor.dtype != DT_FLOAT64 || !shape_eq(&c->tensor[i].tensor.shape, &want)))
        return FAIL(E_IO, "the checkpoint's '%s' is %s%s, expected float64%s", RATES,
                    dtype_name(c->tensor[i].tensor.dtype), shape_text(&c->tensor[i].tensor.shape, has),
                    shape_text(&want, text));
    if (i >= 0)
        TRY(tensor_file_read(c->file, i, rate, 0, (size_t)want.dim[0] * sizeof *rate));
    for (int k = 0; k <= t->options->n_group; k++)
        if (isinf(rate[k]) || rate[k] < 0)
            return FAIL(E_IO, "the checkpoint's '%s': %g is no learning rate", RATES, rate[k]);
    return ST_OK;
}
