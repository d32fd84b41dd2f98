/* Which rows of the arrays are samples: limit=N of the source, and the part that --val-split holds back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/hash.h"
#include "graph/base/numtext.h"
#include "tools/feed/feed.h"

enum { MOST_COUNTED = 1 << 16 };

/* ---- limit=N ---- */

/* Cuts an array to its first n samples. */
static void cut_array(Array *x, int64_t n)
{
    x->dim[0] = n;
    if (x->row)
        x->dim[1] = 0;
    for (int64_t i = 0; x->row && i < n; i++)
        x->dim[1] = x->row[i].n > x->dim[1] ? x->row[i].n : x->dim[1];
}

/* Cuts all arrays of `samples` samples, but not those that the model takes whole. */
Status feed_limit(Feed *f, const Args *a, const char *flag)
{
    const int64_t samples = f->data->samples, n = f->data->limit;

    if (n >= samples)
        return ST_OK;
    for (int i = 0; i < f->data->n; i++) {
        Array *x = &f->data->array[i];
        int role = DPX_ROLE_SAMPLES;
        dpx_info in;

        for (int k = 0; f->model && k < dpx_model_count(f->model, DPX_INPUT); k++)
            if (!dpx_model_info(f->model, DPX_INPUT, k, &in) && feed_array(f, a, in.name) == x)
                role = dpx_batch_role(f->model, a->options, in.name);
        if (role == DPX_ROLE_ORDERED)
            return FAIL(E_INVALID, "--%s %s: limit: input '%s' tells the samples apart, so none can be left out", flag,
                        f->data->source.text, in.name);
        if (role != DPX_ROLE_WHOLE && role != DPX_ROLE_EITHER && x->rank && !x->describes && x->dim[0] == samples)
            cut_array(x, n);
    }
    f->data->samples = n;
    return ST_OK;
}

/* ---- --val-split ---- */

/* A row with its sort keys: its class, and a number that the seed draws for it. */
typedef struct {
    int64_t class;
    uint64_t drawn;
    int64_t row;
} Drawn;

static int compare_drawn(const void *a, const void *b)
{
    const Drawn *x = a, *y = b;

    if (x->class != y->class)
        return (x->class > y->class) - (x->class < y->class);
    if (x->drawn != y->drawn)
        return (x->drawn > y->drawn) - (x->drawn < y->drawn);
    return (x->row > y->row) - (x->row < y->row);
}

static int compare_rows(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* Whether the array has a whole number for each sample. */
static bool numbers_samples(const Feed *f, const Array *x)
{
    const int64_t all = f->data->index ? x->dim[0] : f->data->samples; /* an index is one of all rows */

    return x->rank && array_sample_elements(x) == 1 && x->dim[0] == all && !x->fetch && !x->row && !x->describes &&
           !array_check_convert(x, DPX_INT64, x->name);
}

/* The array of the target's class numbers: the one that is called so, or the only one of integers that feeds no input.
 * NULL: the target is none. */
static const Array *class_array(const Feed *f, const Args *a)
{
    const char *name = args_value(a, "target");
    const Array *x = dataset_find(f->data, name ? name : f->target ? f->target : "target");
    int n = 0;

    if (dpx_target(a->options) != DPX_TARGET_CLASSES)
        return NULL;
    for (int i = 0; i < f->data->n && !name && !f->target && (!x || n); i++) {
        const Array *left = &f->data->array[i];
        dpx_info in;

        for (int k = 0; k < dpx_model_count(f->model, DPX_INPUT) && left; k++)
            if (!dpx_model_info(f->model, DPX_INPUT, k, &in) && feed_array(f, a, in.name) == left)
                left = NULL;
        if (left && !array_is_float(left) && numbers_samples(f, left)) {
            x = n ? NULL : left;
            n++;
        }
        if (n > 1)
            return NULL;
    }
    return x && numbers_samples(f, x) ? x : NULL;
}

/* How --val-split divides. */
typedef struct {
    double part;
    bool last;          /* the last samples are held back */
    const Array *group; /* samples of one number stay together; NULL: each is alone */
} Split;

/* Reads "F", "F,last" or "F,group=ARRAY"; *group: the array's name, NULL: none. */
static Status parse_split(Split *out, const char **group, const char *text)
{
    const char *comma = strchr(text, ',');
    const size_t n = comma ? (size_t)(comma - text) : strlen(text);
    Split s = { .last = comma && !strcmp(comma, ",last") };

    if (!text_to_float64(&s.part, text, n) || !(s.part > 0 && s.part < 1) ||
        (comma && !s.last && strncmp(comma, ",group=", 7)))
        return FAIL(
            E_INVALID,
            "--val-split: expected the part to evaluate on, such as 0.1, or 0.1,last, or 0.1,group=ARRAY, found "
            "'%s'",
            text);
    *group = comma && !s.last ? comma + 7 : NULL;
    *out = s;
    return ST_OK;
}

Status feed_check_split(const Args *a)
{
    const char *text = args_value(a, "val-split"), *group;
    Split unused;

    return text ? parse_split(&unused, &group, text) : ST_OK;
}

const char *feed_split_group(const Args *a)
{
    const char *text = args_value(a, "val-split"), *group = NULL;
    Split unused;

    return text && !parse_split(&unused, &group, text) ? group : NULL;
}

static Status read_split(Split *out, const Feed *f, const char *text)
{
    const char *group;
    Split s;

    TRY(parse_split(&s, &group, text));
    if (group) {
        s.group = dataset_find(f->data, group);
        if (!s.group || !numbers_samples(f, s.group))
            return FAIL(E_INVALID, "--val-split %s: expected an array of a whole number for each sample%s", text,
                        s.group ? "" : ", and the data has none of that name");
    }
    s.last |= f->data->follows && !s.group;
    *out = s;
    return ST_OK;
}

/* Divides the sorted rows: of each class the share that --val-split asks for, rounded so that the sum over all classes
 * is right; each class keeps a sample to train on.  Returns how many are held back, which are first in row[n]. */
static int64_t divide(int64_t *row, const Drawn *drawn, int64_t n, double part)
{
    int64_t held = 0, kept = n;

    for (int64_t from = 0, to; from < n; from = to) {
        int64_t most;

        for (to = from; to < n && drawn[to].class == drawn[from].class;)
            to++;
        most = (int64_t)floor((double)to * part + 0.5) - (int64_t)floor((double)from * part + 0.5);
        most = most < to - from ? most : to - from - 1;
        for (int64_t i = from; i < to; i++)
            row[i < from + most ? held++ : --kept] = drawn[i].row;
    }
    qsort(row, (size_t)held, sizeof *row, compare_rows);
    qsort(row + held, (size_t)(n - held), sizeof *row, compare_rows);
    return held;
}

/* Divides rows that are sorted by group: holds back whole groups until they have the part that is asked for. */
static int64_t divide_groups(int64_t *row, const Drawn *drawn, int64_t n, double part)
{
    const int64_t wanted = (int64_t)floor((double)n * part + 0.5);
    int64_t held = 0, last = n; /* where the last group begins, which is trained on */

    while (last > 0 && (last == n || drawn[last - 1].drawn == drawn[n - 1].drawn))
        last--;
    while (held < last && (held < wanted || (held && drawn[held].drawn == drawn[held - 1].drawn)))
        held++;
    for (int64_t i = 0; i < n; i++)
        row[i] = drawn[i].row;
    qsort(row, (size_t)held, sizeof *row, compare_rows);
    qsort(row + held, (size_t)(n - held), sizeof *row, compare_rows);
    return held;
}

/* Holds back a part of the samples; the rest becomes the data set's index. */
static Status split_samples(Feed *f, const Args *a, const Split *s)
{
    const uint64_t seed = strtoull(dpx_options_get(a->options, "seed"), NULL, 10);
    const Array *class = s->last || s->group ? NULL : class_array(f, a);
    const int64_t n = f->data->samples;
    Drawn *drawn = calloc((size_t)n, sizeof *drawn);
    int64_t *row = malloc((size_t)n * sizeof *row), held = 0;
    Status st = drawn && row ? ST_OK : FAIL_NOMEM();

    for (int64_t i = 0; i < n && !st; i++) {
        int64_t number = i;

        if (s->group)
            array_gather(s->group, &i, 1, DPX_INT64, &number);
        drawn[i] = (Drawn){ .drawn = s->last ? (uint64_t)(n - i) : hash_draw(seed, 0, number), .row = i };
        if (class)
            array_gather(class, &i, 1, DPX_INT64, &drawn[i].class);
    }
    if (!st) {
        qsort(drawn, (size_t)n, sizeof *drawn, compare_drawn);
        held = s->group ? divide_groups(row, drawn, n, s->part) : divide(row, drawn, n, s->part);
        if (!held)
            st = FAIL(E_INVALID, "--val-split %s: of %lld samples it leaves none to evaluate on",
                      args_value(a, "val-split"), (long long)n);
    }
    if (!st)
        st = dataset_view(&f->held, f->data, row, held);
    if (!st) {
        memmove(row, row + held, (size_t)(n - held) * sizeof *row);
        f->data->index = row;
        f->data->samples = n - held;
        row = NULL;
    }
    free(drawn);
    free(row);
    return st;
}

Status feed_choose_samples(Feed *f, const Args *a, const char *flag)
{
    const char *text = strcmp(flag, "data") ? NULL : args_value(a, "val-split");
    Problems wrong = { 0 };
    Split split;

    feed_check_map(f, a, &wrong);
    TRY(problems_fail(&wrong, E_INVALID, "--%s %s", flag, f->data->source.text));
    f->data->samples = feed_samples(f, a);
    TRY(feed_limit(f, a, flag));
    if (text) {
        TRY(read_split(&split, f, text));
        TRY(split_samples(f, a, &split));
    }
    return feed_fit(f, a, flag);
}

void feed_take_held(Feed *out, Feed *train)
{
    Dataset *held = train->held;
    int64_t *index = held->index;
    const int64_t samples = held->samples;

    *held = *train->data; /* which may have arrays that were made when the source was fitted */
    held->lent = true;
    held->index = index;
    held->samples = samples;
    *out = *train;
    out->flag = "val-split";
    out->data = held;
    out->held = NULL;
    out->fitted = json_incref(train->fitted);
    train->held = NULL;
}

/* ---- classes ---- */

void strata_free(Strata *s)
{
    free(s->begin);
    free(s->sample);
    *s = (Strata){ 0 };
}

Status feed_strata(Strata *out, int64_t **number, const Feed *f, const Args *a, const char *flag)
{
    const Array *class = class_array(f, a);
    const int64_t n = f->data->samples;
    Strata s = { .begin = malloc(((size_t)n + 1) * sizeof *s.begin), .sample = malloc((size_t)n * sizeof *s.sample) };
    int64_t *numbers = malloc((size_t)n * sizeof *numbers), kept = 0;
    Drawn *drawn = calloc((size_t)n, sizeof *drawn);
    Status st = s.begin && s.sample && numbers && drawn ? ST_OK : FAIL_NOMEM();

    if (!st && !class)
        st = FAIL(E_INVALID, "--%s: expected a target of class numbers, one for each sample", flag);
    for (int64_t i = 0; i < n && !st; i++) {
        const int64_t row = dataset_row(f->data, i);

        array_gather(class, &row, 1, DPX_INT64, &drawn[kept].class);
        drawn[kept].row = i;
        kept += drawn[kept].class >= 0; /* others, such as --ignore-index, are no class */
    }
    if (!st && !kept)
        st = FAIL(E_INVALID, "--%s: the target has no class number", flag);
    if (!st)
        qsort(drawn, (size_t)kept, sizeof *drawn, compare_drawn);
    for (int64_t i = 0; i < kept && !st; i++) {
        if (!i || drawn[i].class != drawn[i - 1].class) {
            numbers[s.classes] = drawn[i].class;
            s.begin[s.classes++] = i;
        }
        s.sample[i] = drawn[i].row;
    }
    free(drawn);
    if (st) {
        free(numbers);
        strata_free(&s);
        return st;
    }
    s.begin[s.classes] = kept;
    *out = s;
    *number = numbers;
    return ST_OK;
}

Status feed_count_classes(int64_t **out, int64_t *classes, const Feed *f, const Args *a)
{
    const Array *class = class_array(f, a);
    int64_t *count, n = 0;

    *out = NULL;
    *classes = 0;
    if (!class)
        return ST_OK;
    if (!(count = calloc(MOST_COUNTED, sizeof *count)))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < f->data->samples; i++) {
        const int64_t row = dataset_row(f->data, i);
        int64_t number;

        array_gather(class, &row, 1, DPX_INT64, &number);
        if (number >= MOST_COUNTED) {
            free(count);
            return ST_OK;
        }
        if (number < 0) /* such as --ignore-index */
            continue;
        count[number]++;
        n = number < n ? n : number + 1;
    }
    *out = count;
    *classes = n;
    return ST_OK;
}
