/* dpexec data: what a source holds: arrays with statistics, classes with counts, rows with bad numbers. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/json_writer.h"
#include "tools/commands.h"
#include "tools/feed/feed.h"

static const Flag flags[] = {
    { "json", NULL, "print one JSON object" },
    { "target", "ARRAY", "array of class numbers to count [target, and all vectors of integers]" },
    SOURCE_FLAGS,
    { NULL, NULL, NULL },
};

const Command command_data = { "data",
                               "SRC [MODEL.onnx] [options]",
                               "Shows what a source of data holds, and how it feeds a model.",
                               flags,
                               NO_OPTIONS,
                               1,
                               2,
                               NULL };

enum { SHOWN_ROWS = 10, SHOWN_CLASSES = 50, MOST_CLASSES = 10000, NAME_TEXT = 200, LINE_TEXT = 512 };

/* Numbers of one channel, or of all of an array: sums of the differences from the first. */
typedef struct {
    int64_t n;
    double first, sum, squares, min, max;
} Moments;

typedef struct {
    const Array *array;
    int channels; /* 1: the array has one set of numbers */
    Moments of[MAX_CHANNELS];
    int64_t bad, row[SHOWN_ROWS]; /* rows with NaN or Inf, or that are broken */
    char why[SHOWN_ROWS][NAME_TEXT];
    int64_t *class, *count; /* [classes] numbers of classes in ascending order, and how many rows each has */
    int64_t classes;        /* 0: the array has no classes */
    bool masks;             /* each element is a class */
    int64_t pixels[256];    /* of each class, if so */
} Shown;

static double mean_of(const Moments *m) { return m->n ? m->first + m->sum / (double)m->n : (double)NAN; }

static double std_of(const Moments *m)
{
    const double n = (double)m->n, mean = m->sum / n, variance = m->squares / n - mean * mean;

    return m->n ? sqrt(variance > 0 ? variance : 0) : (double)NAN;
}

static void count_number(Moments *m, double v)
{
    if (!m->n++) {
        m->first = m->min = m->max = v;
        return;
    }
    m->sum += v - m->first;
    m->squares += (v - m->first) * (v - m->first);
    m->min = v < m->min ? v : m->min;
    m->max = v > m->max ? v : m->max;
}

static void note_bad(Shown *s, int64_t row, const char *why)
{
    if (s->bad < SHOWN_ROWS) {
        s->row[s->bad] = row;
        snprintf(s->why[s->bad], NAME_TEXT, "%s", why);
    }
    s->bad++;
}

/* "NaN at [3,17]": the place of element `at` in a sample. */
static void place_text(char text[NAME_TEXT], const Array *a, double v, size_t at)
{
    size_t behind = array_sample_elements(a), n;

    n = (size_t)snprintf(text, NAME_TEXT, "%s", isnan(v) ? "NaN" : v > 0 ? "Inf" : "-Inf");
    for (int i = 1; i < a->rank && behind; i++) {
        behind /= a->dim[i] ? (size_t)a->dim[i] : 1;
        n += (size_t)snprintf(text + n, NAME_TEXT - n, "%s%zu", i > 1 ? "," : " at [", behind ? at / behind : 0);
        at = behind ? at % behind : 0;
    }
    snprintf(text + n, NAME_TEXT - n, "%s", a->rank > 1 ? "]" : "");
}

/* Reads the rows of an array.  Images are counted as --mean and --std see them, scaled but not normalised. */
static Status count_array(Shown *s, const Dataset *d, const Array *a)
{
    const double scale = a->norm.channels ? a->norm.scale : 1;
    const SampleKey key = { .training = false };
    const bool samples = a->rank && !a->describes && (a->dim[0] == d->samples || a->fetch);
    const int64_t rows = samples ? d->samples : a->rank ? a->dim[0] : 1;
    Array plain = *a;
    size_t elements;
    double *x;
    void *scratch;
    Status st;

    const bool masks = a->fetch && a->dtype == DPX_UINT8 && a->rank == 3 && !strcmp(a->name, "target");

    *s = (Shown){ .array = a,
                  .masks = masks,
                  .channels = a->rank == 4 && a->dim[1] <= MAX_CHANNELS && a->dim[1] ? (int)a->dim[1] : 1 };
    if (array_check_convert(a, DPX_FLOAT64, a->name))
        return ST_OK; /* it has no numbers */
    plain.norm = (Normalisation){ .channels = 1, .scale = scale, .std = { 1 } };
    elements = array_sample_elements(&plain);
    x = malloc(elements * sizeof *x + 1);
    scratch = malloc(array_scratch(&plain, DPX_FLOAT64) + 1);
    st = x && scratch ? ST_OK : FAIL_NOMEM();
    for (int64_t i = 0; i < rows && !st; i++) {
        const int64_t row = samples ? dataset_row(d, i) : i;
        const size_t n = a->row ? (size_t)array_sample_bytes(a, row) / dpx_dtype_size(a->dtype) : elements;
        char why[NAME_TEXT] = "";

        st = array_take(&plain, row, &key, DPX_FLOAT64, x, scratch);
        if ((st == E_IO || (st == E_INVALID && masks)) && a->fetch) {
            note_bad(s, row, status_message());
            st = ST_OK;
            continue;
        }
        for (size_t k = 0; k < n && !st && masks; k++)
            s->pixels[(int)x[k]]++;
        for (size_t k = 0; k < n && !st; k++)
            if (isfinite(x[k]))
                count_number(&s->of[s->channels > 1 ? k / (elements / (size_t)s->channels) : 0], x[k]);
            else if (!*why)
                place_text(why, a, x[k], k);
        if (*why)
            note_bad(s, row, why);
    }
    free(x);
    free(scratch);
    return st;
}

static int compare_numbers(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Counts the classes of an array with a whole number for each sample; too many are none. */
static Status count_classes(Shown *s, const Dataset *d, const char *target)
{
    const Array *a = s->array;
    const bool named = !strcmp(a->name, target ? target : "target");
    const int64_t n = d->samples;

    if (!a->rank || array_sample_elements(a) != 1 || a->row || a->fetch || a->describes || a->dim[0] < n ||
        (array_is_float(a) && !named) || array_check_convert(a, DPX_INT64, a->name))
        return ST_OK;
    s->class = malloc((size_t)n * sizeof *s->class + 1);
    s->count = calloc((size_t)n + 1, sizeof *s->count);
    if (!s->class || !s->count)
        return FAIL_NOMEM();
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = dataset_row(d, i);

        array_gather(a, &row, 1, DPX_INT64, &s->class[i]);
    }
    qsort(s->class, (size_t)n, sizeof *s->class, compare_numbers);
    for (int64_t i = 0; i < n; i++) {
        s->classes += !i || s->class[i] != s->class[s->classes - 1];
        s->class[s->classes - 1] = s->class[i];
        s->count[s->classes - 1]++;
    }
    s->classes = s->classes <= (named ? n : n / 2) && s->classes <= MOST_CLASSES ? s->classes : 0;
    return ST_OK;
}

/* The name of a class, if it is one of the target's and has one. */
static const char *class_name(const Dataset *d, const Shown *s, int64_t number)
{
    return d->class_name && number >= 0 && number < d->classes && !strcmp(s->array->name, "target")
               ? d->class_name[number]
               : NULL;
}

static const char *sizes_text(const Array *a, char text[NAME_TEXT])
{
    size_t n = (size_t)snprintf(text, NAME_TEXT, "[");

    for (int i = 0; i < a->rank; i++)
        n += (size_t)snprintf(text + n, NAME_TEXT - n, "%s%s%" PRId64, i ? "," : "", a->row && i == 1 ? "<=" : "",
                              a->dim[i]);
    snprintf(text + n, NAME_TEXT - n, "]");
    return text;
}

/* Prints the text, which the form encloses, without characters that a terminal obeys. */
static void print_foreign(const char *form, const char *text)
{
    char line[LINE_TEXT];

    snprintf(line, sizeof line, form, text);
    foreign_clean(line);
    fputs(line, stdout);
}

/* Prints how many pixels of masks each class has. */
static void print_pixels(const Dataset *d, const Shown *s)
{
    int64_t all = 0;

    for (int c = 0; c < 256; c++)
        all += s->pixels[c];
    for (int c = 0; c < 256; c++) {
        if (!s->pixels[c] && c >= d->classes)
            continue;
        printf("  pixels of class %d", c);
        if (class_name(d, s, c) || c == 255)
            print_foreign(" (%.150s)", class_name(d, s, c) ? class_name(d, s, c) : "mostly ignored");
        printf(": %" PRId64 ", %.2f %%\n", s->pixels[c], all ? 100.0 * (double)s->pixels[c] / (double)all : 0);
    }
}

static void print_shown(const Dataset *d, const Shown *s)
{
    const Array *a = s->array;
    char shape[NAME_TEXT], name[NAME_TEXT];

    snprintf(name, sizeof name, "%.150s", *a->name ? a->name : "(no name)");
    foreign_clean(name);
    for (int c = 0; c < s->channels; c++) {
        const Moments *m = &s->of[c];

        printf("%-16s %-20s %-8s", c ? "" : name, c ? "" : sizes_text(a, shape), c ? "" : dpx_dtype_name(a->dtype));
        if (s->channels > 1)
            printf(" channel %d:", c);
        printf(m->n ? " min %.6g, max %.6g, mean %.6g, std %.6g\n" : " no numbers\n", m->min, m->max, mean_of(m),
               std_of(m));
    }
    if (s->classes)
        printf("  %" PRId64 " class%s:", s->classes, s->classes == 1 ? "" : "es");
    for (int64_t i = 0; i < s->classes && i < SHOWN_CLASSES; i++) {
        printf("%s %" PRId64, i ? "," : "", s->class[i]);
        if (class_name(d, s, s->class[i]))
            print_foreign(" (%.150s)", class_name(d, s, s->class[i]));
        printf(": %" PRId64, s->count[i]);
    }
    if (s->classes)
        printf("%s\n", s->classes > SHOWN_CLASSES ? ", ..." : "");
    if (s->masks)
        print_pixels(d, s);
    if (s->bad)
        printf("  %" PRId64 " bad row%s\n", s->bad, s->bad == 1 ? "" : "s");
    for (int64_t i = 0; i < s->bad && i < SHOWN_ROWS; i++) {
        printf("  row %" PRId64 ":", s->row[i]);
        print_foreign(" %s", s->why[i]);
        printf("\n");
    }
}

static void write_shown(JsonWriter *w, const Dataset *d, const Shown *s)
{
    static const char *const keys[] = { "min", "max", "mean", "std" };
    const Array *a = s->array;

    json_open(w, NULL, '{');
    json_write_string(w, "name", a->name);
    json_open(w, "shape", '[');
    for (int i = 0; i < a->rank; i++)
        json_write_int(w, NULL, a->dim[i]);
    json_close(w);
    json_write_string(w, "type", dpx_dtype_name(a->dtype));
    json_write_bool(w, "sequences", a->row != NULL);
    for (int k = 0; k < 4; k++) {
        json_open(w, keys[k], '[');
        for (int c = 0; c < s->channels; c++) {
            const Moments *m = &s->of[c];
            const double of[] = { m->n ? m->min : (double)NAN, m->n ? m->max : (double)NAN, mean_of(m), std_of(m) };

            json_write_float(w, NULL, of[k]);
        }
        json_close(w);
    }
    json_write_int(w, "bad_rows", s->bad);
    json_open(w, "bad", '[');
    for (int64_t i = 0; i < s->bad && i < SHOWN_ROWS; i++) {
        json_open(w, NULL, '{');
        json_write_int(w, "row", s->row[i]);
        json_write_string(w, "why", s->why[i]);
        json_close(w);
    }
    json_close(w);
    if (s->classes)
        json_open(w, "classes", '[');
    for (int64_t i = 0; i < s->classes; i++) {
        json_open(w, NULL, '{');
        json_write_int(w, "class", s->class[i]);
        if (class_name(d, s, s->class[i]))
            json_write_string(w, "name", class_name(d, s, s->class[i]));
        json_write_int(w, "count", s->count[i]);
        json_close(w);
    }
    if (s->classes)
        json_close(w);
    if (s->masks)
        json_open(w, "pixels", '[');
    for (int c = 0; c < 256 && s->masks; c++)
        if (s->pixels[c]) {
            json_open(w, NULL, '{');
            json_write_int(w, "class", c);
            if (class_name(d, s, c))
                json_write_string(w, "name", class_name(d, s, c));
            json_write_int(w, "count", s->pixels[c]);
            json_close(w);
        }
    if (s->masks)
        json_close(w);
    json_close(w);
}

/* Prints which array feeds which input. */
static void print_inputs(JsonWriter *w, const Feed *f, bool json)
{
    char line[LINE_TEXT];

    if (json)
        json_open(w, "inputs", '[');
    for (int i = 0; i < f->n; i++) {
        const Field *x = &f->field[i];

        if (json) {
            json_open(w, NULL, '{');
            json_write_string(w, "input", x->name);
            json_write_string(w, "array", x->array->name);
            json_close(w);
            continue;
        }
        snprintf(line, sizeof line, "input '%.150s' (%s) gets '%.150s'%s", x->name, dpx_dtype_name(x->dtype),
                 *x->array->name ? x->array->name : "(no name)", x->kind == FIELD_WHOLE ? ", whole" : "");
        print_foreign("%s", line);
        printf("\n");
    }
    if (json)
        json_close(w);
}

static Status show(Feed *f, Shown *shown, const Args *a)
{
    const bool json = args_has(a, "json");
    const Dataset *d = f->data;
    JsonWriter w = { .to = stdout, .lines = 3 };

    for (int i = 0; i < d->n; i++) {
        TRY(count_array(&shown[i], d, &d->array[i]));
        TRY(count_classes(&shown[i], d, args_value(a, "target")));
    }
    if (json) {
        json_open(&w, NULL, '{');
        json_write_string(&w, "source", d->source.text);
        json_write_int(&w, "samples", d->samples);
        json_open(&w, "arrays", '[');
    } else {
        print_foreign("%.400s: ", d->source.text);
        printf("%" PRId64 " sample%s\n", d->samples, d->samples == 1 ? "" : "s");
    }
    for (int i = 0; i < d->n; i++)
        if (json)
            write_shown(&w, d, &shown[i]);
        else
            print_shown(d, &shown[i]);
    if (json)
        json_close(&w);
    if (f->model)
        print_inputs(&w, f, json);
    if (json)
        json_close(&w);
    return ST_OK;
}

/* Opens the source, and with a model matches it with the model's inputs, as for predictions. */
static Status open_source(Feed *f, dpx_model **model, const Args *a, Progress *log)
{
    if (a->n_positional > 1)
        TRY((Status)dpx_model_load_within(model, a->positional[1], a->options));
    TRY(feed_read_source(f, a, "data", a->positional[0], *model));
    if (*model)
        return feed_open(f, a, "data", *model, SHARE_ALL, log);
    TRY(feed_limit(f, a, "data"));
    TRY(feed_fit(f, a, "data"));
    if (f->data->note)
        progress_line(log, "dpexec: warning: %s", f->data->note);
    return ST_OK;
}

int run_data(const Args *a)
{
    Args own = *a;
    dpx_model *model = NULL;
    Shown *shown = NULL;
    Feed f = { 0 };
    Progress progress;
    int code = EXIT_DONE, n = 0;
    Status st;

    progress_start(&progress, true);
    own.options = dpx_options_create();
    st = own.options ? open_source(&f, &model, &own, &progress) : FAIL_NOMEM();
    if (!st) {
        n = f.data->n;
        st = (shown = calloc((size_t)n + 1, sizeof *shown)) ? show(&f, shown, &own) : FAIL_NOMEM();
    }
    for (int i = 0; i < n && shown; i++) {
        free(shown[i].class);
        free(shown[i].count);
    }
    free(shown);
    feed_close(&f);
    dpx_model_free(model);
    dpx_options_free(own.options);
    if (st)
        code = args_failed(a, "dpexec", st);
    return code;
}
