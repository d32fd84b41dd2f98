/* Reads metrics.jsonl line by line.  A series has at most MOST_BINS bins: when they are full, each two become one, so
 * that any number of steps needs the same memory and keeps its extremes. */
#include "tools/report/history.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/heap_array.h"
#include "graph/base/numtext.h"
#include "graph/base/outfile.h"

/* ---- series ---- */

const Series *history_find(const History *h, const char *name)
{
    for (size_t i = 0; i < h->n_series; i++)
        if (!strcmp(h->series[i]->name, name))
            return h->series[i];
    return NULL;
}

static Series *add_series(History *h, const char *name)
{
    Series **list = heap_reserve(h->series, sizeof *list, h->n_series + 1, &h->series_room), *s;

    if (!list)
        return NULL;
    h->series = list;
    if (!(s = calloc(1, sizeof *s)) || !(s->name = strdup(name))) {
        free(s);
        return NULL;
    }
    s->per_bin = 1;
    return h->series[h->n_series++] = s;
}

static void widen(Bin *to, const Bin *by)
{
    if (by->min < to->min) {
        to->min = by->min;
        to->min_step = by->min_step;
    }
    if (by->max > to->max) {
        to->max = by->max;
        to->max_step = by->max_step;
    }
}

static Status add_point(History *h, const char *name, int64_t step, double x)
{
    const Bin point = { step, step, x, x };
    Series *s = (Series *)history_find(h, name);

    if (h->take)
        TRY(h->take(h->user, step, name, x));
    if (!isfinite(x))
        return ST_OK;
    if (!s && !(s = add_series(h, name)))
        return FAIL_NOMEM();
    if (s->n && s->in_last < s->per_bin) {
        widen(&s->bin[s->n - 1], &point);
        s->in_last++;
        return ST_OK;
    }
    if (s->n == MOST_BINS) {
        for (int i = 0; i < MOST_BINS / 2; i++) {
            s->bin[i] = s->bin[2 * i];
            widen(&s->bin[i], &s->bin[2 * i + 1]);
        }
        s->n /= 2;
        s->per_bin *= 2;
    }
    s->bin[s->n++] = point;
    s->in_last = 1;
    return ST_OK;
}

/* ---- lines ---- */

static double number_of(const json_t *line, const char *key)
{
    const json_t *x = json_object_get(line, key);

    return json_is_number(x) ? json_number_value(x) : (double)NAN;
}

static bool is_evaluation(const json_t *line) { return json_object_get(line, "eval_loss") != NULL; }

/* The row of this step, which is made if there is none. */
static json_t *row_of(History *h, int64_t step)
{
    json_t *row = json_array_get(h->rows, json_array_size(h->rows) - 1);

    if (row && json_integer_value(json_object_get(row, "step")) == step)
        return row;
    row = json_pack("{s:I, s:I, s:f}", "step", (json_int_t)step, "epoch", (json_int_t)h->epoch, "seconds",
                    round(h->seconds * 1e3) / 1e3);
    if (!row || json_array_append_new(h->rows, row))
        return NULL;
    if (h->row_steps)
        json_object_set_new(row, "loss", json_real(h->loss / (double)h->row_steps));
    if (h->row_seconds > 0)
        json_object_set_new(row, "samples_per_second", json_real(h->samples / h->row_seconds));
    if (h->steps_read && isfinite(h->lr))
        json_object_set_new(row, "lr", json_real(h->lr));
    h->loss = h->samples = h->row_seconds = 0;
    h->row_steps = 0;
    return row;
}

/* Whether the key is of the step alone, and in no row. */
static bool is_of_step(const char *key)
{
    static const char *const keys[] = { "step", "epoch", "samples", "ms", "loss", "train_samples", NULL };

    for (int i = 0; keys[i]; i++)
        if (!strcmp(keys[i], key))
            return true;
    return false;
}

/* Whether the key is the error bound of another figure of the line, as eval_auc_bound of eval_auc, and no figure
 * itself. */
static bool is_bound(const json_t *line, const char *key)
{
    const size_t n = strlen(key), end = strlen("_bound");
    char of[128];

    return n > end && n < sizeof of && !strcmp(key + n - end, "_bound") &&
           snprintf(of, sizeof of, "%.*s", (int)(n - end), key) > 0 && json_object_get(line, of);
}

/* Takes the numbers and tables of a line, which are those of `row`, too, unless that is NULL. */
static Status take_members(History *h, json_t *line, json_t *row)
{
    const char *key, *name;
    json_t *x, *y;

    json_object_foreach(line, key, x) {
        if (json_is_number(x) && (!is_of_step(key) || !strcmp(key, "loss")) && !is_bound(line, key))
            TRY(add_point(h, key, h->step, json_number_value(x)));
        if (row && json_is_number(x) && !is_of_step(key) && json_object_set(row, key, x))
            return FAIL_NOMEM();
        if (json_is_array(x) && (!strncmp(key, "train_", 6) || !strncmp(key, "eval_", 5)) &&
            json_object_set(h->tables, key, x))
            return FAIL_NOMEM();
        if (json_is_object(x) && (!strcmp(key, "log") || !strcmp(key, "eval_log")))
            json_object_foreach(x, name, y)
                if (json_is_number(y))
                    TRY(add_point(h, name, h->step, json_number_value(y)));
    }
    return ST_OK;
}

static Status take_line(History *h, json_t *line)
{
    const json_t *step = json_object_get(line, "step");
    const double ms = number_of(line, "ms"), samples = number_of(line, "samples"), loss = number_of(line, "loss");
    const bool evaluated = is_evaluation(line), ends = json_object_get(line, "read") != NULL;
    json_t *row = NULL;

    if (!json_is_integer(step))
        return ST_OK;
    if (json_object_get(line, "sample")) {
        if (json_array_size(h->texts) == MOST_TEXTS)
            json_array_remove(h->texts, 0);
        return json_array_append(h->texts, line) ? FAIL_NOMEM() : ST_OK;
    }
    h->step = json_integer_value(step);
    if (!evaluated) {
        h->epoch = json_integer_value(json_object_get(line, "epoch"));
        h->steps_read++;
        h->row_steps++;
        h->loss += loss;
        h->lr = number_of(line, "lr");
        if (isfinite(ms) && isfinite(samples)) {
            h->seconds += ms * 1e-3;
            h->row_seconds += ms * 1e-3;
            h->samples += samples;
        }
        if (ms > 0)
            TRY(add_point(h, "samples_per_second", h->step, samples / ms * 1e3));
    }
    if ((evaluated || ends) && !(row = row_of(h, h->step)))
        return FAIL_NOMEM();
    return take_members(h, line, row);
}

/* ---- files ---- */

static void forget(History *h)
{
    for (size_t i = 0; i < h->n_series; i++) {
        free(h->series[i]->name);
        free(h->series[i]);
    }
    h->n_series = 0;
    json_array_clear(h->rows);
    json_object_clear(h->tables);
    json_array_clear(h->texts);
    h->offset = 0;
    h->step = h->epoch = h->steps_read = h->row_steps = 0;
    h->seconds = h->loss = h->samples = h->row_seconds = 0;
}

Status history_follow(History *h)
{
    char path[4200], *line = NULL;
    size_t room = 0;
    ssize_t n;
    Status st = ST_OK;
    FILE *f;

    snprintf(path, sizeof path, "%s/metrics.jsonl", h->folder);
    if (!(f = fopen(path, "r")))
        return FAIL(E_IO, "%s: cannot read: %s", path, strerror(errno));
    if (fseek(f, 0, SEEK_END) || ftell(f) < h->offset)
        forget(h);
    if (fseek(f, h->offset, SEEK_SET))
        st = FAIL(E_IO, "%s: cannot read: %s", path, strerror(errno));
    while (!st && (n = getline(&line, &room, f)) > 0 && line[n - 1] == '\n') { /* else it is still being written */
        json_t *j = json_loadb(line, (size_t)n, 0, NULL);

        if (!json_is_object(j))
            st = FAIL(E_IO, "%s: the line at byte %ld is no JSON object", path, h->offset);
        else
            st = take_line(h, j);
        json_decref(j);
        h->offset += n;
    }
    free(line);
    fclose(f);
    return st;
}

Status history_open(History **out, const char *folder, HistorySink *take, void *user)
{
    History *h = calloc(1, sizeof *h);
    Status st;

    if (!h)
        return FAIL_NOMEM();
    h->take = take;
    h->user = user;
    h->rows = json_array();
    h->tables = json_object();
    h->texts = json_array();
    if (!h->rows || !h->tables || !h->texts) {
        history_free(h);
        return FAIL_NOMEM();
    }
    if (snprintf(h->folder, sizeof h->folder, "%s", folder) >= (int)sizeof h->folder)
        st = FAIL(E_INVALID, "%.80s...: a path has at most %zu bytes", folder, sizeof h->folder - 1);
    else
        st = history_follow(h);
    if (st)
        history_free(h);
    else
        *out = h;
    return st;
}

void history_free(History *h)
{
    if (!h)
        return;
    if (h->rows && h->tables && h->texts)
        forget(h);
    free(h->series);
    json_decref(h->rows);
    json_decref(h->tables);
    json_decref(h->texts);
    free(h);
}

/* ---- CSV ---- */

static void write_number(FILE *f, const json_t *x)
{
    char text[NUMBER_TEXT];

    if (json_is_integer(x))
        fprintf(f, "%" JSON_INTEGER_FORMAT, json_integer_value(x));
    else if (json_is_number(x))
        fputs(text_float64(text, json_number_value(x)), f);
}

static void write_quoted(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++)
        fprintf(f, "%s%c", *s == '"' ? "\"" : "", *s);
    fputc('"', f);
}

Status history_write_csv(const History *h, const char *path)
{
    json_t *columns = json_object(), *row, *x;
    const char *key;
    OutFile *file;
    size_t i;
    Status st = ST_OK;

    if (!columns)
        return FAIL_NOMEM();
    json_array_foreach(h->rows, i, row)
        st = st || json_object_update_missing(columns, row) ? FAIL_NOMEM() : ST_OK;
    if (!st && !(st = outfile_open(&file, path))) {
        FILE *f = outfile_stream(file);

        i = 0;
        json_object_foreach(columns, key, x) {
            fputs(i++ ? "," : "", f);
            write_quoted(f, key);
        }
        fputs("\r\n", f);
        json_array_foreach(h->rows, i, row) {
            const char *separator = "";

            json_object_foreach(columns, key, x) {
                fputs(separator, f);
                write_number(f, json_object_get(row, key));
                separator = ",";
            }
            fputs("\r\n", f);
        }
        st = outfile_close(file, ST_OK);
    }
    json_decref(columns);
    return st;
}
