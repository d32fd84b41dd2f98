/* Command lines made of stored flags.  A run's args.json has them as {"flags": {NAME: value}}; one of an earlier
 * version as {"given": [[NAME, value], ...]}. */
#include "tools/stored_args.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "graph/base/heap_array.h"
#include "graph/base/numtext.h"
#include "tools/commands.h"
#include "tools/feed/export_preprocess.h"
#include "tools/feed/feed.h"
#include "tools/feed/model_metadata.h"

enum { MOST_BYTES = 1 << 20 /* of a file of flags */ };

void arg_list_free(ArgList *l)
{
    for (int i = 0; i < l->n; i++)
        free(l->arg[i]);
    free(l->arg);
    if (l->temporary)
        unlink(l->temporary);
    free(l->temporary);
    *l = (ArgList){ 0 };
}

/* Adds "--NAME=VALUE", "--NAME" for value NULL, or with name NULL the value alone. */
static Status add(ArgList *l, const char *name, const char *value)
{
    const size_t n = (name ? strlen(name) : 0) + (value ? strlen(value) : 0) + 4;
    char **more = heap_reserve(l->arg, sizeof *more, (size_t)l->n + 1, &l->room), *text = more ? malloc(n) : NULL;

    if (more)
        l->arg = more;
    if (!text)
        return FAIL_NOMEM();
    snprintf(text, n, "%s%s%s%s",
             !name              ? ""
             : strlen(name) > 1 ? "--"
                                : "-",
             name ? name : "", name && value ? "=" : "", value ? value : "");
    l->arg[l->n++] = text;
    return ST_OK;
}

/* The bytes of a text that json_of_text wrote: \\ is a backslash and \xNN a byte.  The caller frees it. */
static char *plain_text(const char *s)
{
    char *out = malloc(strlen(s) + 1), *to = out;
    unsigned byte;

    for (; out && *s; s++)
        if (s[0] == '\\' && s[1] == '\\') {
            *to++ = *s++;
        } else if (s[0] == '\\' && s[1] == 'x' && strspn(s + 2, "0123456789abcdef") >= 2 &&
                   sscanf(s + 2, "%2x", &byte) == 1 && byte) {
            *to++ = (char)byte;
            s += 3;
        } else {
            *to++ = *s;
        }
    if (out)
        *to = '\0';
    return out;
}

/* Reads a JSON object of at most 1 MiB; the caller drops it. */
static Status read_object(json_t **out, const char *path)
{
    json_error_t why;
    struct stat s;

    if (stat(path, &s))
        return FAIL(E_IO, "%s: cannot read: %s", path, strerror(errno));
    if (s.st_size > MOST_BYTES)
        return FAIL(E_IO, "%s: %lld bytes, expected at most %d of flags", path, (long long)s.st_size, MOST_BYTES);
    if (!(*out = json_load_file(path, JSON_REJECT_DUPLICATES, &why)))
        return FAIL(E_IO, "%s: line %d: %s", path, why.line, why.text);
    if (json_is_object(*out))
        return ST_OK;
    json_decref(*out);
    return FAIL(E_IO, "%s: expected {\"NAME\": value, ...}", path);
}

/* Makes {NAME: [value, ...]} of an earlier version's [[NAME, value], ...], as root["flags"]. */
static Status gather_given(json_t *root, const char *path)
{
    json_t *flags = json_object(), *pair;
    bool good = flags != NULL;
    size_t i;

    json_array_foreach(json_object_get(root, "given"), i, pair) {
        const char *name = json_string_value(json_array_get(pair, 0));
        json_t *value = json_array_get(pair, 1);

        if (!good || !name || !json_is_string(value))
            continue;
        if (!json_object_get(flags, name))
            good = !json_object_set_new(flags, name, json_array());
        good = good && !json_array_append(json_object_get(flags, name), value);
    }
    if (good && !json_object_set_new(root, "flags", flags))
        return ST_OK;
    return FAIL(E_NOMEM, "%s: out of memory", path);
}

/* Adds a flag with a value of JSON. */
static Status add_value(ArgList *l, Problems *wrong, const char *name, bool takes_value, const json_t *v)
{
    char number[NUMBER_TEXT], *text;
    Status st;

    if (!takes_value && (json_is_true(v) || (json_is_string(v) && !*json_string_value(v))))
        return add(l, name, NULL);
    if (json_is_null(v) || (!takes_value && json_is_false(v)))
        return ST_OK;
    if (json_is_boolean(v))
        return add(l, name, json_is_true(v) ? "true" : "false");
    if (json_is_integer(v))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(v));
    else if (json_is_real(v))
        text_float64(number, json_real_value(v));
    if (json_is_number(v))
        return add(l, name, number);
    if (!json_is_string(v)) {
        problems_add(wrong, "%s: expected a text, a number, true, false or a list of them", name);
        return ST_OK;
    }
    if (!(text = plain_text(json_string_value(v))))
        return FAIL_NOMEM();
    st = add(l, name, text);
    free(text);
    return st;
}

static bool is_listed(const char *name, const char *const *list)
{
    for (; list && *list; list++)
        if (!strcmp(name, *list))
            return true;
    return false;
}

/* Adds the flags of the file, without those that `wins` gives; `only` (NULL: all) lists those that are taken, `never`
 * those that are not.  `of_run`: the file is a run's args.json, not one that a user wrote. */
static Status add_stored(ArgList *l, json_t *flags, bool of_run, const char *path, const Command *c, const Args *wins,
                         const char *const *only, const char *const *never)
{
    PROBLEMS(wrong);
    const char *name;
    json_t *v, *one;
    Status st = ST_OK;
    size_t i;

    json_object_foreach(flags, name, v) {
        bool takes_value;

        if (st || is_listed(name, never) || (only && !is_listed(name, only)) || (wins && args_has(wins, name)))
            continue;
        if (!args_known(c, name, &takes_value)) {
            problems_add(&wrong, "there is no option '%s'", name);
        } else if (!json_is_array(v)) {
            st = add_value(l, &wrong, name, takes_value, v);
        } else if (of_run && json_array_size(v) && !args_is_list(c, name)) { /* earlier versions took the last one */
            st = add_value(l, &wrong, name, takes_value, json_array_get(v, json_array_size(v) - 1));
        } else {
            json_array_foreach(v, i, one)
                st = st ? st : add_value(l, &wrong, name, takes_value, one);
        }
    }
    TRY(problems_fail(&wrong, E_INVALID, "%s", path));
    return st;
}

/* Adds what was given on the command line. */
static Status add_given(ArgList *l, const Args *a, const char *but)
{
    for (int i = 0; i < a->n_given; i++) {
        bool takes_value = false;

        if (!*a->given[i].name || (but && !strcmp(a->given[i].name, but)))
            continue;
        (void)args_known(a->command, a->given[i].name, &takes_value);
        TRY(add(l, a->given[i].name, takes_value || *a->given[i].value ? a->given[i].value : NULL));
    }
    return a->debug ? add(l, "debug", NULL) : ST_OK;
}

/* Reads the args.json of a run, and adds the model that it trained. */
static Status read_run(json_t **root, ArgList *l, const char *run, char path[4096])
{
    const char *model;
    char *text;
    Status st;

    snprintf(path, 4096, "%s/args.json", run);
    if (access(path, F_OK))
        return FAIL(E_IO, "%s: there is no run in this folder: it has no args.json", run);
    TRY(read_object(root, path));
    st = json_object_get(*root, "flags") ? ST_OK : gather_given(*root, path);
    model = json_string_value(json_array_get(json_object_get(*root, "arguments"), 0));
    text = model ? plain_text(model) : NULL;
    if (!st)
        st = text ? add(l, NULL, text) : FAIL(E_IO, "%s: it names no model", path);
    free(text);
    if (st)
        json_decref(*root);
    return st;
}

Status expand_config(ArgList *out, const Args *a)
{
    static const char *const never[] = { "resume", "config", NULL };
    const char *path = args_value(a, "config");
    json_t *root, *flags;
    Status st = ST_OK;

    *out = (ArgList){ 0 };
    if (!path)
        return ST_OK;
    TRY(read_object(&root, path));
    if (!json_object_get(root, "flags") && json_is_array(json_object_get(root, "given")))
        st = gather_given(root, path);
    flags = json_object_get(root, "flags");
    for (int i = 0; i < a->n_positional && !st; i++)
        st = add(out, NULL, a->positional[i]);
    if (!st)
        st = add_stored(out, flags ? flags : root, flags != NULL, path, a->command, a, NULL, flags ? never : NULL);
    json_decref(root);
    return st ? st : add_given(out, a, "config");
}

/* Flags that belong to one start of a run, not to the run. */
static const char *const of_one_start[] = { "resume", "out",          "config", "world",   "rank", "rendezvous",
                                            "mpi",    "world-secret", "trace",  "profile", NULL };

Status expand_resume(ArgList *out, const Args *a)
{
    const char *run = a->positional[0];
    char path[4096];
    json_t *root;
    Status st;

    *out = (ArgList){ 0 };
    if (args_has(a, "resume") || args_has(a, "config"))
        return FAIL(E_INVALID, "dpexec resume RUN takes its flags from the run: leave out --resume and --config");
    TRY(read_run(&root, out, run, path));
    st = add_stored(out, json_object_get(root, "flags"), true, path, a->command, a, NULL, of_one_start);
    json_decref(root);
    if (!st)
        st = add(out, "resume", run);
    return st ? st : add_given(out, a, NULL);
}

/* ---- the model of a run ---- */

/* Gives the trainer's options the values that the run had in force, but not its devices. */
static Status set_options(const Args *a, const json_t *root)
{
    static const char *const machine[] = { "devices", "replicas",   "split", "links", "shard", "tune",
                                           "threads", "no-capture", "spin",  "isa",   NULL };

    for (int i = 0; i < dpx_option_count(); i++) {
        const dpx_option_info o = dpx_option_at(i);
        const char *stored = json_string_value(json_object_get(json_object_get(root, "options"), o.name));
        char *text;
        Status st = ST_OK;

        if (o.repeats || !stored || !*stored || is_listed(o.name, machine))
            continue;
        if (!(text = plain_text(stored)))
            return FAIL_NOMEM();
        if (strcmp(text, dpx_options_get(a->options, o.name)) != 0)
            st = (Status)dpx_options_set(a->options, o.name, text);
        free(text);
        TRY(st);
    }
    return ST_OK;
}

/* The step that `at` names; -1: the newest. */
static Status read_step(int64_t *step, const char *run, const char *at)
{
    char path[4096], *end;
    json_t *best;

    *step = -1;
    if (!strcmp(at, "last"))
        return ST_OK;
    if (strcmp(at, "best") != 0) {
        *step = strtoll(at, &end, 10);
        return *at >= '0' && *at <= '9' && !*end && *step >= 0
                   ? ST_OK
                   : FAIL(E_INVALID, "--at: expected best, last or a step, found '%s'", at);
    }
    snprintf(path, sizeof path, "%s/checkpoints/best", run);
    if (access(path, F_OK))
        return FAIL(E_IO, "%s: there is no best model: the run had no --val, or no evaluation yet", run);
    TRY(status_prefix(read_object(&best, path), "--at best"));
    *step = json_is_integer(json_object_get(best, "step")) ? json_integer_value(json_object_get(best, "step")) : -1;
    json_decref(best);
    return *step >= 0 ? ST_OK : FAIL(E_IO, "%s: it names no step", path);
}

/* Exports the checkpoint of a step, -1: the newest; `preprocess` (NULL: none) is joined in front. */
static Status export_step(const Args *a, const dpx_model *model, const char *run, int64_t step, const char *preprocess,
                          const char *to)
{
    dpx_trainer *t = NULL;
    char path[4096];
    Status st = preprocess ? (Status)dpx_options_set(a->options, "export-preprocess", preprocess) : ST_OK;

    if (!st)
        st = (Status)dpx_trainer_create(&t, model, a->options, NULL, NULL);
    snprintf(path, sizeof path, "%s/checkpoints", run);
    if (!st)
        st = (Status)(step < 0 ? dpx_trainer_resume(t, path, NULL) : dpx_trainer_resume_step(t, path, step, NULL));
    if (!st)
        st = (Status)dpx_trainer_export(t, to);
    dpx_trainer_free(t);
    return st;
}

static Status export_with(const Args *a, dpx_model **model, const char *run, int64_t step, bool joined, const char *to)
{
    char path[PREPROCESS_PATH];
    bool temporary = false;
    json_t *fitted;
    Status st;

    TRY((Status)dpx_model_load_within(model, a->positional[0], a->options));
    TRY(feed_read_fitted(&fitted, run, false));
    st = metadata_write(*model, fitted, a, joined || *dpx_options_get(a->options, "export-preprocess"));
    if (!st && joined)
        st = export_preprocess_find(path, &temporary, *model, fitted, run);
    json_decref(fitted);
    if (!st)
        st = export_step(a, *model, run, step, joined ? path : NULL, to);
    if (temporary)
        unlink(path);
    return st;
}

Status export_checkpoint(const char *run, const char *at, bool joined, const char *to)
{
    static const char *const never[] = { "resume",        "out",   "config",  "world", "rank",
                                         "rendezvous",    "mpi",   "devices", "split", "replicas",
                                         "world-secret",  "trace", "profile", "shard", "links",
                                         "class-weights", NULL };
    ArgList list = { 0 };
    Args a = { 0 };
    dpx_model *model = NULL;
    json_t *root;
    int64_t step;
    char path[4096];
    Status st;

    TRY(read_step(&step, run, at));
    TRY(read_run(&root, &list, run, path));
    st = add_stored(&list, json_object_get(root, "flags"), true, path, &command_train, NULL, NULL, never);
    if (!st)
        st = args_parse(&a, &command_train, list.n, list.arg);
    if (!st)
        st = set_options(&a, root);
    if (!st)
        st = export_with(&a, &model, run, step, joined, to);
    dpx_model_free(model);
    args_free(&a);
    json_decref(root);
    arg_list_free(&list);
    return st;
}

/* Finds or writes the model file of a run that `at` (NULL: the best, if there is one) names. */
static Status find_model(ArgList *l, const char *run, const char *at)
{
    char path[4096];
    int fd;

    for (int i = 0; i < 2 && !(at && strcmp(at, "best")); i++) {
        snprintf(path, sizeof path, "%s/%s", run, i ? "model.onnx" : "best.onnx");
        if (!access(path, F_OK))
            return add(l, NULL, path);
        if (at)
            return FAIL(E_IO, "%s: there is no best model: the run had no --val, or no evaluation yet", path);
    }
    snprintf(path, sizeof path, "%s/.export-XXXXXX.onnx", run); /* beside what the run fitted on its data */
    if ((fd = mkstemps(path, strlen(".onnx"))) < 0)
        return FAIL(E_IO, "%s: cannot create: %s", path, strerror(errno));
    close(fd);
    if (!(l->temporary = strdup(path)))
        return FAIL_NOMEM();
    TRY(export_checkpoint(run, at ? at : "last", false, path));
    return add(l, NULL, path);
}

Status expand_run(ArgList *out, const Args *a)
{
    static const char *const of_run[] = { "preprocess", "dtype", NULL }, *const of_eval[] = {
        "preprocess", "dtype",        "loss",        "metric",        "target",       "logits",
        "class-axis", "ignore-index", "soft-labels", "class-weights", "loss-weight",  "label-smoothing",
        "criterion",  "mean",         "std",         "padding",       "pad-multiple", "lengths",
        "mask",       "padding-mask", "batch-input", "batch-size",    "map",          NULL
    };
    const char *run = a->positional[0], *at = args_value(a, "at");
    char path[4096];
    struct stat s;
    json_t *root;
    ArgList model = { 0 };
    Status st;

    *out = (ArgList){ 0 };
    if (stat(run, &s) || !S_ISDIR(s.st_mode))
        return at ? FAIL(E_INVALID, "--at is for the folder of a run, found %s", run) : ST_OK;
    TRY(find_model(out, run, at));
    for (int i = 1; i < a->n_positional; i++) /* a source, of dpexec run */
        TRY(add(out, NULL, a->positional[i]));
    st = read_run(&root, &model, run, path);
    arg_list_free(&model);
    TRY(st);
    st = add_stored(out, json_object_get(root, "flags"), true, path, a->command, a,
                    strcmp(a->command->name, "eval") ? of_run : of_eval, NULL);
    json_decref(root);
    return st ? st : add_given(out, a, "at");
}
