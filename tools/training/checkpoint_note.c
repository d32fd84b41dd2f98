/* The note in a checkpoint, as JSON: {"epoch":, "batch":, "samples":, "batch_size":, "run": {NAME: TEXT, ...},
 * "best": {"of":, "val":, "step":, "epoch":, "value":, "since":, "counted":}}.
 *
 * A new option is compared on resume unless its row (exec/train/options.c) says that it changes nothing.  A note of an
 * earlier version may lack options; those cannot be compared. */
#include "tools/training/checkpoint_note.h"

#include <dirent.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "graph/base/jsontext.h"
#include "graph/base/numtext.h"

/* The option's row; a fact that is no option must stay as it is. */
static dpx_option_info option_of(const char *name)
{
    for (int i = 0; i < dpx_option_count(); i++)
        if (!strcmp(dpx_option_at(i).name, name))
            return dpx_option_at(i);
    return (dpx_option_info){ .on_resume = DPX_RESUME_FIXED };
}

static int64_t batch_size(const RunFacts *f)
{
    return strtoll(dpx_options_get(f->args->options, "batch-size"), NULL, 10);
}

#define FLAG_GIVEN "given"

/* The option's value.  total-steps counts only for a schedule that ends, and input shapes only if the user gave them,
 * for otherwise they are those of the data. */
static const char *option_text(const Args *a, const char *name)
{
    const char *schedule = dpx_options_get(a->options, "lr-schedule");
    bool counts = strcmp(name, "total-steps") != 0;

    for (int i = 0; dpx_choice_at("lr-schedule", i).name; i++) {
        dpx_choice_info c = dpx_choice_at("lr-schedule", i);

        counts |= c.needs && !strncmp(schedule, c.name, strlen(c.name)) && strchr(":", schedule[strlen(c.name)]);
    }
    if (!strcmp(name, "input-shape") && !args_has(a, name))
        return "";
    return counts ? dpx_options_get(a->options, name) : "0";
}

/* The facts of the run, NAME: TEXT; NULL: out of memory. */
static json_t *checkpoint_note_describe(const RunFacts *f)
{
    static const char *const flags[] = { "no-shuffle", "drop-last", "group-by-length", "balanced" },
                             *const with_value[] = { "augment", "pad-multiple", "val-split" };
    json_t *j = json_object();
    bool good = j != NULL;

    for (int i = 0; i < dpx_option_count(); i++) {
        const dpx_option_info o = dpx_option_at(i);

        if (o.on_resume != DPX_RESUME_FREE && o.on_resume != DPX_RESUME_ELSEWHERE)
            good &= !json_object_set_new(j, o.name, json_of_text(option_text(f->args, o.name)));
    }
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        good &= !json_object_set_new(j, flags[i], json_of_text(args_has(f->args, flags[i]) ? FLAG_GIVEN : ""));
    if (*f->monitor.name) {
        const char *batches = args_value(f->args, "eval-batches");

        good &= !json_object_set_new(j, "eval-batches", json_of_text(batches ? batches : ""));
    }
    if (f->observes) {
        const char *every = args_value(f->args, "eval-every");

        good &= !json_object_set_new(j, "metric", json_of_text(dpx_options_get(f->args->options, "metric")));
        good &= !json_object_set_new(j, "eval-every", json_of_text(every ? every : ""));
    }
    for (size_t i = 0; i < sizeof with_value / sizeof *with_value; i++) {
        const char *value = args_value(f->args, with_value[i]),
                   *other = strcmp(with_value[i], "pad-multiple") ? "" : "1";

        good &= !json_object_set_new(j, with_value[i], json_of_text(value ? value : other));
    }
    good &= !json_object_set_new(j, "replicas", json_sprintf("%d", f->replicas));
    if (f->isa)
        good &= !json_object_set_new(j, "isa", json_of_text(f->isa));
    good &= !json_object_set_new(j, "data by digest", json_of_text(f->data));
    good &= !json_object_set_new(j, "fitted of digest", json_of_text(f->fitted));
    good &= !json_object_set_new(j, "parameters of digest", json_of_text(f->parameters));
    good &= !json_object_set_new(j, "criterion of digest", json_of_text(f->criterion));
    good &= !json_object_set_new(j, "preprocess of digest", json_of_text(f->preprocess));
    good &= !json_object_set_new(j, "augment-graph of digest", json_of_text(f->augment));
    good &= !json_object_set_new(j, "class-weights of digest", json_of_text(f->class_weights));
    if (!good) {
        json_decref(j);
        return NULL;
    }
    return j;
}

/* The best evaluation so far; there is one to write once an evaluation has counted. */
static bool add_best(json_t *j, const BestSoFar *b, const char *val)
{
    json_t *best = json_pack("{s:o, s:s, s:I, s:I, s:I, s:f, s:I}", "of", json_of_text(b->of), "val", val, "counted",
                             (json_int_t)b->counted, "since", (json_int_t)b->since, "step", (json_int_t)b->step,
                             "value", b->step < 0 ? 0. : b->value, "epoch", (json_int_t)b->epoch);

    return best && !json_object_set_new(j, "best", best);
}

char *note_write(const RunFacts *now, Position at)
{
    json_t *run = checkpoint_note_describe(now), *j;
    char *text;

    if (!run)
        return NULL;
    j = json_pack("{s:I, s:I, s:I, s:I, s:o}", "epoch", (json_int_t)at.epoch, "batch", (json_int_t)at.batch, "samples",
                  (json_int_t)now->samples, "batch_size", (json_int_t)batch_size(now), "run", run);
    if (j && (at.sum != 0 || at.weight != 0) &&
        (json_object_set_new(j, "loss_sum", json_real(at.sum)) ||
         json_object_set_new(j, "loss_weight", json_real(at.weight)))) {
        json_decref(j);
        return NULL;
    }
    if (j && *at.best.of && !add_best(j, &at.best, now->val)) {
        json_decref(j);
        return NULL;
    }
    text = j ? json_text(j, JSON_COMPACT) : NULL;
    json_decref(j);
    return text;
}

/* Equal texts, or equal numbers such as 0.01 and 1e-2. */
static bool same_value(const char *a, const char *b)
{
    double x, y;

    return !strcmp(a, b) || (text_to_float64(&x, a, strlen(a)) && text_to_float64(&y, b, strlen(b)) && x == y);
}

/* The effect of a change of the option on resume.  metric and eval-every are noted only where the learning rate follows
 * evaluations, eval-batches where there are some; pad-multiple changes no more than rounding where the model masks
 * padding.  The number of replicas changes more than bits where each replica has batch-norm statistics of its own. */
static dpx_on_resume on_resume(const RunFacts *now, const char *name)
{
    static const char *const told[] = { "metric", "eval-every", "eval-batches", "pad-multiple" };
    const char *bn = dpx_options_get(now->args->options, "bn");

    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (!strcmp(name, told[i]))
            return DPX_RESUME_TOLD;
    return !strcmp(name, "replicas") && !strcmp(bn, "local") ? DPX_RESUME_FIXED : option_of(name).on_resume;
}

/* Compares the facts of this run, `mine`, with those in the note, `had`.  Adds to `differ` those that must be equal, or
 * with `warns` warns of those that may differ.
 *
 * Names of tensors may be added behind the patterns of --train and --freeze, because changed rules may need them for
 * the same parameters; the trainer checks that they are the same (exec/api/stored_decisions.c). */
static void compare_facts(Problems *differ, const RunFacts *now, const json_t *mine, const json_t *had, bool warns,
                          dpx_log_fn *warn, void *user)
{
    json_t *value;
    const char *name;
    char line[512];

    json_object_foreach((json_t *)(uintptr_t)mine, name, value) {
        const char *was = json_string_value(json_object_get(had, name)), *is = json_string_value(value);
        const dpx_option_info o = option_of(name);
        bool added;

        if (!was && is && (!strcmp(is, FLAG_GIVEN) || o.repeats))
            was = ""; /* a note from before there was such a flag */
        if (!was || !is || same_value(was, is))
            continue;
        added = (!strcmp(name, "train") || !strcmp(name, "freeze")) && !strncmp(was, is, strlen(was)) &&
                !strpbrk(is + strlen(was), "*?[\\");
        if (warns != (added || on_resume(now, name) != DPX_RESUME_FIXED))
            continue;
        if (!warns)
            problems_add(differ, "--%s was '%s', is '%s'", name, was, is);
        snprintf(line, sizeof line, "--resume: %s%s was '%s', is '%s' from here on%s", o.derived ? "" : "--", name, was,
                 is, o.on_resume == DPX_RESUME_BITS ? ": the last bits depend on it" : "");
        if (warns && warn)
            warn(user, DPX_LOG_WARNING, line);
    }
}

/* What has changed so that earlier evaluations do not compare with later ones; false: nothing.  A note of an earlier
 * version does not say what --val was. */
static bool judges_anew(char line[512], const RunFacts *now, const json_t *best)
{
    const char *of = json_string_value(json_object_get(best, "of")),
               *val = json_string_value(json_object_get(best, "val"));
    char is[sizeof((BestSoFar *)NULL)->of];

    monitor_text(is, &now->monitor);
    if (strcmp(is, of) != 0)
        snprintf(line, 512, "--monitor was '%s', is '%s'", of, is);
    else if (val && strcmp(val, now->val) != 0)
        snprintf(line, 512, "--val has other samples");
    else
        return false;
    return true;
}

/* Reads the best evaluation so far, of a run that is in `epoch`; a note of an earlier version has none.  Another
 * monitor or other data begin anew, with a notice. */
static Status read_best(BestSoFar *out, const RunFacts *now, const json_t *j, int64_t step, int64_t epoch,
                        const char *file, dpx_log_fn *warn, void *user)
{
    const json_t *best = json_object_get(j, "best");
    const char *of = json_string_value(json_object_get(best, "of"));
    char changed[512], line[1024];

    *out = BEST_NONE;
    if (!best)
        return ST_OK;
    out->step = json_integer_value(json_object_get(best, "step"));
    out->epoch = json_integer_value(json_object_get(best, "epoch"));
    out->value = json_number_value(json_object_get(best, "value"));
    out->since = json_integer_value(json_object_get(best, "since"));
    out->counted = json_integer_value(json_object_get(best, "counted"));
    if (!of || !*of || strlen(of) >= sizeof out->of || out->step < -1 || out->step > step || out->epoch < 0 ||
        out->epoch - 1 > epoch || out->since < 0 || out->since > step + 1 || out->counted < out->step ||
        out->counted > step)
        return FAIL(E_IO, "%s: the note's best evaluation is none of %" PRId64 " steps", file, step);
    snprintf(out->of, sizeof out->of, "%s", of);
    if (!*now->monitor.name || !judges_anew(changed, now, best))
        return ST_OK;
    snprintf(line, sizeof line, "--resume: %s from here on: the best model is chosen among later evaluations", changed);
    if (warn)
        warn(user, DPX_LOG_WARNING, line);
    *out = BEST_NONE;
    return ST_OK;
}

/* Compares the note with this run and reads the position.  A step ends at most epochs_of_step epochs, so a position of
 * a later epoch is damaged; the batch may be that behind the last. */
static Status checkpoint_note_compare(Position *out, const RunFacts *now, const json_t *j, int64_t step,
                                      const char *file, dpx_log_fn *warn, void *user)
{
    const int64_t samples = json_integer_value(json_object_get(j, "samples")),
                  batch = json_integer_value(json_object_get(j, "batch_size"));
    const json_t *had = json_object_get(j, "run");
    json_t *mine = checkpoint_note_describe(now);
    Position at = { .epoch = json_integer_value(json_object_get(j, "epoch")),
                    .batch = json_integer_value(json_object_get(j, "batch")),
                    .sum = json_number_value(json_object_get(j, "loss_sum")),
                    .weight = json_number_value(json_object_get(j, "loss_weight")) };
    PROBLEMS(differ);
    Status st;

    if (!mine)
        return FAIL_NOMEM();
    if (samples != now->samples)
        problems_add(&differ, "--data had %" PRId64 " samples, has %" PRId64, samples, now->samples);
    if (batch != batch_size(now))
        problems_add(&differ, "--batch-size was '%" PRId64 "', is '%" PRId64 "'", batch, batch_size(now));
    compare_facts(&differ, now, mine, had, false, NULL, NULL);
    st = problems_fail(&differ, E_INVALID, "--resume: these cannot change within a run");
    if (!st && (at.epoch < 0 || at.epoch / now->epochs_of_step + (at.epoch % now->epochs_of_step > 0) > step))
        st = FAIL(E_IO, "%s: the note says epoch %" PRId64 ", which is more than the %" PRId64 " steps done have seen",
                  file, at.epoch, step);
    if (!st && (at.batch < 0 || at.batch > now->batches))
        st = FAIL(E_IO, "%s: the note says batch %" PRId64 ", expected 0 to the %" PRId64 " of an epoch", file,
                  at.batch, now->batches);
    if (!st)
        st = read_best(&at.best, now, j, step, at.epoch, file, warn, user);
    if (!st) {
        *out = at;
        compare_facts(&differ, now, mine, had, true, warn, user);
    }
    json_decref(mine);
    return st;
}

Status note_read(Position *out, const RunFacts *now, const char *note, int64_t step, const char *file, dpx_log_fn *warn,
                 void *user)
{
    json_error_t why = { 0 };
    json_t *j = json_loads(note, 0, &why);
    bool is_ours = json_is_integer(json_object_get(j, "epoch")) && json_is_integer(json_object_get(j, "batch")) &&
                   json_is_object(json_object_get(j, "run"));
    Status st;

    if (!j && json_error_code(&why) == json_error_unknown) /* not an error of the text */
        return FAIL_NOMEM();
    st = is_ours ? checkpoint_note_compare(out, now, j, step, file, warn, user)
                 : FAIL(E_IO, "%s: the note is not one of dpexec train", file);
    json_decref(j);
    return st;
}

/* ---- reading a note without a trainer ---- */

enum { MOST_MANIFEST = 64 << 20 /* bytes */ };

/* Reads a fact of the note in a manifest, which holds the note as JSON text within JSON.  The caller frees it; NULL:
 * there is none. */
static char *read_manifest(const char *path, const char *name)
{
    struct stat is;
    json_t *manifest =
        !stat(path, &is) && S_ISREG(is.st_mode) && is.st_size <= MOST_MANIFEST ? json_load_file(path, 0, NULL) : NULL;
    const char *note = json_string_value(json_object_get(manifest, "note"));
    json_t *j = note ? json_loads(note, 0, NULL) : NULL;
    const char *found = json_string_value(json_object_get(json_object_get(j, "run"), name));
    const json_t *count = json_object_get(j, name); /* "batch_size" */
    char *text = found ? strdup(found) : NULL;

    if (!found && json_is_integer(count) && asprintf(&text, "%lld", (long long)json_integer_value(count)) < 0)
        text = NULL;

    json_decref(j);
    json_decref(manifest);
    return text;
}

/* Reads it from any checkpoint, for all checkpoints of a run hold the same. */
char *note_find(const char *folder, const char *name)
{
    char path[4096], *text = NULL;
    DIR *d;

    snprintf(path, sizeof path, "%s/checkpoints", folder);
    if (!(d = opendir(path)))
        return NULL;
    for (const struct dirent *e; !text && (e = readdir(d));)
        if (strstr(e->d_name, "step-") &&
            snprintf(path, sizeof path, "%s/checkpoints/%s/manifest.json", folder, e->d_name) < (int)sizeof path)
            text = read_manifest(path, name);
    closedir(d);
    return text;
}

Status note_check_model(const Args *a)
{
    static const char *const names[] = { "input-value", "head" };
    Status st = ST_OK;

    for (size_t i = 0; i < sizeof names / sizeof *names && !st; i++) {
        const char *is = dpx_options_get(a->options, names[i]);
        char *was = args_has(a, "resume") ? note_find(args_value(a, "resume"), names[i]) : NULL;

        if (was && strcmp(was, is) != 0)
            st = FAIL(E_INVALID, "--resume: these cannot change within a run: --%s was '%s', is '%s'", names[i], was,
                      is);
        free(was);
    }
    return st;
}
