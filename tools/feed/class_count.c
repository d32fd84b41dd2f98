/* How many classes the model has scores for, and whether the data name as many. */
#include <stdlib.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "tools/feed/feed.h"

int64_t feed_scores(const Feed *f, const Args *a, const char **output)
{
    const char *logits = dpx_options_get(a->options, "logits"), *head = dpx_options_get(a->options, "head"),
               *eq = strrchr(head, '=');
    dpx_info y;

    for (int i = 0; i < dpx_model_count(f->model, DPX_OUTPUT); i++) {
        if (dpx_model_info(f->model, DPX_OUTPUT, i, &y) || (*logits && strcmp(y.name, logits) != 0))
            continue;
        if (output)
            *output = y.name;
        if (*head && y.rank <= 2)
            return strtoll(eq ? eq + 1 : head, NULL, 10);
        return y.rank == 2 && y.dim[1] > 0 ? y.dim[1] : 0;
    }
    return 0;
}

/* Whether the classes have no names but their numbers, as a table's labels 0, 1, 2. */
static bool classes_are_numbers(const Dataset *d)
{
    int64_t v;

    for (int64_t c = 0; d->class_name && c < d->classes; c++)
        if (!text_to_int64(&v, d->class_name[c]) || v != c)
            return false;
    return true;
}

/* Notes that the labels of training data are fewer than the scores. */
static void note_labels(const Feed *f, const Args *a, Progress *log)
{
    const char *output = NULL;
    const int64_t scores = feed_scores(f, a, &output);
    int64_t *count, n;

    if (!scores || !classes_are_numbers(f->data) || feed_count_classes(&count, &n, f, a) || !count)
        return;
    free(count);
    if (n > 1 && n < scores)
        progress_line(log,
                      "--data %s has labels 0 to %lld, but output '%s' of the model has scores for %lld classes: "
                      "--head %lld replaces its last layer",
                      f->source, (long long)n - 1, output, (long long)scores, (long long)n);
}

/* Checks the labels of scores [N,C] with an open N, in one process; else a step finds them, and names the rank.  Of
 * scores with fixed sizes, axis 1 may be the batch's.  One score is left to the loss, which says what to use. */
static Status check_numbers(const Feed *f, const Args *a)
{
    const bool classes = dpx_target(a->options) == DPX_TARGET_CLASSES;
    const char *output = NULL;
    const int64_t scores = classes && !f->world ? feed_scores(f, a, &output) : 0;
    dpx_info y;

    for (int i = 0; scores > 1 && i < dpx_model_count(f->model, DPX_OUTPUT); i++)
        if (!dpx_model_info(f->model, DPX_OUTPUT, i, &y) && !strcmp(y.name, output))
            return y.dim[0] < 0 ? feed_check_labels(f, a, scores) : ST_OK;
    return ST_OK;
}

Status feed_check_classes(const Feed *f, const Args *a, Progress *log)
{
    const char *output = NULL;
    const int64_t named = f->data->class_name && f->target ? f->data->classes : 0,
                  scores = named && dpx_target(a->options) == DPX_TARGET_CLASSES ? feed_scores(f, a, &output) : 0;
    const bool trains = !strcmp(f->flag, "data") && !strcmp(a->command->name, "train");
    char hint[96] = "";

    if (trains && log && !log->quiet && !args_has(a, "resume") && dpx_target(a->options) == DPX_TARGET_CLASSES)
        note_labels(f, a, log);
    if (!named)
        return check_numbers(f, a);
    if (!scores || named == scores)
        return ST_OK;
    if (trains)
        snprintf(hint, sizeof hint, ": --head %lld replaces its last layer", (long long)named);
    if (named > scores)
        return FAIL(E_INVALID, "--%s %s has %lld classes, but output '%s' of the model has %lld%s", f->flag, f->source,
                    (long long)named, output, (long long)scores, hint);
    if (log && trains)
        progress_line(log, "dpexec: warning: --%s %s has %lld classes, but output '%s' of the model has %lld%s",
                      f->flag, f->source, (long long)named, output, (long long)scores, hint);
    return ST_OK;
}
