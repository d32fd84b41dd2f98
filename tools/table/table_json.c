/* What a table was fitted to, as JSON:
 *
 *     {"header": true, "decimal": "point", "target": "price", "columns": [
 *         {"name": "age", "kind": "numeric", "median": 31.0, "mean": 35.2, "scale": 11.5},
 *         {"name": "city", "kind": "category", "categories": ["", "Bergen", "Oslo"]},
 *         {"name": "row", "kind": "dropped"}, {"name": "price", "kind": "numeric"}]}
 *
 * The category "" is a missing cell; those of the target are its classes.  Several targets are "price+rent". */
#include <math.h>
#include <string.h>

#include "graph/base/jsontext.h"
#include "tools/table/csv_reader.h"
#include "tools/table/table.h"

static const char *const kinds[] = { "numeric", "category", "dropped", "text", NULL };

static json_t *column_json(const Column *col)
{
    json_t *j = json_pack("{s:s, s:s}", "name", col->name, "kind", kinds[col->kind]), *list = NULL;

    if (j && col->kind == COLUMN_NUMERIC && !col->target &&
        json_object_update_new(
            j, json_pack("{s:f, s:f, s:f}", "median", col->median, "mean", col->mean, "scale", col->scale)))
        goto failed;
    if (j && col->kind == COLUMN_CATEGORY && json_object_set_new(j, "categories", list = json_array()))
        goto failed;
    for (int i = 0; list && i < col->n_known; i++)
        if (json_array_append_new(list, json_string(col->known[i]->text)))
            goto failed;
    return j;
failed:
    json_decref(j);
    return NULL;
}

json_t *table_fitted(const Table *t)
{
    json_t *j = json_pack("{s:b, s:s, s:s?, s:[]}", "header", t->header, "decimal",
                          t->decimal_comma ? "comma" : "point", "target", t->target_names, "columns"),
           *columns = json_object_get(j, "columns");

    for (int i = 0; j && i < t->n; i++)
        if (json_array_append_new(columns, column_json(&t->column[i]))) {
            json_decref(j);
            return NULL;
        }
    return j;
}

/* Loads the categories in their order; with `seen` they are among those that the rows have. */
static Status load_categories(Table *t, Column *col, const json_t *list, bool seen)
{
    const size_t n = json_array_size(list);
    Category *c;

    if (!json_is_array(list) || n > TABLE_MOST_CATEGORIES)
        return FAIL(E_IO, "column '%.60s': expected a list of at most %d categories", col->name, TABLE_MOST_CATEGORIES);
    col->n_known = 0;
    if (!(col->known = ARENA_NEW(t->arena, Category *, n + 1)))
        return FAIL_NOMEM();
    for (int i = 0; i < col->n_seen; i++)
        col->seen[i]->place = -1;
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));

        c = text ? table_find_category(col, text) : NULL;
        if (!text || (c ? !seen || c->place >= 0 : seen))
            return FAIL(E_IO, "column '%.60s': category %zu is no text of its own", col->name, i + 1);
        if (!seen)
            TRY(table_category(&c, t, col, text));
        c->place = col->n_known;
        col->known[col->n_known++] = c;
    }
    return ST_OK;
}

/* Loads what was fitted to a column; `seen` as load_categories. */
static Status load_fit(Table *t, Column *col, const json_t *j, bool seen)
{
    if (col->kind == COLUMN_CATEGORY)
        return load_categories(t, col, json_object_get(j, "categories"), seen);
    col->median = json_number_value(json_object_get(j, "median"));
    col->mean = json_number_value(json_object_get(j, "mean"));
    if (json_object_get(j, "scale"))
        col->scale = json_number_value(json_object_get(j, "scale"));
    return isfinite(col->median) && isfinite(col->mean) && isfinite(col->scale) && col->scale > 0
               ? ST_OK
               : FAIL(E_IO, "column '%.60s': its median, mean or scale is no number, or not positive", col->name);
}

static Status load_column(Table *t, const json_t *j)
{
    const char *name = json_string_value(json_object_get(j, "name"));
    const char *kind = json_string_value(json_object_get(j, "kind"));
    Column *col;

    if (!name || !kind || table_find(t, name) >= 0)
        return FAIL(E_IO, "column %d has no name or kind, or the name of another", t->n + 1);
    TRY(table_add_column(t, name));
    col = &t->column[t->n - 1];
    for (col->kind = 0; kinds[col->kind] && strcmp(kinds[col->kind], kind);)
        col->kind++;
    if (!kinds[col->kind])
        return FAIL(E_IO, "column '%.60s': the kind '%.20s'", name, kind);
    return load_fit(t, col, j, false);
}

Status table_take_fit(Table *t, const json_t *fitted)
{
    const json_t *columns = json_object_get(fitted, "columns");

    for (int i = 0; i < t->n; i++) {
        const json_t *j = json_array_get(columns, (size_t)i);
        const char *name = json_string_value(json_object_get(j, "name")),
                   *kind = json_string_value(json_object_get(j, "kind"));

        if (!name || !kind || strcmp(name, t->column[i].name) || strcmp(kind, kinds[t->column[i].kind]))
            return FAIL(E_INVALID, "%s: column '%.60s' is not the one that rank 0 fitted", t->path, t->column[i].name);
        TRY(status_prefix(load_fit(t, &t->column[i], j, true), "%s", t->path));
    }
    return table_place_features(t);
}

Status table_load(Table *t, const json_t *fitted)
{
    const json_t *columns = json_object_get(fitted, "columns");
    const char *target = json_string_value(json_object_get(fitted, "target"));
    const char *decimal = json_string_value(json_object_get(fitted, "decimal"));
    const char *problem = NULL, *wrong;
    Status st = ST_OK;

    if (!json_is_array(columns) || json_array_size(columns) > CSV_MOST_COLUMNS)
        return FAIL(E_IO, "the run's table: expected a list of at most %d columns", CSV_MOST_COLUMNS);
    t->header = json_is_true(json_object_get(fitted, "header"));
    t->decimal_comma = decimal && !strcmp(decimal, "comma");
    for (size_t i = 0; i < json_array_size(columns) && !st; i++)
        st = load_column(t, json_array_get(columns, i));
    st = st || !target ? st : table_set_targets(&problem, &wrong, t, target);
    for (int i = 0; i < t->n_targets; i++)
        problem = t->column[t->targets[i]].kind == COLUMN_DROPPED ? "it is dropped" : problem;
    if (!st && problem)
        st = FAIL(E_IO, "no column holds the target '%.60s'", target);
    st = st ? st : table_place_features(t);
    return status_prefix(st, "the run's table");
}
