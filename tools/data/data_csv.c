/* The csv format: a table whose columns are fitted on the training rows (tools/table/table.h). */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/jsontext.h"
#include "tools/data/csv_describe.h"
#include "tools/data/csv_inputs.h"

enum { MOST_NOTE = 2000 };
static const char fitted_key[] = "table";

static const DataOption options[] = {
    { "target", "COL+COL", "the column to predict, or several of numbers [target]" },
    { "numeric", "COL+COL", "columns of numbers, whatever they look like" },
    { "category", "COL+COL", "columns of categories, though they look like numbers" },
    { "drop", "COL+COL", "columns to leave out" },
    { "text", "COL", "a column of texts, whose token ids feed the model" },
    { "tokenizer", "FILE", "tokenizer.json or model of SentencePiece of these texts [each byte is a token]" },
    { "block", "T", "token ids of a sample: longer texts are cut [the length that the model's input fixes]" },
    { "padding", "ID", "the id behind shorter texts [the tokenizer's, else 0]" },
    { "header", "yes|no", "whether the first row has the columns' names [as it looks]" },
    { "delimiter", "WORD", "comma, semicolon, tab or pipe [the one that divides all rows alike]" },
    { "decimal", "point|comma", "how numbers are written [point]" },
    { NULL, NULL, NULL },
};

static void free_source(void *p)
{
    TableSource *s = p;

    table_free(s->t);
    csv_text_close(&s->text);
    free(s->column);
    free(s);
}

/* ---- arrays ---- */

/* Columns on their way into an array. */
typedef struct {
    const Table *t;
    const int *column; /* [n] */
    int n;
    bool integers, missing; /* missing: a row has no value, or one that is negative as an integer */
    FILE *to;
} ColumnWriter;

/* A TableVisit. */
static void write_columns(void *user, const double *cells)
{
    ColumnWriter *w = user;

    for (int i = 0; i < w->n; i++) {
        const double v = cell_value(&w->t->column[w->column[i]], cells[w->column[i] + 1]);
        const int64_t whole = w->integers && !isnan(v) ? (int64_t)v : -1;

        w->missing |= isnan(v) || (w->integers && whole < 0);
        (void)!fwrite(w->integers ? (const void *)&whole : &v, 8, 1, w->to); /* map_stream reports failures */
    }
}

/* Adds columns as an array of int64 [N] or float64 [N, columns], in a temporary file; with `lacks`, none where values
 * are missing. */
static Status add_columns(Dataset *d, const char *name, ColumnWriter w, bool lacks)
{
    Array a = { .dtype = w.integers ? DPX_INT64 : DPX_FLOAT64, .rank = w.integers ? 1 : 2, .dim = { w.t->rows, w.n } };

    TRY(temporary_open(&w.to, (uint64_t)w.t->rows * (uint64_t)w.n * 8, w.t->path));
    table_visit(w.t, NULL, w.t->rows, write_columns, &w);
    TRY(map_stream(&a.map, w.to, w.t->path));
    a.data = a.map.data;
    if ((lacks && w.missing) || !(a.name = strdup(name))) {
        mapped_close(&a.map);
        return lacks && w.missing ? ST_OK : FAIL_NOMEM();
    }
    return dataset_add(d, &a, w.t->path);
}

/* Adds the target: class numbers, or float64 numbers [N, columns]; none where rows lack it, which are for predictions.
 */
static Status add_target(Dataset *d, const Table *t)
{
    return t->target < 0 ? ST_OK
                         : add_columns(d, "target",
                                       (ColumnWriter){ .t = t,
                                                       .column = t->targets,
                                                       .n = t->n_targets,
                                                       .integers = t->column[t->target].kind == COLUMN_CATEGORY },
                                       true);
}

/* Adds the numbers of the rows' groups, by the column's name. */
static Status add_group(Dataset *d, const Table *t)
{
    const int column = table_find_group(t);

    return column < 0 ? ST_OK
                      : add_columns(d, t->column[column].name,
                                    (ColumnWriter){ .t = t, .column = &column, .n = 1, .integers = true }, false);
}

static Status name_classes(Dataset *d, const Column *target)
{
    if (!(d->class_name = calloc((size_t)target->n_known + 1, sizeof *d->class_name)))
        return FAIL_NOMEM();
    for (int i = 0; i < target->n_known; i++, d->classes++)
        if (!(d->class_name[i] = strdup(target->known[i]->text)))
            return FAIL_NOMEM();
    return ST_OK;
}

typedef struct {
    const Table *t;
    uint64_t hash;
} RowHash;

/* A TableVisit. */
static void hash_row(void *user, const double *cells)
{
    RowHash *h = user;

    for (int i = 0; i < h->t->n; i++) {
        const double v = table_is_feature(h->t, i) ? cell_value(&h->t->column[i], cells[i + 1]) : 0;
        const bool none = isnan(v) || (h->t->column[i].kind == COLUMN_CATEGORY && v < 0);

        h->hash = none ? hash_int(h->hash, i) : hash_bytes(h->hash, &v, sizeof v);
    }
}

/* A digest of the columns as they are fitted, and of all features' values; it is the same when the file is read again
 * with what was fitted. */
static Status identify(uint64_t *out, const Table *t)
{
    json_t *fitted = table_fitted(t);
    char *text = fitted ? json_text(fitted, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    RowHash h = { .t = t };

    json_decref(fitted);
    if (!text)
        return FAIL_NOMEM();
    h.hash = hash_text(HASH_BEGIN, text);
    free(text);
    table_visit(t, NULL, t->rows, hash_row, &h);
    *out = h.hash;
    return ST_OK;
}

/* Gives the arrays of features their widths, once the table is fitted. */
static Status finish_arrays(Dataset *d, const TableSource *s, const SourceContext *c)
{
    uint64_t identity;
    Status st = identify(&identity, s->t);

    for (int i = 0; i < s->n && !st; i++) {
        d->array[i].dim[1] = csv_width(s, &s->tensor[i]);
        d->array[i].identity = identity;
        st = csv_check(s, &s->tensor[i], c, d->limit < s->t->rows ? d->limit : s->t->rows);
    }
    return st;
}

static Status add_arrays(Dataset *d, TableSource *s, const SourceContext *c)
{
    const Table *t = s->t;

    TRY(csv_divide(s, c));
    for (int i = 0; i < s->n; i++) {
        const FeatureTensor *to = &s->tensor[i];
        Array a = { .dtype = to->id_bytes == 8 ? DPX_INT64
                             : to->id_bytes    ? DPX_INT32
                                               : DPX_FLOAT32,
                    .rank = to->rank,
                    .dim = { t->rows, 1 },
                    .fetch = csv_fetch,
                    .maker = &s->maker[i] };

        if (!(a.name = strdup(s->array[i])))
            return FAIL_NOMEM();
        TRY(dataset_add(d, &a, t->path));
    }
    return ST_OK;
}

/* Drops columns that feed no input, and notes them. */
static Status drop_unused(Dataset *d, const TableSource *s)
{
    char names[MOST_NOTE] = "";
    size_t len = 0;
    int n = 0;

    for (int i = 0; i < s->t->n; i++) {
        bool used = !table_is_feature(s->t, i);

        for (int k = 0; k < s->n && !used; k++)
            for (int c = 0; c < s->tensor[k].n; c++)
                used |= s->tensor[k].column[c] == i;
        if (used)
            continue;
        s->t->column[i].kind = COLUMN_DROPPED;
        if (len < MOST_NOTE - 100)
            len +=
                (size_t)snprintf(names + len, sizeof names - len, "%s'%.60s'", n++ ? ", " : "", s->t->column[i].name);
    }
    return n ? dataset_note(d, n > 1 ? "columns %s feed no input" : "column %s feeds no input", names) : ST_OK;
}

/* Rows with categories that the training rows lack. */
typedef struct {
    const Table *t;
    const int64_t *trained; /* [n] ascending; NULL: the first n rows */
    int64_t n, row, k;      /* the next row; the place of the next trained one */
    Unseen *column;         /* [t->n] */
} UnseenRows;

/* A TableVisit. */
static void count_unseen(void *user, const double *cells)
{
    UnseenRows *u = user;
    const bool trained = u->k < u->n && (u->trained ? u->trained[u->k] : u->k) == u->row;

    u->k += trained;
    u->row++;
    for (int i = 0; i < u->t->n && !trained; i++)
        if (!u->t->column[i].target)
            unseen_count(&u->column[i], &u->t->column[i], cells[i + 1], (int64_t)cells[0]);
}

/* Notes for the log that samples have categories that the training rows lack.  These are trained[0..n), ascending, or
 * the first n, and none of another file. */
static Status note_unseen(Dataset *d, const TableSource *s, const int64_t *trained, int64_t n)
{
    const Table *t = s->t;
    UnseenRows rows = { .t = t, .trained = trained, .n = n, .column = calloc((size_t)t->n + 1, sizeof(Unseen)) };
    char text[MOST_NOTE] = "";
    bool ids = false;
    size_t len = 0;

    if (!rows.column)
        return FAIL_NOMEM();
    table_visit(t, NULL, d->limit < t->rows ? d->limit : t->rows, count_unseen, &rows);
    for (int i = 0; i < t->n && len < sizeof text - 300; i++) {
        const Unseen u = rows.column[i];

        if (!u.rows)
            continue;
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "%scolumn '%.60s': %lld row%s a category that no training row has, first ",
                                len ? "; " : "", t->column[i].name, (long long)u.rows, u.rows == 1 ? " has" : "s have");
        len += (size_t)snprintf(text + len, sizeof text - len,
                                *u.text ? "'%.60s' in line %lld" : "%sa missing cell in line %lld", u.text,
                                (long long)u.line);
    }
    free(rows.column);
    for (int i = 0; i < s->n; i++)
        ids |= s->tensor[i].id_bytes > 0;
    return len ? dataset_note(d, "%s; it %ssets no indicator", text,
                              ids ? "is the last id of an input of ids, and " : "")
               : ST_OK;
}

/* Notes what the processes of a training compare: their rows and columns. */
static void note_rows(Dataset *d, const Table *t)
{
    DataFact *rows = &d->fact[d->facts++], *columns = &d->fact[d->facts++];
    char names[TABLE_NAMES];

    *rows = (DataFact){ .name = "rows" };
    *columns = (DataFact){ .name = "columns" };
    snprintf(rows->text, sizeof rows->text, "%" PRId64 ", of digest %016" PRIx64, t->rows, t->digest);
    snprintf(columns->text, sizeof columns->text, "%d: %.120s", t->n, table_names(names, t));
}

static Status read_csv(Dataset *d, const Source *source, const SourceContext *c)
{
    TableOptions how = { .target = source_value(source, "target"),
                         .numeric = source_value(source, "numeric"),
                         .category = source_value(source, "category"),
                         .drop = source_value(source, "drop"),
                         .text = source_value(source, "text"),
                         .take_text = csv_text_take,
                         .group = c->group,
                         .header = source_value(source, "header"),
                         .delimiter = source_value(source, "delimiter"),
                         .decimal = source_value(source, "decimal"),
                         .classes = c->target == DPX_TARGET_CLASSES,
                         .scores = c->scores,
                         .lacks_target = c->target == DPX_TARGET_NONE };
    const json_t *fitted = json_object_get(c->fitted, fitted_key);
    TableSource *s;

    if (c->joined && !fitted && !c->training)
        return FAIL(E_INVALID,
                    "%s: the model's file contains the preprocessing of its table, and takes raw columns from other "
                    "programs: give the run, or its model.onnx, to which dpexec gives the features",
                    source->text);
    if (!fitted && c->inputs && !c->training)
        return FAIL(E_INVALID,
                    "%s: neither the model's metadata nor a data.json beside it says how training fitted the columns: "
                    "give a model that dpexec trained on a table",
                    source->text);
    if (!(s = calloc(1, sizeof *s)))
        return FAIL_NOMEM();
    d->maker = s;
    d->free_maker = free_source;
    s->fitted = fitted != NULL;
    if (fitted && how.text && !json_object_get(fitted, "text"))
        return FAIL(E_INVALID, "%s: text=%s: training took no texts", source->text, how.text);
    TRY(csv_text_open(&s->text, source, json_object_get(fitted, "text"), c->threads ? c->threads : 1));
    how.user = &s->text;
    TRY(table_read(&s->t, source->path, &how, fitted));
    if (s->t->target < 0 && !how.lacks_target)
        return FAIL(E_INVALID, "%s: which column is the target? target=%.60s, or another column", source->text,
                    s->t->column[s->t->n - 1].name);
    note_rows(d, s->t);
    TRY(add_arrays(d, s, c));
    if (s->text.column) /* behind the tensors */
        TRY(csv_text_add(d, &s->text, s->t, csv_input(c, s->text.input)));
    TRY(add_group(d, s->t));
    if (!s->fitted)
        TRY(drop_unused(d, s));
    if (!s->fitted)
        TRY(table_order_classes(s->t));
    TRY(add_target(d, s->t));
    if (s->t->target >= 0 && s->t->column[s->t->target].kind == COLUMN_CATEGORY)
        TRY(name_classes(d, &s->t->column[s->t->target]));
    if (!s->fitted)
        return ST_OK; /* fit_csv goes on */
    TRY(note_unseen(d, s, NULL, 0));
    return finish_arrays(d, s, c);
}

static Status fit_csv(Dataset *d, const SourceContext *c, const int64_t *row, int64_t n)
{
    TableSource *s = d->maker;
    const json_t *fitted = json_object_get(c->fitted, fitted_key); /* by rank 0 */

    if (s->fitted)
        return ST_OK;
    TRY(fitted ? table_take_fit(s->t, fitted) : table_fit(s->t, row, n));
    TRY(note_unseen(d, s, row, n));
    if (fitted)
        return finish_arrays(d, s, c);
    if (c->fitted && json_object_set_new(c->fitted, fitted_key, table_fitted(s->t)))
        return FAIL_NOMEM();
    if (c->fitted && s->text.column &&
        json_object_set_new(json_object_get(c->fitted, fitted_key), "text", csv_text_fitted(&s->text)))
        return FAIL_NOMEM();
    if (c->fitted && s->listed && json_object_set_new(json_object_get(c->fitted, fitted_key), "inputs", csv_lists(s)))
        return FAIL_NOMEM();
    return finish_arrays(d, s, c);
}

static int64_t csv_line(const Dataset *d, int64_t row) { return table_line(((const TableSource *)d->maker)->t, row); }

/* Writes the columns' preprocessing for deployed models. */
static Status write_csv(const Dataset *d, const char *folder)
{
    const TableSource *s = d->maker;
    char path[4096];

    if (!s->n) /* of texts alone */
        return ST_OK;
    if (snprintf(path, sizeof path, "%s/preprocess.onnx", folder) >= (int)sizeof path)
        return FAIL(E_INVALID, "%s: the path is too long", folder);
    return preprocess_write(s->t, s->tensor, s->n, path);
}

DEFINE_DATA_FORMAT(csv, .form = "csv:FILE", .help = "a table; also FILE.csv", .prefix = "csv:", .suffix = ".csv",
                   .options = options, .read = read_csv, .fit = fit_csv, .line = csv_line, .describe = csv_describe,
                   .write = write_csv);
