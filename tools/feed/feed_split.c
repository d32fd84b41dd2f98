/* Which rows of the arrays are samples: limit=N of the source, and the part that --val-split holds back. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/hash_table.h"
#include "graph/base/heap_array.h"
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
            return FAIL(E_INVALID, "--%s %s: limit: input '%s' refers to samples by position, so none can be left out",
                        flag, f->data->source.text, in.name);
        if (role != DPX_ROLE_WHOLE && role != DPX_ROLE_EITHER && x->rank && !x->describes && x->dim[0] == samples)
            cut_array(x, n);
    }
    f->data->samples = n;
    return ST_OK;
}

/* ---- classes ---- */

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

/* How many samples have a class number, and what --val-split does with them. */
typedef struct {
    int64_t number, n;
    int64_t held;   /* how many are held back */
    int64_t drawn;  /* of how many the draw is up to `bound` */
    uint64_t bound; /* draws up to here are looked at */
    int64_t at;
} ClassCount;

/* The class numbers of samples. */
typedef struct {
    Arena *arena;
    HashTable index;
    ClassCount **class; /* [n] ascending */
    size_t n, room;
} ClassCounts;

/* A HashSame. */
static bool same_number(const void *item, const void *key)
{
    return ((const ClassCount *)item)->number == *(const int64_t *)key;
}

static int compare_class(const void *a, const void *b)
{
    const ClassCount *x = *(ClassCount *const *)a, *y = *(ClassCount *const *)b;

    return (x->number > y->number) - (x->number < y->number);
}

static ClassCount *find_class(const ClassCounts *c, int64_t number)
{
    return (ClassCount *)(uintptr_t)hash_table_find(&c->index, hash_mix((uint64_t)number), same_number, &number);
}

static Status count_class(ClassCounts *c, int64_t number)
{
    ClassCount *found = c->index.cap ? find_class(c, number) : NULL, **grown;

    if (!found) {
        grown = arena_grow(c->arena, c->class, sizeof *grown, c->n, &c->room);
        if (!grown || !(found = ARENA_NEW(c->arena, ClassCount, 1)) || !hash_table_reserve(&c->index, c->arena))
            return FAIL_NOMEM();
        c->class = grown;
        c->class[c->n++] = found;
        *found = (ClassCount){ .number = number };
        hash_table_add(&c->index, hash_mix((uint64_t)number), found);
    }
    found->n++;
    return ST_OK;
}

/* The class of a row; 0 without classes. */
static int64_t class_of(const Array *class, int64_t row)
{
    int64_t number = 0;

    if (class)
        array_gather(class, &row, 1, DPX_INT64, &number);
    return number;
}

/* Counts the classes of all samples, whose arena the caller frees; with `positive` those from 0 on. */
static Status count_classes(ClassCounts *c, const Dataset *d, const Array *class, bool positive)
{
    if (!(c->arena = arena_create()))
        return FAIL_NOMEM();
    for (int64_t i = 0; i < d->samples; i++) {
        const int64_t number = class_of(class, dataset_row(d, i));

        if (number >= 0 || !positive)
            TRY(count_class(c, number));
    }
    qsort(c->class, c->n, sizeof *c->class, compare_class);
    return ST_OK;
}

/* ---- --val-split ---- */

/* A row with its sort keys: its class, and a number that the seed draws for it or for its group. */
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

/* Decides how many rows of each class are held back: the part that --val-split asks for, rounded so that the sum over
 * all classes is right; each class keeps a sample to train on.  The smallest draws are held back, which are found among
 * those up to a bound that is likely to be enough. */
static void share_out(ClassCounts *c, double part, bool groups)
{
    int64_t from = 0;

    for (size_t i = 0; i < c->n; i++) {
        ClassCount *x = c->class[i];
        const int64_t to = from + x->n,
                      most = (int64_t)floor((double)to * part + 0.5) - (int64_t)floor((double)from * part + 0.5);
        double bound;

        x->held = most < x->n || groups ? most : x->n - 1;
        bound = ((double)x->held + 6 * sqrt((double)x->held) + 8) / (double)x->n;
        x->bound = bound >= 1 ? UINT64_MAX : (uint64_t)ldexp(bound, 64);
        from = to;
    }
}

/* How rows are drawn. */
typedef struct {
    const Split *how;
    const Array *class; /* NULL: there are no classes */
    uint64_t seed;
    uint64_t last; /* of groups: the largest draw, of the group that is always trained on */
    ClassCounts counts;
    Drawn *row; /* [n] rows whose draw is up to their class's bound */
    size_t n, room;
} Draw;

static uint64_t draw_of(const Draw *d, int64_t row)
{
    return hash_draw(d->seed, 0, d->how->group ? class_of(d->how->group, row) : row);
}

/* Draws the rows that may be held back.  *enough: there are as many of each class as are wanted; else its bound is
 * twice as large now. */
static Status draw_rows(bool *enough, Draw *d, int64_t samples)
{
    d->n = 0;
    *enough = true;
    for (int64_t row = 0; row < samples; row++) {
        ClassCount *x = find_class(&d->counts, class_of(d->class, row));
        const uint64_t drawn = draw_of(d, row);
        Drawn *grown;

        if (drawn > x->bound || (d->how->group && drawn == d->last))
            continue;
        if (!(grown = heap_reserve(d->row, sizeof *grown, d->n + 1, &d->room)))
            return FAIL_NOMEM();
        d->row = grown;
        d->row[d->n++] = (Drawn){ x->number, drawn, row };
        x->drawn++;
    }
    for (size_t i = 0; i < d->counts.n; i++) {
        ClassCount *x = d->counts.class[i];

        if (x->drawn < x->held && x->bound < UINT64_MAX) {
            *enough = false;
            x->bound = x->bound > UINT64_MAX / 2 ? UINT64_MAX : 2 * x->bound;
        }
        x->drawn = 0;
    }
    return ST_OK;
}

/* Finds the rows that are held back, in ascending order; *out is on the heap. */
static Status find_held(int64_t **out, int64_t *n, Draw *d, int64_t samples)
{
    bool enough = false;

    share_out(&d->counts, d->how->part, d->how->group != NULL);
    for (int64_t row = 0; row < samples && d->how->group; row++)
        d->last = draw_of(d, row) > d->last ? draw_of(d, row) : d->last;
    while (!enough)
        TRY(draw_rows(&enough, d, samples));
    qsort(d->row, d->n, sizeof *d->row, compare_drawn);
    if (!(*out = malloc(d->n * sizeof **out + 1)))
        return FAIL_NOMEM();
    *n = 0;
    for (size_t i = 0, begin = 0; i < d->n; i++) { /* begin: of the class */
        const int64_t most = find_class(&d->counts, d->row[i].class)->held;
        bool whole; /* it belongs to the last group of which rows are held back */

        begin = i && d->row[i].class == d->row[i - 1].class ? begin : i;
        whole = d->how->group && most && (int64_t)(i - begin) >= most &&
                d->row[i].drawn == d->row[begin + (size_t)most - 1].drawn;
        if ((int64_t)(i - begin) < most || whole)
            (*out)[(*n)++] = d->row[i].row;
    }
    qsort(*out, (size_t)*n, sizeof **out, compare_rows);
    return ST_OK;
}

/* Holds back the rows held[0..n), which ascend; the rest becomes the data set's index. */
static Status hold_back(Feed *f, const int64_t *held, int64_t n)
{
    const int64_t samples = f->data->samples;
    int64_t *rest = malloc((size_t)(samples - n) * sizeof *rest + 1), kept = 0;
    Status st = rest ? dataset_view(&f->held, f->data, held, n) : FAIL_NOMEM();

    if (st) {
        free(rest);
        return st;
    }
    for (int64_t row = 0, k = 0; row < samples; row++)
        if (k < n && held[k] == row)
            k++;
        else
            rest[kept++] = row;
    f->data->index = rest;
    f->data->samples = samples - n;
    return ST_OK;
}

static Status split_samples(Feed *f, const Args *a, const Split *s)
{
    const int64_t samples = f->data->samples;
    Draw d = { .how = s, .seed = strtoull(dpx_options_get(a->options, "seed"), NULL, 10) };
    int64_t *held = NULL, n = 0;
    Status st = ST_OK;

    d.class = s->last || s->group ? NULL : class_array(f, a);
    if (s->last) {
        n = (int64_t)floor((double)samples * s->part + 0.5);
        n = n < samples ? n : samples - 1;
        if (!(held = malloc((size_t)n * sizeof *held + 1)))
            return FAIL_NOMEM();
        for (int64_t i = 0; i < n; i++)
            held[i] = samples - n + i;
    } else if (!(st = count_classes(&d.counts, f->data, d.class, false))) {
        st = find_held(&held, &n, &d, samples);
    }
    if (!st && !n)
        st = FAIL(E_INVALID, "--val-split %s: of %lld samples it leaves none to evaluate on",
                  args_value(a, "val-split"), (long long)samples);
    st = st ? st : hold_back(f, held, n);
    if (s->group)
        mapped_forget(&s->group->map); /* its numbers are not needed again */
    arena_free(d.counts.arena);
    free(d.row);
    free(held);
    return st;
}

Status feed_choose_samples(Feed *f, const Args *a, const char *flag)
{
    const char *text = strcmp(flag, "data") ? NULL : args_value(a, "val-split");
    PROBLEMS(wrong);
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

/* ---- strata ---- */

void strata_free(Strata *s)
{
    free(s->begin);
    free(s->sample);
    *s = (Strata){ 0 };
}

/* Says why the target has no class number for each sample. */
static Status fail_without_classes(const Args *a, const char *flag)
{
    return dpx_target(a->options) == DPX_TARGET_CLASSES
               ? FAIL(E_INVALID, "--%s: expected a target of class numbers, one for each sample", flag)
               : FAIL(E_INVALID,
                      "--%s goes with --loss cross-entropy or nll, whose targets are class numbers, found --loss %s",
                      flag, dpx_options_get(a->options, "loss"));
}

Status feed_strata(Strata *out, int64_t **number, const Feed *f, const Args *a, const char *flag)
{
    const Array *class = class_array(f, a);
    ClassCounts c = { 0 };
    Strata s = { 0 };
    int64_t *numbers = NULL, kept = 0;
    Status st = class ? count_classes(&c, f->data, class, true) /* others, such as --ignore-index, are no class */
                      : fail_without_classes(a, flag);

    if (!st && !c.n)
        st = FAIL(E_INVALID, "--%s: the target has no class number", flag);
    for (size_t i = 0; i < c.n && !st; i++) {
        c.class[i]->at = kept;
        kept += c.class[i]->n;
    }
    if (!st) {
        s = (Strata){ .classes = (int64_t)c.n,
                      .begin = malloc((c.n + 1) * sizeof *s.begin),
                      .sample = malloc((size_t)kept * sizeof *s.sample) };
        numbers = malloc(c.n * sizeof *numbers);
        st = s.begin && s.sample && numbers ? ST_OK : FAIL_NOMEM();
    }
    for (size_t i = 0; i < c.n && !st; i++) {
        s.begin[i] = c.class[i]->at;
        numbers[i] = c.class[i]->number;
    }
    for (int64_t i = 0; i < f->data->samples && !st; i++) {
        const int64_t of = class_of(class, dataset_row(f->data, i));

        if (of >= 0)
            s.sample[find_class(&c, of)->at++] = i;
    }
    arena_free(c.arena);
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

Status feed_check_labels(const Feed *f, const Args *a, int64_t scores)
{
    const Array *class = class_array(f, a);
    const int64_t held = f->held ? f->held->samples : 0;
    char hint[96];
    int64_t left_out;

    if (!text_to_int64(&left_out, dpx_options_get(a->options, "ignore-index")))
        left_out = 0;
    for (int64_t i = 0; class && i < f->data->samples + held; i++) {
        const int64_t row = i < held ? dataset_row(f->held, i) : dataset_row(f->data, i - held),
                      label = class_of(class, row);

        if ((label >= 0 && label < scores) || label == left_out)
            continue;
        if (label < 0 || label == UINT8_MAX)
            snprintf(hint, sizeof hint, "--ignore-index %lld leaves such labels out", (long long)label);
        else
            snprintf(hint, sizeof hint, "classes count from 0 to %lld", (long long)scores - 1);
        return FAIL(E_IO, "--%s %s: sample %lld: the label is %lld, not one of %lld classes; %s", f->flag, f->source,
                    (long long)row, (long long)label, (long long)scores, hint);
    }
    return ST_OK;
}
