/* Fitting of tables, as scikit-learn's SimpleImputer(strategy="median"), StandardScaler and OneHotEncoder do.
 *
 * Medians are selected exactly by counting, so a column needs no sorted copy: the numbers' bits, in an order that is
 * theirs (order_key), are found 11 at a time, from the highest, by counts of the rows that share those found so far. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "tools/table/table.h"

enum { KEY_BITS = 11, BUCKETS = 1 << KEY_BITS };

static int64_t row_at(const int64_t *row, int64_t i) { return row ? row[i] : i; }

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

/* The selection of a number of a column. */
typedef struct {
    int64_t numbers, left; /* left: how many of those that share the bits are smaller */
    uint64_t bits;         /* found so far */
    int64_t up_to;         /* numbers up to the one that was found */
    double found, next;    /* next: the smallest above */
} Selection;

/* Adds the rows' numbers to a column's counts of the next `bits` bits, which end at `shift`. */
static void count_keys(int64_t *count, const Table *t, int column, const Selection *s, const int64_t *row, int64_t n,
                       int shift, int bits)
{
    for (int64_t i = 0; i < n; i++) {
        const double v = table_value(t, column, row_at(row, i));
        const uint64_t key = isnan(v) ? 0 : order_key(v);

        if (!isnan(v) && (shift + bits == 64 || key >> (shift + bits) == s->bits))
            count[key >> shift & ((1 << bits) - 1)]++;
    }
}

/* The median of a column's numbers, of which there is one. */
static void fit_median(Table *t, int column, const int64_t *row, int64_t n, int64_t *count)
{
    Selection s = { .next = (double)INFINITY };

    for (int64_t i = 0; i < n; i++)
        s.numbers += !isnan(table_value(t, column, row_at(row, i)));
    s.left = (s.numbers - 1) / 2;
    for (int shift = 64; shift > 0;) {
        const int bits = shift < KEY_BITS ? shift : KEY_BITS;
        uint64_t b = 0;

        shift -= bits;
        memset(count, 0, BUCKETS * sizeof *count);
        count_keys(count, t, column, &s, row, n, shift, bits);
        for (; b + 1 < (uint64_t)1 << bits && count[b] <= s.left; b++)
            s.left -= count[b];
        s.bits = s.bits << bits | b;
    }
    s.found = key_value(s.bits);
    for (int64_t i = 0; i < n; i++) {
        const double v = table_value(t, column, row_at(row, i));

        s.up_to += v <= s.found;
        if (v > s.found && v < s.next)
            s.next = v;
    }
    if (s.numbers % 2 || s.up_to > s.numbers / 2)
        s.next = s.found;
    t->column[column].median = s.next == s.found ? s.found : (s.found + s.next) / 2;
}

/* Mean and scale over all rows, with the median for missing numbers.  A column without a spread beyond rounding has the
 * scale 1, by scikit-learn's bound. */
static void fit_scale(Table *t, int column, const int64_t *row, int64_t n)
{
    Column *col = &t->column[column];
    const double eps = DBL_EPSILON, count = (double)n;
    double sum = 0, squares = 0, rest = 0, variance;

    for (int64_t i = 0; i < n; i++) {
        const double v = table_value(t, column, row_at(row, i));

        sum += isnan(v) ? col->median : v;
    }
    col->mean = sum / count;
    for (int64_t i = 0; i < n; i++) {
        const double v = table_value(t, column, row_at(row, i)), d = (isnan(v) ? col->median : v) - col->mean;

        squares += d * d;
        rest += d;
    }
    variance = (squares - rest * rest / count) / count; /* `rest` is what the mean's rounding left */
    col->scale = sqrt(variance);
    if (isfinite(variance) &&
        !(variance > count * eps * variance + (count * col->mean * eps) * (count * col->mean * eps)))
        col->scale = 1;
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

/* Finds which categories the rows have, all that the file has for classes, and puts them in order. */
static Status fit_categories(Table *t, int column, const int64_t *row, int64_t n)
{
    Column *col = &t->column[column];
    bool numbers = col->target;
    double v;

    for (int k = 0; k < col->n_seen; k++)
        col->seen[k]->rows = 0;
    for (int64_t i = 0; i < n; i++) {
        const double code = t->cell[row_at(row, i) * (t->n + 1) + column + 1];

        if (!isnan(code))
            col->seen[(int)code]->rows++;
    }
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

Status table_fit(Table *t, const int64_t *row, int64_t n)
{
    int64_t *count = calloc(BUCKETS, sizeof *count);
    Problems wrong = { 0 };
    Status st = count ? ST_OK : FAIL_NOMEM();

    for (int i = 0; i < t->n && !st; i++) {
        const Column *col = &t->column[i];
        int64_t numbers = 0;

        if (col->kind == COLUMN_CATEGORY)
            st = fit_categories(t, i, row, n);
        if (col->kind != COLUMN_NUMERIC || col->target)
            continue;
        for (int64_t k = 0; k < n && !numbers; k++)
            numbers += !isnan(table_value(t, i, row_at(row, k)));
        if (!numbers) {
            problems_add(&wrong, "column '%.60s' holds no number in the training rows: drop=%.60s", col->name,
                         col->name);
            continue;
        }
        fit_median(t, i, row, n, count);
        fit_scale(t, i, row, n);
        if (!isfinite(col->scale) || !isfinite(col->mean))
            problems_add(&wrong, "column '%.60s' holds numbers too large to be standardised", col->name);
    }
    free(count);
    if (st) {
        free(wrong.text);
        return st;
    }
    TRY(problems_fail(&wrong, E_INVALID, "%s", t->path));
    return table_place_features(t);
}
