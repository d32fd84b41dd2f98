/* The first lines of a run: model, data, optimizer, devices, steps and folder. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/numtext.h"
#include "tools/training/training.h"

enum { LINE_TEXT = 1024, SHOWN_CLASSES = 10 };

/* Adds to a text of LINE_TEXT characters, which is cut where it is full. */
static void add(char text[LINE_TEXT], const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(char text[LINE_TEXT], const char *fmt, ...)
{
    const size_t n = strlen(text);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text + n, LINE_TEXT - n, fmt, ap);
    va_end(ap);
}

static void tell(Run *r, const char *label, char text[LINE_TEXT])
{
    foreign_clean(text);
    progress_fact(&r->progress, label, text);
}

static void tell_data(Run *r)
{
    char text[LINE_TEXT] = "";
    const int64_t n = r->train.data->samples, held = r->val.data ? r->val.data->samples : 0,
                  evaluated = loader_epoch_samples(held, r->batch_size, r->eval_batches);

    add(text, "%.300s: %" PRId64 " sample%s", r->train.source, n, n == 1 ? "" : "s");
    if (held)
        add(text, "; evaluates on ");
    if (held && args_has(r->args, "val"))
        add(text, "%.300s: ", r->val.source);
    if (evaluated < held)
        add(text, "%" PRId64 " of ", evaluated);
    if (held)
        add(text, "%" PRId64 "%s", held, args_has(r->args, "val") ? "" : " held out");
    tell(r, "data", text);
}

/* "4: circle (160), cross (160) ...": the classes and how many training samples each has. */
static void tell_classes(Run *r)
{
    char text[LINE_TEXT] = "";
    const Dataset *d = r->train.data;
    int64_t *count, n, with = 0, shown = 0;

    if (feed_count_classes(&count, &n, &r->train, r->args) || !count)
        return;
    for (int64_t c = 0; c < n; c++)
        with += count[c] > 0;
    add(text, "%" PRId64 ": ", with);
    for (int64_t c = 0; c < n && shown < SHOWN_CLASSES; c++) {
        if (!count[c])
            continue;
        add(text, shown++ ? ", " : "");
        if (d->class_name && c < d->classes)
            add(text, "%.60s (%" PRId64 ")", d->class_name[c], count[c]);
        else
            add(text, "%" PRId64 " (%" PRId64 ")", c, count[c]);
    }
    add(text, with > shown ? ", ..." : "");
    if (with)
        tell(r, "classes", text);
    free(count);
}

/* Adds the schedule as it was given, and the figure that a plateau follows. */
static void add_schedule(char text[LINE_TEXT], const Run *r)
{
    const char *schedule = dpx_options_get(r->args->options, "lr-schedule"),
               *given = args_value(r->args, "lr-schedule");
    const Monitor metric = monitor_metric(&r->facts.monitor, r->args);

    if (!strcmp(schedule, "constant"))
        return;
    add(text, "; lr-schedule %.100s", given ? given : schedule);
    if (!strncmp(schedule, "plateau", strlen("plateau")))
        add(text, ", which follows the %s %s", r->val.data ? "eval" : "train",
            follows_metric(r->args) ? metric.name : "loss");
}

/* "sgd: lr 0.01, momentum 0.9": the settings that the optimizer has, given or by default. */
static void tell_optimizer(Run *r)
{
    static const char *const shown[] = { "momentum", "beta1", "beta2", "weight-decay" };
    const dpx_options *o = r->args->options;
    const char *optimizer = dpx_options_get(o, "optimizer"), *warmup = dpx_options_get(o, "warmup-steps");
    char text[LINE_TEXT] = "", name[32];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(optimizer, ":"), optimizer);
    add(text, "%s", name);
    if (strcmp(name, "file") != 0)
        add(text, ": lr %s", dpx_options_get(o, "lr"));
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        if (dpx_choice_default("optimizer", name, shown[i]))
            add(text, ", %s %s", shown[i], dpx_options_get(o, shown[i]));
    add_schedule(text, r);
    if (strcmp(warmup, "0") != 0)
        add(text, "; warmup-steps %s", warmup);
    tell(r, "optimizer", text);
}

static void tell_devices(Run *r)
{
    const char *precision = dpx_options_get(r->args->options, "precision"),
               *left = dpx_options_get(r->args->options, "loader-threads");
    const int processes = r->world.world ? dpx_world_size(r->world.world) : 1, replicas = r->facts.replicas;
    const int64_t memory = dpx_trainer_memory(r->trainer);
    char text[LINE_TEXT] = "", bytes[BYTES_TEXT];

    add(text, "%.300s", dpx_options_get(r->args->options, "devices"));
    if (processes > 1)
        add(text, " of each of %d processes", processes);
    if (replicas > 1)
        add(text, ", %d replicas", replicas);
    if (strcmp(precision, "float32") != 0)
        add(text, ", %s", precision);
    if (strcmp(left, "0") != 0 && !args_has(r->args, "threads"))
        add(text, ", %s core%s left to --workers", left, strcmp(left, "1") ? "s" : "");
    if (memory)
        add(text, "; a step needs %s%s", bytes_text(bytes, (uint64_t)memory), replicas > 1 ? " per device" : "");
    tell(r, "devices", text);
}

/* "120: 3 epochs of 40 batches of 16 samples" */
static void tell_steps(Run *r)
{
    const int64_t batches = loader_batches(r->loader), groups = (batches + r->accumulate - 1) / r->accumulate;
    const double epochs = r->across_epochs ? (double)r->steps * (double)r->accumulate / (double)batches
                                           : (double)r->steps / (double)groups;
    const bool whole = epochs == floor(epochs);
    char text[LINE_TEXT] = "", number[32];

    text_format(number, sizeof number, whole ? "%.0f" : "%.1f", epochs);
    add(text, "%" PRId64 ": %s epoch%s of %" PRId64 " batch%s of %" PRId64 " sample%s", r->steps, number,
        epochs == 1 ? "" : "s", batches, batches == 1 ? "" : "es", r->batch_size, r->batch_size == 1 ? "" : "s");
    if (r->accumulate > 1)
        add(text, ", %" PRId64 " batches per step", r->accumulate);
    tell(r, "steps", text);
}

void tell_summary(Run *r)
{
    char text[LINE_TEXT] = "";

    add(text, "%.500s", r->args->positional[0]);
    if (*dpx_trainer_summary(r->trainer))
        add(text, ": %s", dpx_trainer_summary(r->trainer));
    tell(r, "model", text);
    tell_data(r);
    tell_classes(r);
    tell_optimizer(r);
    tell_devices(r);
    tell_steps(r);
    if (r->has_dir) {
        snprintf(text, sizeof text, "%s", r->dir.path);
        tell(r, "run", text);
    }
}
