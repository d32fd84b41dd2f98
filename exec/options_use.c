/* What the options of a run say together: what contradicts, which devices they name, the learning rate of each step. */
#include <math.h>

#include "exec/options.h"

/* Given to an optimizer that knows them not, which would pass over them without a word. */
static Status check_optimizer(const Options *o)
{
    static const struct {
        const char *name;
        bool sgd;
    } of[] = {
        { "momentum", true }, { "nesterov", true }, { "beta1", false }, { "beta2", false }, { "eps", false },
    };
    const bool sgd = o->build.optimizer == OPT_SGD;
    Problems wrong = { 0 };

    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (of[i].sgd != sgd && options_given(o, of[i].name))
            problems_add(&wrong, "--%s", of[i].name);
    return problems_fail(&wrong, E_INVALID, "--optimizer %s does not have", options_get(o, "optimizer"));
}

Status options_check(const Options *o)
{
    TRY(check_optimizer(o));
    if (o->build.nesterov && o->build.momentum == 0)
        return FAIL(E_INVALID, "--nesterov needs --momentum above 0");
    if ((o->schedule == SCHEDULE_COSINE || o->schedule == SCHEDULE_LINEAR) && !o->total_steps)
        return FAIL(E_INVALID, "--lr-schedule cosine and linear need to know the number of steps");
    if (o->total_steps && o->warmup_steps > o->total_steps)
        return FAIL(E_INVALID, "--warmup-steps %lld is more than the %lld steps of the run", (long long)o->warmup_steps,
                    (long long)o->total_steps);
    if (o->loss_scale_given && o->build.precision != DT_FLOAT16)
        return FAIL(E_INVALID, "--loss-scale needs --precision float16");
    if (o->ways.reproducible && o->tune)
        return FAIL(E_INVALID,
                    "--reproducible: --tune chooses algorithms by measuring them, and each device for itself");
    return ST_OK;
}

static Status check_flags(const Options *o, const DeviceSpec *d)
{
    const char *flag = o->tune               ? "--tune"
                       : o->ways.check_nodes ? "--check-nodes"
                       : o->ways.uncaptured  ? "--no-capture"
                                             : NULL;

    if (!flag)
        return ST_OK;
    if (!d->cuda)
        return FAIL(E_INVALID, "%s is for GPUs: --devices names cpu:%d", flag, d->index);
    if (o->tune && *d->described)
        return FAIL(E_INVALID, "--tune measures on a GPU that is there: cuda:%d is only described (%s)", d->index,
                    d->described);
    return ST_OK;
}

Status options_devices(DeviceList *out, const Options *o)
{
    TRY(device_list_parse(out, o->devices, o->threads));
    for (int i = 0; i < out->n; i++) {
        TRY(check_flags(o, &out->device[i]));
        out->device[i].tf32 = o->build.tf32;
        out->device[i].tune = o->tune;
        out->device[i].exact = o->ways.reproducible;
    }
    return ST_OK;
}

double options_learning_rate(const Options *o, int64_t step)
{
    double done;
    int64_t after = step - o->warmup_steps, span = o->total_steps - o->warmup_steps;

    if (after < 0)
        return o->lr * (double)(step + 1) / (double)o->warmup_steps;
    if (o->schedule == SCHEDULE_CONSTANT)
        return o->lr;
    if (o->schedule == SCHEDULE_STEP)
        return o->lr * pow(o->schedule_gamma, (double)(after / o->schedule_every));
    done = span > 0 && after < span ? (double)after / (double)span : 1;
    if (o->schedule == SCHEDULE_COSINE)
        return o->lr * (o->schedule_final + (1 - o->schedule_final) * 0.5 * (1 + cos(M_PI * done)));
    return o->lr * (1 - (1 - o->schedule_final) * done);
}
