/* The options of a run together: contradictions, the devices that they name, the learning rate of each step, and values
 * taken over from other options. */
#include <string.h>

#include "exec/train/options_groups.h"
#include "exec/train/options_numbers.h"
#include "passes/options/backend.h"
#include "passes/options/batch_norm.h"
#include "passes/options/collectives.h"
#include "passes/options/outputs.h"
#include "passes/options/recipes.h"
#include "passes/options/step.h"
#include "passes/options/target.h"
#include "passes/options/types.h"
#include "passes/options/update.h"

static bool has_schedule(const Options *o, int k) { return !k || o->group[k - 1].schedule; }

static const ScheduleDef *schedule_of(const void **settings, const Options *o, int k)
{
    const bool own = k && has_schedule(o, k);

    *settings = own ? &o->group[k - 1].schedule_settings : &o->schedule_settings;
    return own ? o->group[k - 1].schedule : o->schedule;
}

/* Does one of the metrics fall, or rise? */
static bool any_metric(const Options *o, bool falls)
{
    bool any = false;

    for (const MetricChoice *m = recipe_options(&o->build)->metric; m->def; m++)
        any |= m->def->falls == falls;
    return any;
}

/* A schedule that waits for a metric to rise must not be given metrics that fall, nor the other way round. */
static Status check_observed(const Options *o)
{
    const MetricDef *metric = recipe_options(&o->build)->metric->def;

    for (int k = 0; k <= o->n_group; k++) {
        const void *settings;
        const ScheduleDef *schedule = schedule_of(&settings, o, k);

        if (!metric || !schedule->observes || schedule->observes(settings) != OBSERVES_METRIC ||
            any_metric(o, schedule->falls(settings)))
            continue;
        return FAIL(E_INVALID,
                    "--lr-schedule %s: --metric %s should %s, and its MODE is for metrics that should %s: give %s",
                    schedule->recipe.name, metric->recipe.name, metric->falls ? "fall" : "rise",
                    metric->falls ? "rise" : "fall", metric->falls ? "min-metric" : "max");
    }
    return ST_OK;
}

/* Refuses options about updates, where the file has updates of its own. */
static Status check_of_file(const Options *o)
{
    static const char *const idle[] = { "lr",    "lr-schedule", "warmup-steps", "clip-norm", "clip-value",  "ema",
                                        "group", "accumulate",  "shard",        "precision", "loss-scaling" };
    PROBLEMS(given);

    if (!follows_file(&o->build))
        return ST_OK;
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (options_given(o, idle[i]))
            problems_add(&given, "--%s", idle[i]);
    return problems_fail(&given, E_INVALID,
                         "--optimizer file takes the step from the model's training_info: leave out");
}

/* Adds the message of a failed check, whose status becomes *all if memory ran out. */
static void find(Problems *wrong, Status *all, Status st)
{
    if (st)
        problems_add(wrong, "%s", status_message());
    if (st == E_NOMEM)
        *all = st;
}

/* Steps and weights that do not go together. */
static void find_of_steps(Problems *wrong, const Options *o)
{
    const UpdateOptions *update = update_options(&o->build);
    const int64_t steps = step_options(&o->build)->total_steps;

    if (o->export_ema && !keeps_means(&o->build))
        problems_add(wrong, "--export-weights ema needs --ema above 0");
    if (update->eval_means && !keeps_means(&o->build))
        problems_add(wrong, "--eval-weights ema needs --ema above 0");
    if (update->ema > 0 && optimizer_averages(&o->build))
        problems_add(wrong, "--ema: --optimizer %s averages the parameters itself: leave out --ema",
                     recipe_options(&o->build)->optimizer->recipe.name);
    if (o->schedule->ends && !steps)
        problems_add(wrong, "--lr-schedule %s needs to know the number of steps", o->schedule->recipe.name);
    if (steps && o->warmup_steps > steps)
        problems_add(wrong, "--warmup-steps %lld is more than the %lld step%s of the run", (long long)o->warmup_steps,
                     (long long)steps, steps == 1 ? "" : "s");
    if (step_options(&o->build)->file_modes && has_loss(&o->build))
        problems_add(wrong, "--training is for run and check: training and evaluation choose the mode themselves");
    if (o->loss_scale_given && type_options(&o->build)->precision != DT_FLOAT16)
        problems_add(wrong, "--loss-scale needs --precision float16");
}

/* Ways to compute over replicas that do not go together. */
static void find_of_replicas(Problems *wrong, const Options *o)
{
    const CollectiveOptions *collectives = collective_options(&o->build);
    const TargetOptions *target = target_options(&o->build);
    const BatchNormOptions *norm = batch_norm_options(&o->build);

    if (collectives->master && collectives->shard != SHARD_PARAMETERS)
        problems_add(wrong,
                     "--strategy master keeps all parameters on the first device: --shard %s does not go with it",
                     options_get(o, "shard"));
    if (options_given(o, "loss-at") && output_options(&o->build)->loss_gathered && target->mean_of_means)
        problems_add(
            wrong,
            "--loss-at outputs does not go with --loss-scaling mean-of-means, which averages the losses of parts");
    if (norm->bn_group && norm->bn != BN_SYNC)
        problems_add(wrong, "--bn-group needs --bn sync, found --bn %s", options_get(o, "bn"));
    if (norm->own_buffers && norm->bn == BN_SYNC)
        problems_add(
            wrong,
            "--broadcast-buffers false needs --bn local, found --bn sync, which has one set of running statistics");
    if (options_given(o, "mean-over") && target->mean_over && !target->mean_of_means)
        problems_add(wrong, "--mean-over filled needs --loss-scaling mean-of-means, found exact");
    if (o->ways.reproducible && o->tune)
        problems_add(wrong, "--reproducible does not go with --tune, which measures algorithms on each device");
    if (o->ways.reproducible && o->ways.library_sums)
        problems_add(wrong, "--reproducible does not go with --reduce library, whose bits depend on the mapping of "
                            "replicas to devices");
}

Status options_check(const Options *o)
{
    PROBLEMS(wrong);
    Status all = E_INVALID;

    find(&wrong, &all, options_check_recipes(o));
    find(&wrong, &all, check_of_file(o));
    find(&wrong, &all, options_check_groups(o));
    find(&wrong, &all, check_observed(o));
    find_of_steps(&wrong, o);
    find_of_replicas(&wrong, o);
    return problems_fail(&wrong, all, "%s", "");
}

static Status options_use_check_flags(const Options *o, const DeviceSpec *d)
{
    const char *flag = o->tune               ? "--tune"
                       : o->ways.check_nodes ? "--check-nodes"
                       : o->ways.uncaptured  ? "--no-capture"
                                             : NULL;

    if (o->ways.library_sums && d->cuda)
        return FAIL(E_INVALID,
                    "--reduce library is for CPU devices: --devices names cuda:%d, and GPUs add by their library "
                    "unless --reproducible is given",
                    d->index);
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
    if (!o->threads)
        device_list_leave(out, o->loader_threads);
    for (int i = 0; i < out->n; i++) {
        TRY(options_use_check_flags(o, &out->device[i]));
        out->device[i].tf32 = backend_options(&o->build)->tf32;
        out->device[i].tune = o->tune;
        out->device[i].exact = o->ways.reproducible;
    }
    return ST_OK;
}

int options_observe(const Options *o)
{
    int all = 0;

    for (int k = 0; k <= o->n_group; k++) {
        const void *settings;
        const ScheduleDef *schedule = schedule_of(&settings, o, k);

        all |= schedule->observes ? (int)schedule->observes(settings) : 0;
    }
    return all;
}

void options_observed(const Options *o, ScheduleState *state, double loss, double metric)
{
    for (int k = 0; k <= o->n_group; k++) {
        const void *settings;
        const ScheduleDef *schedule = schedule_of(&settings, o, k);

        if (schedule->observe && has_schedule(o, k))
            schedule->observe(settings, &state[k], k && o->group[k - 1].has_lr ? o->group[k - 1].lr : o->lr,
                              schedule->observes(settings) == OBSERVES_METRIC ? metric : loss);
    }
}

double options_group_rate(const Options *o, int k, int64_t step, const ScheduleState *state)
{
    const OptionGroup *g = k ? &o->group[k - 1] : NULL;
    const void *settings;
    const ScheduleDef *schedule = schedule_of(&settings, o, k);
    const SchedulePoint at = { step - o->warmup_steps, step_options(&o->build)->total_steps - o->warmup_steps,
                               o->warmup_steps };
    const double lr = g && g->has_lr ? g->lr : o->lr;

    if (at.step < 0)
        return lr * (double)(step + 1) / (double)o->warmup_steps;
    return lr * schedule->factor(settings, at) *
           (schedule->observe && state ? state[has_schedule(o, k) ? k : 0].factor : 1);
}

/* A value ends at a ';' behind numbers: names may hold that character, too. */
Status options_set_input_values(Options *o, const char *text)
{
    for (const char *from = text, *to = text; *from; to++) {
        const char *value, *eq;

        to += strcspn(to, ";");
        if (!(value = arena_printf(o->arena, "%.*s", (int)(to - from), from)))
            return FAIL_NOMEM();
        eq = strrchr(value, '=');
        if (*to && !(eq && options_are_numbers(eq + 1)))
            continue;
        TRY(options_set(o, "input-value", value));
        if (!*to)
            break;
        from = to + 1;
    }
    return ST_OK;
}
