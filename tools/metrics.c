/* The metrics of a run or an evaluation. */
#include "tools/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/numtext.h"

const char *metrics_names(char text[METRICS_TEXT], const dpx_options *o)
{
    dpx_metric_info m;
    size_t n = 0;

    *text = '\0';
    for (int i = 0; (m = dpx_metric_at(o, i)).name && n < METRICS_TEXT; i++)
        n += (size_t)snprintf(text + n, METRICS_TEXT - n, "%s%s", i ? " --metric " : "", m.name);
    return text;
}

Status metrics_take(Metrics *out, const dpx_trainer *t, const dpx_options *o, bool training)
{
    Metrics m = { .n = 0 };
    dpx_metric first;

    TRY((Status)(training ? dpx_trainer_train_metric(t, &first) : dpx_trainer_metric(t, &first)));
    m.loss = first.loss;
    m.samples = first.samples;
    m.log = first.log;
    m.n_log = first.n_log;
    for (; dpx_metric_at(o, m.n).name; m.n++) {
        dpx_metric *is = &m.list[m.n].is;

        m.list[m.n].info = dpx_metric_at(o, m.n);
        TRY((Status)(training ? dpx_trainer_train_metric_at(t, m.n, is) : dpx_trainer_metric_at(t, m.n, is)));
    }
    *out = m;
    return ST_OK;
}

/* ---- JSON ---- */

/* The rows of a confusion matrix. */
static void write_counts(JsonWriter *w, const dpx_tensor *t)
{
    const int64_t *count = t->data;

    for (int64_t i = 0; i < t->dim[0]; i++) {
        json_open(w, NULL, '[');
        for (int64_t k = 0; k < t->dim[1]; k++)
            json_write_int(w, NULL, *count++);
        json_close(w);
    }
}

/* The name of a class: its number where it has none. */
static const char *name_of(char text[32], const Dataset *d, int64_t c)
{
    snprintf(text, 32, "%" PRId64, c);
    return d && d->class_name && c < d->classes ? d->class_name[c] : text;
}

static void write_classes(JsonWriter *w, const dpx_tensor *t, const Dataset *d)
{
    const double *row = t->data;
    char text[32];

    for (int64_t c = 0; c < t->dim[0]; c++, row += 4) {
        json_open(w, NULL, '{');
        json_write_string(w, "class", name_of(text, d, c));
        json_write_float(w, "precision", row[0]);
        json_write_float(w, "recall", row[1]);
        json_write_float(w, "f1", row[2]);
        json_write_int(w, "support", (int64_t)row[3]);
        json_close(w);
    }
}

void metrics_write(JsonWriter *w, const char *of, const Metrics *m, const Dataset *d)
{
    for (int i = 0; i < m->n; i++) {
        const dpx_metric *is = &m->list[i].is;
        char key[96];

        if (!is->measured)
            continue;
        snprintf(key, sizeof key, "%s_%s", of, m->list[i].info.name);
        if (is->table.data) {
            json_open(w, key, '[');
            if (is->table.dtype == DPX_INT64)
                write_counts(w, &is->table);
            else
                write_classes(w, &is->table, d);
            json_close(w);
            continue;
        }
        json_write_float(w, key, is->value);
        if (is->bound > 0) {
            strncat(key, "_bound", sizeof key - strlen(key) - 1);
            json_write_float(w, key, is->bound);
        }
    }
}

void json_write_log(JsonWriter *w, const char *key, const dpx_log_value *log, int n)
{
    if (n < 2)
        return;
    json_open(w, key, '{');
    for (int i = 1; i < n; i++)
        json_write_float(w, log[i].name, log[i].value);
    json_close(w);
}

/* ---- text ---- */

const char *metrics_text(char text[METRICS_TEXT], const char *of, const Metrics *m)
{
    int n = 0;

    *text = '\0';
    for (int i = 0; i < m->n && n < METRICS_TEXT - 128; i++)
        if (m->list[i].is.measured && m->list[i].info.number)
            n += text_format(text + n, (size_t)(METRICS_TEXT - n), ", %s %s %.4f", of, m->list[i].info.name,
                             m->list[i].is.value);
    return text;
}

double metrics_value(const Metrics *m, const char *name)
{
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->list[i].info.name, name) && m->list[i].is.measured && m->list[i].info.number)
            return m->list[i].is.value;
    return (double)NAN;
}

static const dpx_tensor *find_classes(const Metrics *m)
{
    for (int i = 0; i < m->n; i++)
        if (m->list[i].is.table.data && m->list[i].is.table.dtype == DPX_FLOAT64)
            return &m->list[i].is.table;
    return NULL;
}

/* The number of characters. */
static int count_characters(const char *s)
{
    int n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

/* The width of the names' column. */
static int width_of_names(const dpx_tensor *t, const Dataset *d)
{
    enum { LEAST = 12, MOST = 40, LOOKED_AT = 1000 };
    int width = LEAST;

    for (int64_t c = 0; d && d->class_name && c < d->classes && c < t->dim[0] && c < LOOKED_AT; c++) {
        const int n = count_characters(d->class_name[c]);

        width = n > width ? n : width;
    }
    return width < MOST ? width : MOST;
}

const char *metrics_class_line(char text[METRICS_TEXT], const Metrics *m, const Dataset *d, int64_t i)
{
    const dpx_tensor *t = find_classes(m);
    const double *row;
    const char *name;
    char number[32];
    int width, n;

    if (!t || i > t->dim[0])
        return NULL;
    width = width_of_names(t, d);
    if (!i) {
        snprintf(text, METRICS_TEXT, "%-*s  precision  recall      f1  support", width, "class");
        return text;
    }
    row = (const double *)t->data + 4 * (i - 1);
    name = name_of(number, d, i - 1);
    n = snprintf(text, METRICS_TEXT, "%.200s%*s", name,
                 width - count_characters(name) > 0 ? width - count_characters(name) : 0, "");
    text_format(text + n, METRICS_TEXT - (size_t)n, "  %9.4f  %6.4f  %6.4f  %7.0f", row[0], row[1], row[2], row[3]);
    foreign_clean(text);
    return text;
}
