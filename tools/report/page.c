/* Writes the numbers of runs as JSON into a page whose script, report.js, draws them. */
#include "tools/report/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/json_writer.h"
#include "graph/base/numtext.h"
#include "graph/base/outfile.h"
#include "tools/feed/feed.h"
#include "tools/feed/model_metadata.h"
#include "tools/report_css.gen.h"
#include "tools/report_js.gen.h"

enum { MOST_ROWS = 400, MOST_LINES = 60, DIGITS = 6, MOST_CLASSES = 200 };

/* ---- values ---- */

/* Writes a number with as many digits as anyone reads in a picture. */
static void write_rounded(JsonWriter *w, const char *key, double x)
{
    char text[NUMBER_TEXT];
    double rounded = x;

    text_format(text, sizeof text, "%.*g", DIGITS, x);
    if (!isfinite(x) || !text_to_float64(&rounded, text, strlen(text)))
        rounded = (double)NAN;
    if (isfinite(rounded) && fabs(rounded) < 1e15 && rounded == floor(rounded))
        json_write_int(w, key, (int64_t)rounded);
    else
        json_write_float(w, key, rounded);
}

static void write_json(JsonWriter *w, const char *key, const json_t *x)
{
    const char *name;
    json_t *y;
    size_t i;

    if (json_is_object(x)) {
        json_open(w, key, '{');
        json_object_foreach((json_t *)x, name, y) /* which does not change it */
            write_json(w, name, y);
        json_close(w);
    } else if (json_is_array(x)) {
        json_open(w, key, '[');
        json_array_foreach(x, i, y)
            write_json(w, NULL, y);
        json_close(w);
    } else if (json_is_integer(x)) {
        json_write_int(w, key, json_integer_value(x));
    } else if (json_is_number(x)) {
        write_rounded(w, key, json_number_value(x));
    } else if (json_is_boolean(x)) {
        json_write_bool(w, key, json_is_true(x));
    } else {
        json_write_string(w, key, json_string_value(x));
    }
}

/* A file of the run's folder as JSON; NULL: there is none. */
static json_t *load_json(const History *h, const char *name)
{
    char path[4200];

    snprintf(path, sizeof path, "%s/%s", h->folder, name);
    return json_load_file(path, 0, NULL);
}

/* ---- parts of a run ---- */

static void write_series(JsonWriter *w, const History *h)
{
    json_open(w, "series", '{');
    for (size_t i = 0; i < h->n_series; i++) {
        json_open(w, h->series[i]->name, '[');
        for (const Bin *b = h->series[i]->bin; b < h->series[i]->bin + h->series[i]->n; b++) {
            json_open(w, NULL, '[');
            json_write_int(w, NULL, b->min_step);
            write_rounded(w, NULL, b->min);
            json_write_int(w, NULL, b->max_step);
            write_rounded(w, NULL, b->max);
            json_close(w);
        }
        json_close(w);
    }
    json_close(w);
}

/* Writes rows that lie evenly, and the one of the best step. */
static void write_rows(JsonWriter *w, const History *h, int64_t best)
{
    const size_t n = json_array_size(h->rows), each = n / MOST_ROWS + 1;
    json_t *row;
    size_t i;

    json_open(w, "rows", '[');
    json_array_foreach(h->rows, i, row)
        if (!((n - 1 - i) % each) || json_integer_value(json_object_get(row, "step")) == best)
            write_json(w, NULL, row);
    json_close(w);
}

static bool measures(const History *h, const char *metric)
{
    char key[128];

    snprintf(key, sizeof key, "eval_%s", metric);
    return history_find(h, key) != NULL;
}

/* The metric that decides which model is the best: as --monitor says, else the first that is a number, else "loss". */
static void find_monitor(char out[64], const History *h, const json_t *flags)
{
    const json_t *given = json_object_get(flags, "monitor"), *metrics = json_object_get(flags, "metric"), *x;
    size_t i;

    snprintf(out, 64, "%s", json_is_string(given) ? json_string_value(given) : "");
    out[strcspn(out, ":")] = '\0';
    if (*out)
        return;
    snprintf(out, 64, "loss");
    for (i = 0; i < (json_is_array(metrics) ? json_array_size(metrics) : json_is_string(metrics)); i++) {
        char name[64];

        x = json_is_array(metrics) ? json_array_get(metrics, i) : metrics;
        snprintf(name, sizeof name, "%s", json_is_string(x) ? json_string_value(x) : "");
        name[strcspn(name, ":")] = '\0';
        if (measures(h, name)) {
            memcpy(out, name, sizeof name);
            return;
        }
    }
}

/* Writes a list of lines of log.txt: those before the first epoch's row, or all warnings. */
static void write_log(JsonWriter *w, const char *key, const History *h, bool warnings)
{
    char path[4200], *line = NULL;
    size_t room = 0;
    ssize_t n;
    int written = 0;
    FILE *f;

    json_open(w, key, '[');
    snprintf(path, sizeof path, "%s/log.txt", h->folder);
    f = fopen(path, "r");
    while (f && written < MOST_LINES && (n = getline(&line, &room, f)) > 0) {
        const bool is_warning = strstr(line, "warning:") || !strncmp(line, "dpexec:", 7);

        line[strcspn(line, "\n")] = '\0';
        if (!warnings && (!strncmp(line, "epoch ", 6) || !strncmp(line, "step ", 5)))
            break;
        if (is_warning == warnings) {
            json_write_string(w, NULL, line);
            written++;
        }
    }
    if (f)
        fclose(f);
    free(line);
    json_close(w);
}

/* Writes the names of classes: those that the run fitted on its data, else those of its newest table. */
static Status write_classes(JsonWriter *w, const History *h)
{
    const json_t *list = json_object_get(h->tables, "eval_per-class"), *names, *x;
    json_t *fitted;
    size_t i;

    TRY(feed_read_fitted(&fitted, h->folder, true));
    names = metadata_class_names(fitted);
    json_open(w, "classes", '[');
    if (names && json_array_size(names) <= MOST_CLASSES) {
        json_array_foreach(names, i, x)
            json_write_string(w, NULL, json_is_string(x) ? json_string_value(x) : "");
    } else if (!names && json_array_size(list) <= MOST_CLASSES) {
        json_array_foreach(list, i, x)
            json_write_string(w, NULL, json_string_value(json_object_get(x, "class")));
    }
    json_close(w);
    json_decref(fitted);
    return ST_OK;
}

/* Tables of more classes than a page can show are left out. */
static void write_tables(JsonWriter *w, const History *h)
{
    const char *key;
    json_t *x;

    json_open(w, "tables", '{');
    json_object_foreach(h->tables, key, x)
        if (json_array_size(x) <= MOST_CLASSES)
            write_json(w, key, x);
    json_close(w);
}

/* Writes what the newest evaluation got wrong, unless the run was resumed from before it. */
static void write_evaluation(JsonWriter *w, const History *h)
{
    json_t *e = load_json(h, "evaluation.json");

    if (json_is_object(e) && json_integer_value(json_object_get(e, "step")) <= h->step)
        write_json(w, "evaluation", e);
    json_decref(e);
}

static Status write_run(JsonWriter *w, const History *h)
{
    json_t *args = load_json(h, "args.json"), *best = load_json(h, "checkpoints/best"),
           *memory = load_json(h, "memory.json"), *find = load_json(h, "lr_find.json");
    const json_t *flags = json_object_get(args, "flags"), *step = json_object_get(best, "step");
    const int64_t best_step = json_is_integer(step) ? json_integer_value(step) : -1;
    char monitor[64];
    Status st;

    find_monitor(monitor, h, flags);
    json_open(w, NULL, '{');
    json_write_string(w, "name", h->folder);
    json_write_int(w, "step", h->step);
    json_write_int(w, "epoch", h->epoch);
    write_rounded(w, "seconds", h->seconds);
    json_write_int(w, "best", best_step);
    json_write_string(w, "monitor", monitor);
    write_json(w, "positional", json_object_get(args, "arguments"));
    write_json(w, "arguments", flags);
    write_json(w, "environment", json_object_get(args, "environment"));
    write_log(w, "summary", h, false);
    write_log(w, "warnings", h, true);
    st = write_classes(w, h);
    write_series(w, h);
    write_rows(w, h, best_step);
    write_tables(w, h);
    write_json(w, "texts", h->texts);
    write_evaluation(w, h);
    write_json(w, "memory", memory);
    write_json(w, "find", find);
    json_close(w);
    json_decref(args);
    json_decref(best);
    json_decref(memory);
    json_decref(find);
    return st;
}

Status page_write(const char *path, History *const *runs, int n)
{
    JsonWriter w = { .html = true, .compact = true };
    OutFile *file;
    FILE *f;
    Status st = ST_OK;

    TRY(outfile_open(&file, path));
    f = w.to = outfile_stream(file);
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width\">\n<title>dpexec report</title>\n<style>\n",
          f);
    fwrite(report_css, 1, sizeof report_css, f);
    fputs("</style>\n<body>\n<script type=\"application/json\" id=\"runs\">\n", f);
    json_open(&w, NULL, '{');
    json_open(&w, "runs", '[');
    for (int i = 0; i < n && !st; i++)
        st = write_run(&w, runs[i]);
    json_close(&w);
    json_close(&w);
    fputs("</script>\n<script>\n", f);
    fwrite(report_js, 1, sizeof report_js, f);
    fputs("</script>\n</html>\n", f);
    return outfile_close(file, st);
}
