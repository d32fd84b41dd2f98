/* Inputs of floats get features; inputs of integers get an id for each column: its whole number, or the number of its
 * category in sorted order, which is that of the categories for one that no training row has. */
#include "tools/data/csv_inputs.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "tools/table/csv_reader.h"

enum { MOST_LINE = 400, FORGET_ROWS = 1 << 16 };

/* ---- which columns feed which input ---- */

/* The columns that are divided, and what is wrong. */
typedef struct {
    TableSource *s;
    const SourceContext *c;
    bool *left; /* [t->n] columns without an input */
    int used;   /* columns that have one */
    Problems wrong;
} Division;

static bool is_integer(dpx_dtype t) { return t == DPX_INT64 || t == DPX_INT32; }

/* Adds a tensor without columns; `in` NULL: for no model. */
static FeatureTensor *add_tensor(Division *d, const dpx_info *in, const char *array)
{
    FeatureTensor *to = &d->s->tensor[d->s->n];

    *to = (FeatureTensor){ .name = in ? in->name : "", .column = d->s->column + d->used, .rank = 2 };
    if (in && is_integer(in->dtype)) {
        to->id_bytes = (int)dpx_dtype_size(in->dtype);
        to->rank = in->rank == 1 ? 1 : 2;
    }
    d->s->maker[d->s->n] = (TensorMaker){ d->s, to };
    d->s->array[d->s->n++] = array ? array : to->name;
    return to;
}

static void take_column(Division *d, FeatureTensor *to, int column)
{
    d->s->column[d->used++] = column;
    to->n++;
    d->left[column] = false;
}

/* The list of columns that the user or the training run gave for an input; NULL: none. */
static const char *list_of(const SourceContext *c, int i, bool *by_run)
{
    const json_t *lists = json_object_get(json_object_get(c->fitted, "table"), "inputs");

    *by_run = !c->mapped || !c->mapped[i];
    return *by_run ? json_string_value(json_object_get(lists, c->input[i].name)) : c->mapped[i];
}

static const char *why_taken(const Column *col)
{
    if (col->target)
        return "is the target";
    if (col->kind == COLUMN_TEXT)
        return "has texts, which an input gets alone";
    return col->kind == COLUMN_DROPPED ? "is dropped" : "is given twice";
}

/* Gives the column of texts to an input; NULL: of no model. */
static void take_text(Division *d, const dpx_info *in, const char *array)
{
    TextColumn *x = &d->s->text;

    if (x->input)
        problems_add(&d->wrong,
                     "the column of texts '%.60s' feeds the model's inputs '%.80s' and '%.80s': --map %.80s=%s",
                     x->column, x->input, in->name, in->name, x->column);
    if (in && (!is_integer(in->dtype) || in->rank != 2))
        problems_add(&d->wrong,
                     "input '%.80s' takes no token ids of shape [N,T]: expected int64 or int32, for the texts "
                     "of column '%.60s'",
                     in->name, x->column);
    x->input = in ? in->name : x->column;
    x->array = array ? array : x->input;
}

static void add_listed(Division *d, int i, const char *list, bool by_run)
{
    const bool texts = d->s->text.column && !strcmp(list, d->s->text.column);
    FeatureTensor *to = texts ? NULL : add_tensor(d, &d->c->input[i], by_run ? NULL : list);
    const Table *t = d->s->t;

    d->s->listed = true;
    if (texts)
        take_text(d, &d->c->input[i], by_run ? NULL : list);
    for (const char *at = list; to && *at;) {
        const char *begin = at;
        const Column *col = table_take_name(d->s->t, &at);
        char names[TABLE_NAMES];

        if (!col)
            problems_add(&d->wrong, "--map %s=%s: no column '%.*s' (has: %s)", to->name, list, (int)strcspn(begin, "+"),
                         begin, table_names(names, t));
        else if (!d->left[col - t->column])
            problems_add(&d->wrong, "--map %s=%s: column '%.60s' %s", to->name, list, col->name, why_taken(col));
        else
            take_column(d, to, (int)(col - t->column));
    }
}

static void add_rest(Division *d, const dpx_info *in)
{
    FeatureTensor *to = add_tensor(d, in, NULL);

    for (int i = 0; i < d->s->t->n; i++)
        if (d->left[i])
            take_column(d, to, i);
    if (!to->n)
        problems_add(&d->wrong,
                     in ? "no column is left for the model's input '%.80s'" : "no column is left for features%s",
                     to->name);
}

static void divide(Division *d)
{
    const SourceContext *c = d->c;
    const dpx_info *rest = NULL;
    bool by_run, listed[MOST_INPUTS] = { false };
    const char *text = d->s->text.column;
    const int inputs = c->inputs < MOST_INPUTS - 1 ? c->inputs : MOST_INPUTS - 1;
    bool left = false;

    for (int i = 0; i < inputs; i++)
        if ((listed[i] = list_of(c, i, &by_run) != NULL))
            add_listed(d, i, list_of(c, i, &by_run), by_run);
    for (int i = 0; i < inputs; i++) {
        const char *name = c->input[i].name;
        const int column = table_find(d->s->t, name);

        if (listed[i] || !strcmp(name, "target") || (text && c->extent && c->extent[i] && column < 0))
            continue;
        if (text && !d->s->text.input && is_integer(c->input[i].dtype) && c->input[i].rank == 2 &&
            (column < 0 || column == table_find(d->s->t, text))) {
            take_text(d, &c->input[i], NULL);
            continue;
        }
        if (c->inputs > 1 && column >= 0 && d->left[column])
            take_column(d, add_tensor(d, &c->input[i], NULL), column);
        else if (rest)
            problems_add(&d->wrong,
                         "no column has the name of the model's input '%.80s' or '%.80s', and only a single input gets "
                         "all columns: name the columns of each with --map %.80s=COL+COL",
                         rest->name, name, name);
        else
            rest = &c->input[i];
    }
    for (int i = 0; i < d->s->t->n; i++)
        left |= d->left[i];
    if (rest || (!d->s->n && !text) || (!c->inputs && left))
        add_rest(d, rest);
    if (text && !c->inputs)
        take_text(d, NULL, NULL);
    else if (text && !d->s->text.input)
        problems_add(&d->wrong, "the model has no input of integers [N,T] for the token ids of column '%.60s'", text);
}

Status csv_divide(TableSource *s, const SourceContext *c)
{
    Division d = { .s = s, .c = c, .left = calloc((size_t)s->t->n + 1, sizeof *d.left) };

    s->column = calloc((size_t)s->t->n + 1, sizeof *s->column);
    if (!d.left || !s->column) {
        free(d.left);
        return FAIL_NOMEM();
    }
    for (int i = 0; i < s->t->n; i++)
        d.left[i] = table_is_feature(s->t, i);
    divide(&d);
    free(d.left);
    return problems_fail(&d.wrong, E_INVALID, "%s", s->t->path);
}

json_t *csv_lists(const TableSource *s)
{
    json_t *lists = json_object();

    if (lists && s->text.input && json_object_set_new(lists, s->text.input, json_string(s->text.column))) {
        json_decref(lists);
        return NULL;
    }
    for (int i = 0; i < s->n && lists; i++) {
        char *text;
        size_t size = 1;

        for (int k = 0; k < s->tensor[i].n; k++)
            size += strlen(s->t->column[s->tensor[i].column[k]].name) + 1;
        if ((text = malloc(size)))
            *text = '\0';
        for (int k = 0; k < s->tensor[i].n && text; k++)
            strcat(strcat(text, k ? "+" : ""), s->t->column[s->tensor[i].column[k]].name);
        if (!text || json_object_set_new(lists, s->tensor[i].name, json_string(text))) {
            json_decref(lists);
            lists = NULL;
        }
        free(text);
    }
    return lists;
}

/* ---- what they get ---- */

int csv_width(const TableSource *s, const FeatureTensor *to)
{
    int width = 0;

    for (int i = 0; i < to->n; i++)
        width += to->id_bytes ? 1 : s->t->column[to->column[i]].width;
    return width;
}

Status csv_fetch(const Array *a, int64_t row, const SampleKey *key, void *out)
{
    const TensorMaker *m = a->maker;
    const Table *t = m->s->t;
    double room[CSV_MOST_COLUMNS + 1];
    const double *cells;
    float *x = out;

    (void)key;
    TRY(table_cells(&cells, t, row, room));
    for (int i = 0; i < m->to->n; i++) {
        const Column *col = &t->column[m->to->column[i]];
        const double cell = cells[m->to->column[i] + 1];

        if (m->to->id_bytes == 8) {
            ((int64_t *)out)[i] = cell_id(col, cell);
        } else if (m->to->id_bytes) {
            ((int32_t *)out)[i] = (int32_t)cell_id(col, cell);
        } else {
            cell_features(col, cell, x);
            x += col->width;
        }
    }
    return ST_OK;
}

/* Checks that each row has an id of a column, which is below `rows` of the input's embedding; 0: unknown. */
static Status check_ids(const Table *t, int column, const dpx_info *in, int64_t rows)
{
    const Column *col = &t->column[column];
    const double most = in->rows ? (double)in->rows - 1 : in->dtype == DPX_INT32 ? INT32_MAX : TABLE_WHOLE_MOST;
    const double least = in->rows ? 0 : -most;
    char number[NUMBER_TEXT];

    if (col->kind == COLUMN_CATEGORY && in->rows && col->n_known > in->rows)
        return FAIL(E_INVALID, "%s: column '%.60s' has %d categories, but the embedding of input '%s' has %lld rows",
                    t->path, col->name, col->n_known, in->name, (long long)in->rows);
    for (int64_t row = 0; row < rows; row++) {
        const double v = table_value(t, column, row);

        if (row % FORGET_ROWS == FORGET_ROWS - 1)
            mapped_forget(&t->cells);
        if (col->kind == COLUMN_CATEGORY) {
            if (table_id(t, column, row) < (in->rows ? in->rows : col->n_known))
                continue;
            return FAIL(E_INVALID,
                        "%s, line %" PRId64
                        ", column '%.60s': no training row has the category '%.60s', and the embedding of input '%s' "
                        "has no row for unknown categories: expected %d rows",
                        t->path, table_line(t, row), col->name, table_unseen(t, column, &row, 1).text, in->name,
                        col->n_known + 1);
        }
        if (v >= least && v <= most && v == floor(v))
            continue;
        snprintf(number, sizeof number, "no value");
        return FAIL(E_INVALID,
                    "%s, line %" PRId64 ", column '%.60s': input '%s' takes ids, whole numbers from %.0f to %.0f, "
                    "found %s: name another column with --map %s=COL, or number its texts with category=%.60s",
                    t->path, table_line(t, row), col->name, in->name, least, most,
                    isnan(v) ? number : text_float64(number, v), in->name, col->name);
    }
    return ST_OK;
}

const dpx_info *csv_input(const SourceContext *c, const char *name)
{
    for (int i = 0; i < c->inputs; i++)
        if (!strcmp(c->input[i].name, name))
            return &c->input[i];
    return NULL;
}

Status csv_check(const TableSource *s, const FeatureTensor *to, const SourceContext *c, int64_t rows)
{
    const dpx_info *in = csv_input(c, to->name);
    const int width = csv_width(s, to);
    char list[MOST_LINE] = "";
    size_t len = 0;

    if (in && ((to->rank == 1 && width != 1) || (in->rank == 2 && in->dim[1] >= 0 && in->dim[1] != width))) {
        for (int k = 0; k < to->n && len < sizeof list - 80; k++) {
            const Column *col = &s->t->column[to->column[k]];

            len += (size_t)snprintf(list + len, sizeof list - len,
                                    to->id_bytes || col->width == 1 ? "%s'%.40s'" : "%s'%.40s' %d", k ? ", " : "",
                                    col->name, col->width);
        }
        return FAIL(E_INVALID, "%s: the columns make %d %s%s, the model's input '%s' takes %lld: %s", s->t->path, width,
                    to->id_bytes ? "id" : "feature", width == 1 ? "" : "s", in->name,
                    to->rank == 1 ? 1LL : (long long)in->dim[1], list);
    }
    for (int i = 0; i < to->n && in && to->id_bytes; i++)
        TRY(check_ids(s->t, to->column[i], in, rows));
    return ST_OK;
}
