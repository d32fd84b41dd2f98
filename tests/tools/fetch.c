/* Samples that a source makes one by one: any threads, parts and resumes give the same bytes; broken ones are replaced.
 * Expected values are written out here: the row, the seed and the epoch in decimal places. */
#include <stdlib.h>
#include <string.h>

#include "tests/harness/test.h"
#include "tools/feed/batch_loader.h"

enum { ROWS = 57, BATCH = 10, WIDTH = 3, EPOCH = 4, SEED = 7 };

/* Sample r is r * 1000 + epoch * 10 + position, and negative in evaluation; rows 5, 6, 40 to 43 and 56 are
 * broken. */
static Status fetch(const Array *a, int64_t row, const SampleKey *key, void *out)
{
    int32_t *x = out;

    if (*(const int *)a->maker && (row == 5 || row == 6 || row == 56 || (row >= 40 && row < 44)))
        return FAIL(E_IO, "row%d.bin: cut off", (int)row);
    for (int i = 0; i < WIDTH; i++)
        x[i] = (int32_t)(row * 1000 + key->epoch * 10 + i) * (key->training ? 1 : -1);
    return ST_OK;
}

/* A data set of a made array `x` and a plain one, `y`, of the rows' numbers. */
static Dataset *make_data(const int *broken)
{
    Dataset *d = calloc(1, sizeof *d);
    Array x = { .name = strdup("x"), .dtype = DPX_INT32, .rank = 2, .dim = { ROWS, WIDTH }, .fetch = fetch },
          y = { .name = strdup("y"), .dtype = DPX_INT64, .rank = 1, .dim = { ROWS } };
    int64_t *rows = malloc(ROWS * sizeof *rows);

    for (int i = 0; i < ROWS; i++)
        rows[i] = i;
    x.maker = broken;
    y.memory = rows;
    y.data = y.memory;
    CHECK_OK(dataset_add(d, &x, "test"));
    CHECK_OK(dataset_add(d, &y, "test"));
    CHECK_OK(dataset_complete(d, "test"));
    return d;
}

/* Reads batches from `first` on, samples [from, to) of each for `x`; *n samples are written to x and y. */
static void read_epoch(double *x, int64_t *y, int64_t *n, const Dataset *d, LoaderOptions how, int64_t first,
                       dpx_part part, int64_t *replaced)
{
    const Field field[] = { { .name = "x", .array = &d->array[0], .dtype = DPX_FLOAT64, .split = true },
                            { .name = "y", .array = &d->array[1], .dtype = DPX_INT64, .split = true } };
    Loader *l;

    *n = 0;
    how.batch_size = BATCH;
    how.seed = SEED;
    if (!CHECK_OK(loader_create(&l, d, field, 2, how)))
        return;
    if (part.to < BATCH || part.from)
        loader_take_part(l, part, (dpx_part){ part.from < 7 ? part.from : 7, part.to < 7 ? part.to : 7 });
    CHECK_OK(loader_start(l, EPOCH, first));
    for (const Batch *b; (b = loader_next(l));)
        for (int64_t i = 0; i < b->tensor[1].dim[0]; i++, ++*n) {
            y[*n] = ((const int64_t *)b->tensor[1].data)[i];
            memcpy(x + *n * WIDTH, (const double *)b->tensor[0].data + i * WIDTH, WIDTH * sizeof *x);
        }
    CHECK_OK(loader_status(l));
    if (replaced)
        *replaced = loader_replaced(l);
    loader_free(l);
}

static void test_made(void)
{
    const int broken = 0;
    Dataset *d = make_data(&broken);
    const LoaderOptions how = { .shuffle = true, .training = true };
    double x[ROWS * WIDTH], again[ROWS * WIDTH];
    int64_t y[ROWS], y_again[ROWS], n, seen[ROWS] = { 0 };

    read_epoch(x, y, &n, d, how, 0, (dpx_part){ 0, BATCH }, NULL);
    CU_ASSERT_EQUAL(n, ROWS);
    for (int i = 0; i < ROWS; i++) {
        seen[y[i]]++;
        for (int k = 0; k < WIDTH; k++)
            CU_ASSERT_EQUAL(x[i * WIDTH + k], (double)(y[i] * 1000 + EPOCH * 10 + k));
    }
    for (int i = 0; i < ROWS; i++)
        CU_ASSERT_EQUAL(seen[i], 1);
    for (int workers = 1; workers <= 9; workers += 4) {
        LoaderOptions many = how;

        many.workers = workers;
        read_epoch(again, y_again, &n, d, many, 0, (dpx_part){ 0, BATCH }, NULL);
        CU_ASSERT(n == ROWS && !memcmp(x, again, sizeof x) && !memcmp(y, y_again, sizeof y));
        read_epoch(again, y_again, &n, d, many, 3, (dpx_part){ 0, BATCH }, NULL); /* a resume within the epoch */
        CU_ASSERT(n == ROWS - 3 * BATCH && !memcmp(x + 3 * BATCH * WIDTH, again, (size_t)n * WIDTH * sizeof *x));
        for (int64_t from = 0; from < BATCH; from += 4) { /* the parts of three processes */
            const dpx_part part = { from, from + 4 < BATCH ? from + 4 : BATCH };

            read_epoch(again, y_again, &n, d, many, 0, part, NULL);
            for (int64_t i = 0, at = 0; i < ROWS; i++)
                if (i % BATCH >= part.from && i % BATCH < part.to) {
                    CU_ASSERT_EQUAL(y_again[at], y[i]);
                    CU_ASSERT(!memcmp(again + at++ * WIDTH, x + i * WIDTH, WIDTH * sizeof *x));
                }
        }
    }
    read_epoch(x, y, &n, d, (LoaderOptions){ .workers = 3 }, 0, (dpx_part){ 0, BATCH }, NULL); /* an evaluation */
    CU_ASSERT(y[8] == 8 && x[8 * WIDTH + 1] == -8041);
    dataset_free(d);
}

/* Collects the lines of the log. */
static void collect(void *text, int level, const char *line)
{
    CU_ASSERT_EQUAL(level, DPX_LOG_WARNING);
    strncat(text, line, 400);
    strcat(text, "\n");
}

static void test_broken(void)
{
    const int broken = 1;
    Dataset *d = make_data(&broken);
    double x[ROWS * WIDTH];
    int64_t y[ROWS], n, replaced;

    for (int workers = 1; workers < 6; workers += 2) {
        char text[4000] = "";

        read_epoch(x, y, &n, d, (LoaderOptions){ .training = true, .workers = workers, .log = collect, .user = text },
                   0, (dpx_part){ 0, BATCH }, &replaced);
        CU_ASSERT_STRING_EQUAL(text, "sample 5 is broken, and sample 7 takes its place: row5.bin: cut off\n"
                                     "sample 40 is broken, and sample 44 takes its place: row40.bin: cut off\n"
                                     "7 broken samples so far, in whose place others came\n");
        CU_ASSERT_EQUAL(replaced, 7);
        for (int i = 0; i < ROWS; i++) {
            const int64_t row = i == 5 || i == 6 ? 7 : i >= 40 && i < 44 ? 44 : i == 56 ? 0 : i;

            CU_ASSERT(y[i] == row && x[i * WIDTH] == (double)(row * 1000 + EPOCH * 10));
        }
    }
    dataset_free(d);
}

static Status fetch_none(const Array *a, int64_t row, const SampleKey *key, void *out)
{
    (void)a, (void)key, (void)out;
    return FAIL(row == 20 ? E_NOMEM : E_IO, "row%d.bin: gone", (int)row);
}

static void test_failures(void)
{
    const int broken = 0;
    Dataset *d = make_data(&broken);
    Field field = { .name = "x", .array = &d->array[0], .dtype = DPX_INT32 };
    const int64_t some[] = { 3, 4, 5 };
    Dataset *view;
    Loader *l;

    d->array[0].fetch = fetch_none;
    CHECK_OK(loader_create(&l, d, &field, 1, (LoaderOptions){ .batch_size = BATCH, .workers = 4 }));
    CHECK_OK(loader_start(l, 0, 0));
    CU_ASSERT_PTR_NULL(loader_next(l)); /* what is no broken sample ends the run */
    CHECK_FAILS(E_NOMEM, "row20.bin: gone", loader_status(l));
    CHECK_FAILS(E_NOMEM, "row20.bin: gone", loader_start(l, 1, 0));
    loader_free(l);
    CHECK_OK(dataset_view(&view, d, some, 3));
    CHECK_OK(loader_create(&l, view, &field, 1, (LoaderOptions){ .batch_size = 2 }));
    CHECK_OK(loader_start(l, 0, 0));
    CU_ASSERT_PTR_NULL(loader_next(l));
    CHECK_FAILS(E_IO, "every sample is broken: row3.bin: gone", loader_status(l));
    loader_free(l);
    dataset_free(view);
    CHECK_FAILS(E_INVALID, "the data is int32, which cannot be converted to int8",
                array_check_convert(&d->array[0], DPX_INT8, "x"));
    dataset_free(d);
}

static void test_views(void)
{
    const int broken = 0;
    const int64_t some[] = { 40, 2, 9, 33 };
    Dataset *d = make_data(&broken), *view;
    double x[ROWS * WIDTH];
    int64_t y[ROWS], n;

    CHECK_OK(dataset_view(&view, d, some, 4));
    read_epoch(x, y, &n, view, (LoaderOptions){ .training = true }, 0, (dpx_part){ 0, BATCH }, NULL);
    CU_ASSERT(n == 4 && !memcmp(y, some, sizeof some) && x[2 * WIDTH] == 9040);
    dataset_free(view);
    dataset_free(d);
}

DEFINE_SUITE(fetch, { "any threads, parts and resumes", test_made }, { "broken samples", test_broken },
             { "failures", test_failures }, { "views", test_views });
