/* Fitting of tables, as scikit-learn's SimpleImputer(strategy="median"), StandardScaler and OneHotEncoder do.
 *
 * Medians are selected exactly by counting, so a column needs no sorted copy: the numbers' bits, in an order that is
 * theirs (order_key), are found up to 11 at a time, from the highest, by counts of the rows that share those found so
 * far. Six passes over the rows do that for all columns at once, or more for thousands of columns; three more find
 * categories, means and scales. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "tools/table/table.h"

enum { KEY_BITS = 11, MOST_COUNTS = 1 << 22 /* of all columns */ };

/* Unsigned integers in the order of the numbers. */
static uint64_t order_key(double v)
{
    uint64_t b;

    v += 0.0; /* -0 is 0 */
    memcpy(&b, &v, sizeof b);
    return b >> 63 ? ~b : b | (uint64_t)1 << 63;
}

static double key_value(uint64_t key)
{
    const uint64_t b = key >> 63 ? key ^ (uint64_t)1 << 63 : ~key;
    double v;

    memcpy(&v, &b, sizeof v);
    return v;
}

/* What a pass over the rows finds of a column of numbers. */
typedef struct {
    const Column *col;
    int at;                /* of its cells in a row */
    int64_t numbers, left; /* left: how many of those that share the bits are smaller than the one that is looked for */
    uint64_t bits;         /* of it, found so far */
    int64_t *count;        /* [1 << key_bits] */
    double found, next;    /* the number; the smallest above it */
    double median, sum, squares, rest;
} NumberFit;

/* The fit of all columns of numbers, in passes over the rows. */
typedef struct {
    Table *t;
    NumberFit *number; /* [n] */
    int n;
    int64_t *count;  /* [n][1 << key_bits] */
    int key_bits;    /* that a pass finds at most: fewer for many columns */
    int shift, bits; /* the bits that a pass finds, and where they end */
} Fit;

/* ---- passes: each is a TableVisit ---- */

/* Counts the rows of each category. */
static void count_categories(void *user, const double *cells)
{
    const Fit *f = user;

    for (int i = 0; i < f->t->n; i++)
        if (f->t->column[i].kind == COLUMN_CATEGORY && !isnan(cells[i + 1]))
            f->t->column[i].seen[(int)cells[i + 1]]->rows++;
}

/* Counts the next bits of the numbers that share those found so far. */
static void count_keys(void *user, const double *cells)
{
    const Fit *f = user;

    for (int i = 0; i < f->n; i++) {
        NumberFit *x = &f->number[i];
        const double v = cells[x->at];
        const uint64_t key = order_key(v);

        if (!isnan(v) && (f->shift + f->bits == 64 || key >> (f->shift + f->bits) == x->bits))
            x->count[key >> f->shift & ((1 << f->bits) - 1)]++;
    }
}

static void find_next(void *user, const double *cells)
{
    const Fit *f = user;

    for (int i = 0; i < f->n; i++) {
        NumberFit *x = &f->number[i];
        const double v = cells[x->at];

        x->next = v > x->found && v < x->next ? v : x->next;
    }
}

static void add_numbers(void *user, const double *cells)
{
    const Fit *f = user;

    for (int i = 0; i < f->n; i++) {
        NumberFit *x = &f->number[i];

        x->sum += isnan(cells[x->at]) ? x->median : cells[x->at];
    }
}

static void add_squares(void *user, const double *cells)
{
    const Fit *f = user;

    for (int i = 0; i < f->n; i++) {
        NumberFit *x = &f->number[i];
        const double d = (isnan(cells[x->at]) ? x->median : cells[x->at]) - x->col->mean;

        x->squares += d * d;
        x->rest += d; /* what the mean's rounding left */
    }
}

/* ---- what they find ---- */

/* Takes the counted bits: those of the number that is looked for.  Returns how many numbers share them. */
static int64_t take_bits(NumberFit *x, int bits, bool first)
{
    uint64_t b = 0;

    for (int64_t i = 0; first && i < 1 << bits; i++)
        x->numbers += x->count[i];
    if (first)
        x->left = (x->numbers - 1) / 2;
    for (; b + 1 < (uint64_t)1 << bits && x->count[b] <= x->left; b++)
        x->left -= x->count[b];
    x->bits = x->bits << bits | b;
    return x->count[b];
}

/* Finds the medians of all columns that have numbers. */
static void fit_medians(Fit *f, const int64_t *row, int64_t n)
{
    bool between = false; /* a median lies between two numbers */

    for (f->shift = 64; f->shift > 0;) {
        f->bits = f->shift < f->key_bits ? f->shift : f->key_bits;
        f->shift -= f->bits;
        memset(f->count, 0, ((size_t)f->n << f->key_bits) * sizeof *f->count);
        table_visit(f->t, row, n, count_keys, f);
        for (int i = 0; i < f->n; i++) {
            NumberFit *x = &f->number[i];
            const int64_t same = take_bits(x, f->bits, f->shift + f->bits == 64);

            x->found = key_value(x->bits);
            /* an even number of them, of which the lower half ends with this one */
            x->next = x->numbers % 2 || same - x->left > 1 ? x->found : (double)INFINITY;
            between |= !f->shift && x->next > x->found;
        }
    }
    if (between)
        table_visit(f->t, row, n, find_next, f);
    for (int i = 0; i < f->n; i++) {
        NumberFit *x = &f->number[i];

        x->median = x->next == x->found ? x->found : (x->found + x->next) / 2;
    }
}

/* Finds means and scales over all rows, with the median for missing numbers.  A column without a spread beyond rounding
 * has the scale 1, by scikit-learn's bound. */
static void fit_scales(Fit *f, const int64_t *row, int64_t n)
{
    const double eps = DBL_EPSILON, count = (double)n;

    table_visit(f->t, row, n, add_numbers, f);
    for (int i = 0; i < f->n; i++) {
        Column *col = &f->t->column[f->number[i].at - 1];

        col->median = f->number[i].median;
        col->mean = f->number[i].sum / count;
    }
    table_visit(f->t, row, n, add_squares, f);
    for (int i = 0; i < f->n; i++) {
        Column *col = &f->t->column[f->number[i].at - 1];
        const NumberFit *x = &f->number[i];
        const double variance = (x->squares - x->rest * x->rest / count) / count;

        col->scale = sqrt(variance);
        if (isfinite(variance) &&
            !(variance > count * eps * variance + (count * col->mean * eps) * (count * col->mean * eps)))
            col->scale = 1;
    }
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp((*(Category *const *)a)->text, (*(Category *const *)b)->text);
}

static int compare_numbers(const void *a, const void *b)
{
    double x = 0, y = 0;

    (void)table_number(&x, (*(Category *const *)a)->text, false);
    (void)table_number(&y, (*(Category *const *)b)->text, false);
    return (x > y) - (x < y);
}

/* Puts the categories that rows have, all that the file has for classes, in order. */
static Status order_categories(Table *t, Column *col)
{
    bool numbers = col->target;
    double v;

    col->n_known = 0;
    if (!(col->known = ARENA_NEW(t->arena, Category *, col->n_seen + 1)))
        return FAIL_NOMEM();
    for (int k = 0; k < col->n_seen; k++) {
        col->seen[k]->place = -1;
        if (col->seen[k]->rows || col->target)
            col->known[col->n_known++] = col->seen[k];
    }
    for (int k = 0; k < col->n_known; k++)
        numbers &= table_number(&v, col->known[k]->text, false);
    qsort(col->known, (size_t)col->n_known, sizeof(Category *), numbers ? compare_numbers : compare_texts);
    for (int k = 0; k < col->n_known; k++)
        col->known[k]->place = k;
    return ST_OK;
}

static Status fit_categories(Fit *f, const int64_t *row, int64_t n)
{
    Status st = ST_OK;

    for (int i = 0; i < f->t->n; i++)
        for (int k = 0; k < f->t->column[i].n_seen; k++)
            f->t->column[i].seen[k]->rows = 0;
    table_visit(f->t, row, n, count_categories, f);
    for (int i = 0; i < f->t->n && !st; i++)
        if (f->t->column[i].kind == COLUMN_CATEGORY)
            st = order_categories(f->t, &f->t->column[i]);
    return st;
}

Status table_order_classes(Table *t)
{
    return t->target >= 0 && t->column[t->target].kind == COLUMN_CATEGORY ? order_categories(t, &t->column[t->target])
                                                                          : ST_OK;
}

/* Fits the columns of numbers. */
static void fit_numbers(Fit *f, const int64_t *row, int64_t n, Problems *wrong)
{
    fit_medians(f, row, n);
    for (int i = 0; i < f->n; i++)
        if (!f->number[i].numbers)
            problems_add(wrong, "column '%.60s' holds no number in the training rows: drop=%.60s",
                         f->number[i].col->name, f->number[i].col->name);
    if (wrong->n)
        return;
    fit_scales(f, row, n);
    for (int i = 0; i < f->n; i++)
        if (!isfinite(f->number[i].col->scale) || !isfinite(f->number[i].col->mean))
            problems_add(wrong, "column '%.60s' holds numbers too large to be standardised", f->number[i].col->name);
}

Status table_fit(Table *t, const int64_t *row, int64_t n)
{
    Fit f = { .t = t, .number = calloc((size_t)t->n + 1, sizeof *f.number) };
    PROBLEMS(wrong);
    Status st = f.number ? ST_OK : FAIL_NOMEM();

    for (int i = 0; i < t->n && !st; i++)
        if (t->column[i].kind == COLUMN_NUMERIC && !t->column[i].target)
            f.number[f.n++] = (NumberFit){ .col = &t->column[i], .at = i + 1 };
    for (f.key_bits = KEY_BITS; f.key_bits > 1 && f.n << f.key_bits > MOST_COUNTS;)
        f.key_bits--;
    if (!st && !(f.count = malloc((((size_t)f.n + 1) << f.key_bits) * sizeof *f.count)))
        st = FAIL_NOMEM();
    for (int i = 0; i < f.n && !st; i++)
        f.number[i].count = f.count + ((size_t)i << f.key_bits);
    st = st ? st : fit_categories(&f, row, n);
    if (!st && f.n)
        fit_numbers(&f, row, n, &wrong);
    free(f.count);
    free(f.number);
    TRY(st);
    TRY(problems_fail(&wrong, E_INVALID, "%s", t->path));
    return table_place_features(t);
}
