/* The csv format: a table whose columns are fitted on the training rows (tools/table/table.h).
 *
 * The model's inputs that are called as columns get the features of these, the one that is left those of all other
 * columns. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/foreign.h"
#include "graph/base/jsontext.h"
#include "tools/data/data.h"
#include "tools/table/preprocess_graph.h"

enum { MOST_INPUTS = 64, MOST_LINE = 400, MOST_NOTE = 2000 };
static const char fitted_key[] = "table";

static const DataOption options[] = {
    { "target", "COL", "the column to predict [target]" },
    { "numeric", "COL+COL", "columns of numbers, whatever they look like" },
    { "category", "COL+COL", "columns of categories, though they look like numbers" },
    { "drop", "COL+COL", "columns to leave out" },
    { "header", "yes|no", "whether the first row has the columns' names [as it looks]" },
    { "delimiter", "WORD", "comma, semicolon, tab or pipe [the one that divides all rows alike]" },
    { "decimal", "point|comma", "how numbers are written [point]" },
    { NULL, NULL, NULL },
};

/* A table, and the tensors that it feeds: tensor[i] is array i of the data set. */
typedef struct {
    Table *t;
    bool fitted; /* by the training data */
    int n;
    FeatureTensor tensor[MOST_INPUTS];
    int *column; /* [t->n] of all tensors, one behind the other */
} TableSource;

static void free_source(void *p)
{
    TableSource *s = p;

    table_free(s->t);
    free(s->column);
    free(s);
}

/* A SampleFetch. */
static Status fetch_features(const Array *a, int64_t row, const SampleKey *key, void *out)
{
    const TableSource *s = a->maker;
    const FeatureTensor *to = s->tensor;
    float *x = out;

    (void)key;
    while (strcmp(to->name, a->name))
        to++;
    for (int i = 0; i < to->n; i++) {
        table_column_features(s->t, to->column[i], row, x);
        x += s->t->column[to->column[i]].width;
    }
    return ST_OK;
}

/* ---- which columns feed which input ---- */

static bool is_feature(const Table *t, int i) { return i != t->target && t->column[i].kind != COLUMN_DROPPED; }

/* Adds a tensor of the columns that `takes` marks, and clears the marks. */
static void add_tensor(TableSource *s, const char *name, bool *takes, int *used)
{
    FeatureTensor *to = &s->tensor[s->n++];

    *to = (FeatureTensor){ .name = name, .column = s->column + *used };
    for (int i = 0; i < s->t->n; i++)
        if (takes[i])
            s->column[*used + to->n++] = i;
    *used += to->n;
    memset(takes, 0, (size_t)s->t->n * sizeof *takes);
}

/* Divides the columns among the model's inputs; without a model all feed the input "". */
static Status divide_columns(TableSource *s, const SourceContext *c, const char *path)
{
    const char *rest = NULL;
    bool *free_of = calloc((size_t)s->t->n * 2 + 1, sizeof *free_of), *one = free_of + s->t->n;
    Problems wrong = { 0 };
    int used = 0, left = 0;

    s->column = calloc((size_t)s->t->n + 1, sizeof *s->column);
    if (!free_of || !s->column) {
        free(free_of);
        return FAIL_NOMEM();
    }
    for (int i = 0; i < s->t->n; i++)
        left += free_of[i] = is_feature(s->t, i);
    for (int i = 0; i < c->inputs && s->n < MOST_INPUTS - 1; i++) {
        const char *name = c->input[i].name;
        const int column = table_find(s->t, name);

        if (!strcmp(name, "target"))
            continue;
        if (c->inputs > 1 && column >= 0 && free_of[column]) {
            one[column] = true;
            free_of[column] = false;
            left--;
            add_tensor(s, name, one, &used);
        } else if (rest) {
            problems_add(&wrong,
                         "no column is called as the model's inputs '%.80s' and '%.80s', and one input alone can "
                         "get the features of all columns",
                         rest, name);
        } else {
            rest = name;
        }
    }
    if ((rest || !s->n) && left)
        add_tensor(s, rest ? rest : "", free_of, &used);
    else if (rest)
        problems_add(&wrong, "no column is left for the model's input '%.80s'", rest);
    free(free_of);
    return problems_fail(&wrong, E_INVALID, "%s", path);
}

/* ---- arrays ---- */

static int tensor_width(const TableSource *s, const FeatureTensor *to)
{
    int width = 0;

    for (int i = 0; i < to->n; i++)
        width += s->t->column[to->column[i]].width;
    return width;
}

/* Checks the features of a tensor against the model's input, and lists the columns' features where they differ. */
static Status check_width(const TableSource *s, const FeatureTensor *to, const SourceContext *c)
{
    const int width = tensor_width(s, to);
    char list[MOST_LINE] = "";
    size_t len = 0;

    for (int i = 0; i < c->inputs; i++) {
        const dpx_info *in = &c->input[i];

        if (strcmp(in->name, to->name) || in->rank != 2 || in->dim[1] < 0 || in->dim[1] == width)
            continue;
        for (int k = 0; k < to->n && len < sizeof list - 80; k++) {
            const Column *col = &s->t->column[to->column[k]];

            len += (size_t)snprintf(list + len, sizeof list - len, col->width == 1 ? "%s'%.40s'" : "%s'%.40s' %d",
                                    k ? ", " : "", col->name, col->width);
        }
        return FAIL(E_INVALID, "%s: the columns make %d features, the model's input '%s' takes %lld: %s", s->t->path,
                    width, in->name, (long long)in->dim[1], list);
    }
    return ST_OK;
}

/* Adds the target: class numbers, or float64 numbers [N, 1]. */
static Status add_target(Dataset *d, const TableSource *s)
{
    const Table *t = s->t;
    const bool classes = t->column[t->target].kind == COLUMN_CATEGORY;
    Array a = { .dtype = classes ? DPX_INT64 : DPX_FLOAT64, .rank = classes ? 1 : 2, .dim = { t->rows, 1 } };

    a.name = strdup("target");
    a.memory = malloc((size_t)t->rows * 8);
    a.data = a.memory;
    if (!a.name || !a.memory) {
        free(a.name);
        free(a.memory);
        return FAIL_NOMEM();
    }
    for (int64_t i = 0; i < t->rows; i++) {
        const double v = table_value(t, t->target, i);

        if (classes)
            ((int64_t *)a.memory)[i] = (int64_t)v;
        else
            ((double *)a.memory)[i] = v;
    }
    return dataset_add(d, &a, t->path);
}

/* Whether each row has a target, whose class is known. */
static bool has_targets(const Table *t)
{
    const bool classes = t->column[t->target].kind == COLUMN_CATEGORY;

    for (int64_t i = 0; i < t->rows; i++) {
        const double v = table_value(t, t->target, i);

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
            const double v = is_feature(t, i) ? table_value(t, i, row) : 0;
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
        d->array[i].dim[1] = tensor_width(s, &s->tensor[i]);
        d->array[i].identity = identity;
        st = check_width(s, &s->tensor[i], c);
    }
    return st;
}

static Status add_arrays(Dataset *d, TableSource *s, const SourceContext *c)
{
    const Table *t = s->t;

    TRY(divide_columns(s, c, t->path));
    for (int i = 0; i < s->n; i++) {
        Array a = { .dtype = DPX_FLOAT32, .rank = 2, .dim = { t->rows, 1 }, .fetch = fetch_features, .maker = s };

        if (!(a.name = strdup(s->tensor[i].name)))
            return FAIL_NOMEM();
        TRY(dataset_add(d, &a, t->path));
    }
    return ST_OK;
}

/* Notes for the log that samples have categories that the training rows lack.  These are trained[0..n), ascending, and
 * none of another file. */
static Status note_unseen(Dataset *d, const Table *t, const int64_t *trained, int64_t n)
{
    const int64_t samples = d->limit < t->rows ? d->limit : t->rows;
    int64_t *row = malloc((size_t)samples * sizeof *row + 1), others = 0;
    char text[MOST_NOTE] = "";
    size_t len = 0;

    if (!row)
        return FAIL_NOMEM();
    for (int64_t i = 0, k = 0; i < samples; i++) {
        row[others] = i;
        others += k == n || trained[k] != i;
        k += k < n && trained[k] == i;
    }
    for (int i = 0; i < t->n && len < sizeof text - 300; i++) {
        const Unseen u = i == t->target ? (Unseen){ 0 } : table_unseen(t, i, row, others);

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
    if (!len)
        return ST_OK;
    free(d->note);
    if (!(d->note = malloc(MOST_NOTE + strlen(t->path) + 64)))
        return FAIL_NOMEM();
    sprintf(d->note, "%s: %s; it sets no indicator", t->path, text);
    foreign_clean(d->note);
    return ST_OK;
}

static Status read_csv(Dataset *d, const Source *source, const SourceContext *c)
{
    const TableOptions how = { .target = source_value(source, "target"),
                               .numeric = source_value(source, "numeric"),
                               .category = source_value(source, "category"),
                               .drop = source_value(source, "drop"),
                               .header = source_value(source, "header"),
                               .delimiter = source_value(source, "delimiter"),
                               .decimal = source_value(source, "decimal"),
                               .classes = c->target == DPX_TARGET_CLASSES,
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
    TRY(table_read(&s->t, source->path, &how, fitted));
    if (s->t->target < 0 && !how.lacks_target)
        return FAIL(E_INVALID, "%s: which column is the target? target=%.60s, or another column", source->text,
                    s->t->column[s->t->n - 1].name);
    TRY(add_arrays(d, s, c));
    if (!s->fitted) /* classes are those of all rows */
        TRY(table_fit(s->t, NULL, s->t->rows));
    if (s->t->target >= 0 && has_targets(s->t)) /* rows without one are for predictions */
        TRY(add_target(d, s));
    if (s->t->target >= 0 && s->t->column[s->t->target].kind == COLUMN_CATEGORY)
        TRY(name_classes(d, &s->t->column[s->t->target]));
    if (s->fitted)
        TRY(note_unseen(d, s->t, NULL, 0));
    return finish_arrays(d, s, s->fitted ? c : &(SourceContext){ 0 }); /* else fit_csv compares the widths */
}

static Status fit_csv(Dataset *d, const SourceContext *c, const int64_t *row, int64_t n)
{
    TableSource *s = d->maker;

    if (s->fitted)
        return ST_OK;
    TRY(table_fit(s->t, row, n));
    TRY(note_unseen(d, s->t, row, n));
    if (c->fitted && json_object_set_new(c->fitted, fitted_key, table_fitted(s->t)))
        return FAIL_NOMEM();
    return finish_arrays(d, s, c);
}

static int64_t csv_line(const Dataset *d, int64_t row) { return table_line(((const TableSource *)d->maker)->t, row); }

/* Writes the columns' preprocessing for deployed models. */
static Status write_csv(const Dataset *d, const char *folder)
{
    const TableSource *s = d->maker;
    char path[4096];

    if (snprintf(path, sizeof path, "%s/preprocess.onnx", folder) >= (int)sizeof path)
        return FAIL(E_INVALID, "%s: the path is too long", folder);
    return preprocess_write(s->t, s->tensor, s->n, path);
}

DEFINE_DATA_FORMAT(csv, .form = "csv:FILE", .help = "a table; also FILE.csv", .prefix = "csv:", .suffix = ".csv",
                   .options = options, .read = read_csv, .fit = fit_csv, .line = csv_line, .write = write_csv);
