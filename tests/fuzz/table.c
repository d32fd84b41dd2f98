/* Tables: the bytes are a CSV file, after one byte of options.  What is read is fitted; the same file, read again with
 * what was fitted, has the same features; the file's cells, written again, are read as the same texts. */
#include "tests/fuzz/common/fuzz.h"
#include "tools/table/csv_reader.h"
#include "tools/table/preprocess_graph.h"

static bool same_features(const Table *a, const Table *b, int64_t row)
{
    float *x = malloc(2 * ((size_t)a->features + 1) * sizeof *x), *y = x + a->features;
    bool same;

    MUST(x, "memory");
    table_features(a, row, x);
    table_features(b, row, y);
    same = !memcmp(x, y, (size_t)a->features * sizeof *x);
    free(x);
    return same;
}

/* Reads the file again with what was fitted. */
static void try_fitted(const Table *t, const char *path, const TableOptions *how)
{
    json_t *fitted = table_fitted(t);
    Table *again;
    Status st;

    MUST(fitted, "memory");
    st = table_read(&again, path, how, fitted);
    MUST(!st, "%s", status_message());
    MUST(again->rows == t->rows && again->features == t->features, "%d features, %d again", t->features,
         again->features);
    for (int64_t i = 0; i < t->rows; i++) {
        MUST(same_features(t, again, i), "row %d", (int)i);
        MUST(t->target < 0 || table_value(t, t->target, i) == table_value(again, t->target, i), "row %d", (int)i);
    }
    table_free(again);
    json_decref(fitted);
}

static void try_graph(const Table *t)
{
    int *column = malloc((size_t)t->n * sizeof *column), n = 0;
    FeatureTensor to = { .name = "features", .column = column };

    MUST(column, "memory");
    for (int i = 0; i < t->n; i++)
        if (t->column[i].width)
            column[n++] = i;
    to.n = n;
    MUST_DO(preprocess_write(t, &to, 1, "/dev/null"));
    free(column);
}

/* Writes the rows again, each cell as it must be, and reads them. */
static void try_cells(const char *path)
{
    const char *copy;
    Csv c, d;
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    bool more = true, again;
    Status st;

    MUST(to, "memory");
    if ((st = csv_open(&c, path, ','))) {
        fclose(to);
        free(text);
        fuzz_refused(st);
        return;
    }
    while (!(st = csv_next(&more, &c)) && more)
        for (int i = 0; i < c.n; i++) {
            csv_write(to, c.cell[i], ',');
            putc(i + 1 < c.n ? ',' : '\n', to);
        }
    fclose(to);
    csv_rewind(&c);
    copy = fuzz_file("copy.csv", text, size);
    MUST(!size || !csv_open(&d, copy, ','), "the copy opens");
    while (size && !csv_next(&more, &c) && more) {
        if (c.n == 1 && !*c.cell[0]) /* a line without text is no row */
            continue;
        MUST(!csv_next(&again, &d) && again && d.n == c.n, "%d cells, %d in the copy", c.n, d.n);
        for (int i = 0; i < c.n; i++)
            MUST(!strcmp(c.cell[i], d.cell[i]), "'%s' and '%s'", c.cell[i], d.cell[i]);
    }
    if (size)
        csv_close(&d);
    csv_close(&c);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const headers[] = { NULL, "yes", "no", NULL }, *const decimals[] = { NULL, "comma" };
    const uint8_t options = size ? data[0] : 0;
    const TableOptions how = { .header = headers[options & 3],
                               .decimal = decimals[options >> 2 & 1],
                               .classes = options & 8,
                               .numeric = options & 16 ? "a+b" : NULL,
                               .category = options & 32 ? "a+b+3" : NULL,
                               .target = options & 64 ? "a" : NULL };
    const char *path;
    Table *t;
    Status st;

    if (size < 2)
        return 0;
    path = fuzz_file("table.csv", data + 1, size - 1);
    try_cells(path);
    if ((st = table_read(&t, path, &how, NULL))) {
        fuzz_refused(st);
        return 0;
    }
    if ((st = table_fit(t, NULL, t->rows))) {
        fuzz_refused(st);
    } else {
        try_fitted(t, path, &how);
        try_graph(t);
    }
    table_free(t);
    return 0;
}
