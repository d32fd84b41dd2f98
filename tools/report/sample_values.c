/* Values of samples are cut: a page shows 25 of them beside each other. */
#include "tools/report/sample_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/numtext.h"
#include "tools/tensor_number.h"
#include "tools/text/utf8_text.h"

enum { MOST_AXES = 2 /* of a batch's tensor */, MOST_NUMBERS = 12, MOST_VALUES = 40, MOST_BYTES = 400 };

json_t *shown_text(const char *s)
{
    TextBuffer repaired = { 0 };
    const char *text = s;
    size_t n = strlen(s), replaced, first;
    json_t *j = NULL;

    if (!utf8_repair(&text, &repaired, (const uint8_t *)s, &n, &replaced, &first))
        j = json_stringn(text, n);
    free(repaired.text);
    return j;
}

static Status add_value(json_t *list, const char *name, const char *text)
{
    json_t *pair = json_array();

    if (!pair || json_array_append_new(pair, shown_text(name)) || json_array_append_new(pair, shown_text(text)) ||
        json_array_append(list, pair)) {
        json_decref(pair);
        return FAIL_NOMEM();
    }
    json_decref(pair);
    return ST_OK;
}

/* A SampleFact. */
static Status take_value(void *user, const char *name, const char *text)
{
    char cut[MOST_BYTES + 8];
    size_t n = 0;

    if (json_array_size(user) >= MOST_VALUES)
        return ST_OK;
    for (int len; text[n] && n < MOST_BYTES; n += (size_t)(len ? len : 1))
        len = utf8_length(text + n);
    snprintf(cut, sizeof cut, "%.*s%s", (int)n, text, text[n] ? "\342\200\246" : "");
    return add_value(user, name, cut);
}

Status sample_described(json_t **out, Dataset *d, int64_t row)
{
    const DataFormat *f = d->source.format;
    json_t *list;
    Status st;

    *out = NULL;
    if (!f || !f->describe)
        return ST_OK;
    if (!(list = json_array()))
        return FAIL_NOMEM();
    if ((st = f->describe(d, row, MOST_BYTES + 1, take_value, list)))
        json_decref(list);
    else
        *out = list;
    return st;
}

/* "0.25, -1, 3 ... of 784" */
static void write_numbers(char *to, size_t room, const dpx_tensor *t, int64_t at)
{
    const int64_t n = t->rank > 1 ? t->dim[1] : 1;
    size_t len = 0;

    *to = '\0';
    for (int64_t i = 0; i < n && i < MOST_NUMBERS; i++)
        len += (size_t)text_format(to + len, room - len, "%s%.4g", i ? ", " : "", tensor_number(t, at * n + i));
    if (n > MOST_NUMBERS)
        snprintf(to + len, room - len, " ... of %lld", (long long)n);
}

Status sample_values(json_t **out, const Feed *f, const Batch *b, int target, int64_t at)
{
    json_t *list = json_array();
    Status st = ST_OK;

    *out = NULL;
    if (!list)
        return FAIL_NOMEM();
    for (int i = 0; i < b->n && !st; i++) {
        const Field *field = &f->field[i];
        const dpx_tensor *t = &b->tensor[i];
        char text[MOST_NUMBERS * 16 + 32];

        if (i == target || field->kind != FIELD_SAMPLES || field->split != f->field[target].split || field->axis ||
            t->rank < 1 || t->rank > MOST_AXES || !t->data ||
            isnan(tensor_number(t, at * (t->rank > 1 ? t->dim[1] : 1))))
            continue;
        write_numbers(text, sizeof text, t, at);
        st = add_value(list, field->name, text);
    }
    if (!st && json_array_size(list))
        *out = list;
    else
        json_decref(list);
    return st;
}
