/* Sequences of unequal length in files: stored one after another, with where each begins, or padded to one length, with
 * how long each is.
 *
 *     x [1000, 8] float32, x.offsets [101] int64: sample i is x[x.offsets[i]:x.offsets[i+1]]
 *     x [100, 32, 8] float32, x.lengths [100] int64: sample i is x[i, :x.lengths[i]]
 *
 * In both forms a sample is a run of the stored rows.  Padding in a file is never read. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/data/data.h"

/* Reads all of a vector of integers; the caller frees it. */
static Status read_integers(int64_t **out, const Array *a, const char *source)
{
    const int64_t n = a->dim[0];
    int64_t *index = malloc(((size_t)n + 1) * sizeof *index);

    if (a->rank != 1 || a->dtype == DPX_FLOAT32 || a->dtype == DPX_FLOAT64 || a->dtype == DPX_FLOAT16 ||
        a->dtype == DPX_BOOL) {
        free(index);
        return FAIL(E_IO, "%s: array '%s' of rank %d and type %s: expected a vector of integers", source, a->name,
                    a->rank, dpx_dtype_name(a->dtype));
    }
    if (!index)
        return FAIL_NOMEM();
    for (int64_t i = 0; i < n; i++)
        array_gather(a, &i, 1, DPX_INT64, index + i);
    *out = index;
    return ST_OK;
}

/* Fills row[n] by offset[n + 1]. */
static Status rows_by_offsets(Rows *row, const int64_t *offset, int64_t n, const Array *x, const Array *by,
                              const char *source)
{
    for (int64_t i = 0; i <= n; i++) {
        if (!i && offset[0])
            return FAIL(E_IO, "%s: '%s' begins with %" PRId64 ", expected 0", source, by->name, offset[0]);
        if (i && offset[i] < offset[i - 1])
            return FAIL(E_IO, "%s: '%s' falls from %" PRId64 " to %" PRId64 " at element %" PRId64, source, by->name,
                        offset[i - 1], offset[i], i);
        if (i)
            row[i - 1] = (Rows){ offset[i - 1], offset[i] - offset[i - 1] };
    }
    if (offset[n] != x->dim[0])
        return FAIL(E_IO, "%s: '%s' ends with %" PRId64 ", expected the %" PRId64 " rows of '%s'", source, by->name,
                    offset[n], x->dim[0], x->name);
    return ST_OK;
}

/* Fills row[n] by length[n]. */
static Status rows_by_lengths(Rows *row, const int64_t *length, int64_t n, const Array *x, const Array *by,
                              const char *source)
{
    int64_t all;

    if (x->rank < 2)
        return FAIL(E_IO, "%s: '%s' has rank %d, and so no axis of positions for the lengths in '%s'", source, x->name,
                    x->rank, by->name);
    if (n != x->dim[0])
        return FAIL(E_IO, "%s: '%s' has %" PRId64 " elements, expected the %" PRId64 " samples of '%s'", source,
                    by->name, n, x->dim[0], x->name);
    if (__builtin_mul_overflow(x->dim[0], x->dim[1], &all))
        return FAIL(E_IO, "%s: '%s' asks for more rows than can be counted", source, x->name);
    for (int64_t i = 0; i < n; i++) {
        if (length[i] < 0 || length[i] > x->dim[1])
            return FAIL(E_IO,
                        "%s: '%s' has length %" PRId64 " for sample %" PRId64 ", expected 0 to %" PRId64
                        ", the positions of '%s'",
                        source, by->name, length[i], i, x->dim[1], x->name);
        row[i] = (Rows){ i * x->dim[1], length[i] };
    }
    return ST_OK;
}

/* Makes x an array of samples, each of row[i].n positions. */
static void become_sequences(Array *x, Rows *row, int64_t samples, bool padded)
{
    int64_t most = 0;

    for (int64_t i = 0; i < samples; i++)
        most = row[i].n > most ? row[i].n : most;
    x->rows = padded ? x->dim[0] * x->dim[1] : x->dim[0];
    if (!padded) {
        memmove(x->dim + 2, x->dim + 1, (size_t)(x->rank - 1) * sizeof *x->dim);
        x->rank++;
    }
    x->dim[0] = samples;
    x->dim[1] = most;
    x->row = row;
}

/* Makes x sequences, whose offsets, or with `padded` lengths, are the array `by`. */
static Status pair(Array *x, Array *by, bool padded, const char *source)
{
    const int64_t samples = by->dim[0] - !padded;
    int64_t *number;
    Rows *row;
    Status st;

    if (x->row)
        return FAIL(E_IO, "%s: '%s' has both offsets and lengths", source, x->name);
    if (samples < 0 || (!padded && x->rank == DPX_MAX_RANK))
        return FAIL(E_IO,
                    "%s: '%s' has %" PRId64
                    " elements, and '%s' rank %d: expected one more than there are samples, and at most rank %d",
                    source, by->name, by->dim[0], x->name, x->rank, DPX_MAX_RANK - 1);
    TRY(read_integers(&number, by, source));
    row = malloc(((size_t)samples + 1) * sizeof *row);
    st = !row     ? FAIL_NOMEM()
         : padded ? rows_by_lengths(row, number, samples, x, by, source)
                  : rows_by_offsets(row, number, samples, x, by, source);
    free(number);
    if (st) {
        free(row);
        return st;
    }
    become_sequences(x, row, samples, padded);
    by->describes = true;
    return ST_OK;
}

Status sequences_pair(Dataset *d, const char *source)
{
    static const char *const ends[] = { ".offsets", ".lengths" };

    for (int i = 0; i < d->n; i++)
        for (int k = 0; k < d->n; k++)
            for (int e = 0; e < 2; e++) {
                const char *name = d->array[i].name, *by = d->array[k].name;

                if (*name && strlen(by) == strlen(name) + strlen(ends[e]) && !strncmp(by, name, strlen(name)) &&
                    !strcmp(by + strlen(name), ends[e]))
                    TRY(pair(&d->array[i], &d->array[k], e, source));
            }
    return ST_OK;
}
