/* The csv format: a table whose columns are fitted on the training rows (tools/table/table.h). */
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
    { "tokenizer", "FILE.json", "byte-level BPE of these texts [each byte is a token]" },
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

/* Adds the target: class numbers, or float64 numbers [N, columns]. */
static Status add_target(Dataset *d, const TableSource *s)
{
    const Table *t = s->t;
    const bool classes = t->column[t->target].kind == COLUMN_CATEGORY;
    Array a = { .dtype = classes ? DPX_INT64 : DPX_FLOAT64, .rank = classes ? 1 : 2, .dim = { t->rows, t->n_targets } };

    a.name = strdup("target");
    a.memory = malloc((size_t)t->rows * (size_t)t->n_targets * 8);
    a.data = a.memory;
    if (!a.name || !a.memory) {
        free(a.name);
        free(a.memory);
        return FAIL_NOMEM();
    }
    for (int64_t i = 0; i < t->rows * t->n_targets; i++) {
        const double v = table_value(t, t->targets[i % t->n_targets], i / t->n_targets);

        if (classes)
            ((int64_t *)a.memory)[i] = (int64_t)v;
        else
            ((double *)a.memory)[i] = v;
    }
    return dataset_add(d, &a, t->path);
}

/* Adds the numbers of the rows' groups, by the column's name. */
static Status add_group(Dataset *d, const Table *t)
{
    const int column = table_find_group(t);
    Array a = { .dtype = DPX_INT64, .rank = 1, .dim = { t->rows } };

    if (column < 0)
        return ST_OK;
    a.name = strdup(t->column[column].name);
    a.memory = malloc((size_t)t->rows * sizeof(int64_t));
    a.data = a.memory;
    if (!a.name || !a.memory) {
        free(a.name);
        free(a.memory);
        return FAIL_NOMEM();
    }
    for (int64_t i = 0; i < t->rows; i++)
        ((int64_t *)a.memory)[i] = (int64_t)table_value(t, column, i);
    return dataset_add(d, &a, t->path);
}

/* Whether each row has a target, whose class is known. */
static bool has_targets(const Table *t)
{
    const bool classes = t->column[t->target].kind == COLUMN_CATEGORY;

    for (int64_t i = 0; i < t->rows * t->n_targets; i++) {
        const double v = table_value(t, t->targets[i % t->n_targets], i / t->n_targets);

        if (isnan(v) || (classes && v < 0))
            return false;
    }
    return true;
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

/* A digest of the columns as they are fitted, and of all features' values; it is the same when the file is read again
 * with what was fitted. */
static Status identify(uint64_t *out, const Table *t)
{
    json_t *fitted = table_fitted(t);
    char *text = fitted ? json_text(fitted, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

    json_decref(fitted);
    if (!text)
        return FAIL_NOMEM();
    *out = hash_text(HASH_BEGIN, text);
    free(text);
    for (int64_t row = 0; row < t->rows; row++)
        for (int i = 0; i < t->n; i++) {
            const double v = table_is_feature(t, i) ? table_value(t, i, row) : 0;
            const bool none = isnan(v) || (t->column[i].kind == COLUMN_CATEGORY && v < 0);

            *out = none ? hash_int(*out, i) : hash_bytes(*out, &v, sizeof v);
        }
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

/* Notes for the log that samples have categories that the training rows lack.  These are trained[0..n), ascending, and
 * none of another file. */
static Status note_unseen(Dataset *d, const TableSource *s, const int64_t *trained, int64_t n)
{
    const Table *t = s->t;
    const int64_t samples = d->limit < t->rows ? d->limit : t->rows;
    int64_t *row = malloc((size_t)samples * sizeof *row + 1), others = 0;
    char text[MOST_NOTE] = "";
    bool ids = false;
    size_t len = 0;

    if (!row)
        return FAIL_NOMEM();
    for (int64_t i = 0, k = 0; i < samples; i++) {
        row[others] = i;
        others += k == n || trained[k] != i;
        k += k < n && trained[k] == i;
    }
    for (int i = 0; i < t->n && len < sizeof text - 300; i++) {
        const Unseen u = t->column[i].target ? (Unseen){ 0 } : table_unseen(t, i, row, others);

        if (!u.rows)
            continue;
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "%scolumn '%.60s': %lld row%s a category that no training row has, first ",
                                len ? "; " : "", t->column[i].name, (long long)u.rows, u.rows == 1 ? " has" : "s have");
        len += (size_t)snprintf(text + len, sizeof text - len,
                                *u.text ? "'%.60s' in line %lld" : "%sa missing cell in line %lld", u.text,
                                (long long)u.line);
    }
    free(row);
    for (int i = 0; i < s->n; i++)
        ids |= s->tensor[i].id_bytes > 0;
    return len ? dataset_note(d, "%s; it %ssets no indicator", text,
                              ids ? "is the last id of an input of ids, and " : "")
               : ST_OK;
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
    TRY(csv_text_open(&s->text, source, json_object_get(fitted, "text")));
    how.user = &s->text;
    TRY(table_read(&s->t, source->path, &how, fitted));
    if (s->t->target < 0 && !how.lacks_target)
        return FAIL(E_INVALID, "%s: which column is the target? target=%.60s, or another column", source->text,
                    s->t->column[s->t->n - 1].name);
    TRY(add_arrays(d, s, c));
    if (s->text.column) /* behind the tensors */
        TRY(csv_text_add(d, &s->text, s->t, csv_input(c, s->text.input)));
    TRY(add_group(d, s->t));
    if (!s->fitted)
        TRY(drop_unused(d, s));
    if (!s->fitted) /* classes are those of all rows */
        TRY(table_fit(s->t, NULL, s->t->rows));
    if (s->t->target >= 0 && has_targets(s->t)) /* rows without one are for predictions */
        TRY(add_target(d, s));
    if (s->t->target >= 0 && s->t->column[s->t->target].kind == COLUMN_CATEGORY)
        TRY(name_classes(d, &s->t->column[s->t->target]));
    if (s->fitted)
        TRY(note_unseen(d, s, NULL, 0));
    return finish_arrays(d, s, s->fitted ? c : &(SourceContext){ 0 }); /* else fit_csv compares the widths */
}

static Status fit_csv(Dataset *d, const SourceContext *c, const int64_t *row, int64_t n)
{
    TableSource *s = d->maker;

    if (s->fitted)
        return ST_OK;
    TRY(table_fit(s->t, row, n));
    TRY(note_unseen(d, s, row, n));
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
