/* Columns and cells of tables: their names, categories, values and features. */
#include <math.h>
#include <string.h>

#include "graph/base/numtext.h"
#include "tools/table/table.h"

enum { LONGEST_NUMBER = 512 };

const char *const table_missing[] = { "", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "?", NULL };

bool table_is_missing(const char *text)
{
    for (const char *const *m = table_missing; *m; m++)
        if (!strcmp(text, *m))
            return true;
    return false;
}

bool table_number(double *out, const char *text, bool decimal_comma)
{
    const size_t n = strlen(text);
    char point[LONGEST_NUMBER], *comma;
    double v;

    if (!n || n >= sizeof point || !strchr("0123456789+-.,iI", *text)) /* most texts end here */
        return false;
    memcpy(point, text, n + 1);
    if (decimal_comma && strchr(point, '.'))
        return false;
    if (decimal_comma && (comma = strchr(point, ',')))
        *comma = '.';
    if (!text_to_float64(&v, point, n) || isnan(v))
        return false;
    *out = v;
    return true;
}

int table_find(const Table *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->column[i].name, name))
            return i;
    return -1;
}

int table_find_group(const Table *t)
{
    for (int i = 0; i < t->n; i++)
        if (t->column[i].group)
            return i;
    return -1;
}

Status table_add_column(Table *t, const char *name)
{
    Column *grown = arena_grow(t->arena, t->column, sizeof *grown, (size_t)t->n, &t->room);
    const char *own = arena_strdup(t->arena, name);

    if (!grown || !own)
        return FAIL_NOMEM();
    t->column = grown;
    t->column[t->n++] = (Column){ .name = own, .at = -1, .scale = 1 };
    return ST_OK;
}

Column *table_take_name(Table *t, const char **list)
{
    Column *found = NULL;
    size_t most = 0;

    for (int i = 0; i < t->n; i++) {
        const size_t n = strlen(t->column[i].name);

        if (n >= most && !strncmp(*list, t->column[i].name, n) && (!(*list)[n] || (*list)[n] == '+')) {
            found = &t->column[i];
            most = n;
        }
    }
    most = found ? most : strcspn(*list, "+");
    *list += most + ((*list)[most] == '+');
    return found;
}

const char *table_names(char text[TABLE_NAMES], const Table *t)
{
    size_t len = 0;

    *text = '\0';
    for (int i = 0; i < t->n && len < TABLE_NAMES - 60; i++)
        len += (size_t)snprintf(text + len, TABLE_NAMES - len, "%s'%.40s'", len ? ", " : "", t->column[i].name);
    return text;
}

Status table_set_targets(const char **problem, const char **wrong, Table *t, const char *list)
{
    if (!(t->targets = ARENA_NEW(t->arena, int, t->n + 1)))
        return FAIL_NOMEM();
    *problem = NULL;
    for (const char *at = list; *at;) {
        Column *col;

        *wrong = at;
        col = table_take_name(t, &at);
        if ((*problem = !col ? "no such column" : col->target ? "it is given twice" : NULL))
            break;
        col->target = true;
        t->targets[t->n_targets++] = (int)(col - t->column);
    }
    t->target = t->n_targets ? t->targets[0] : -1;
    if (t->n_targets && !(t->target_names = arena_strdup(t->arena, list)))
        return FAIL_NOMEM();
    return ST_OK;
}

/* A HashSame. */
static bool same_category(const void *item, const void *key) { return !strcmp(((const Category *)item)->text, key); }

Category *table_find_category(const Column *col, const char *text)
{
    return col->index.cap
               ? (Category *)(uintptr_t)hash_table_find(&col->index, hash_text(HASH_BEGIN, text), same_category, text)
               : NULL;
}

Status table_category(Category **out, Table *t, Column *col, const char *text)
{
    Category **grown, *c = table_find_category(col, text);

    *out = c;
    if (c || col->n_seen > TABLE_MOST_CATEGORIES)
        return ST_OK;
    if (!(grown = arena_grow(t->arena, col->seen, sizeof(Category *), (size_t)col->n_seen, &col->room)))
        return FAIL_NOMEM();
    col->seen = grown;
    if (!(c = ARENA_NEW(t->arena, Category, 1)) || !(c->text = arena_strdup(t->arena, text)) ||
        !hash_table_reserve(&col->index, t->arena))
        return FAIL_NOMEM();
    c->code = col->n_seen;
    c->place = -1;
    col->seen[col->n_seen++] = c;
    hash_table_add(&col->index, hash_text(HASH_BEGIN, text), c);
    *out = c;
    return ST_OK;
}

bool table_is_feature(const Table *t, int column)
{
    const Column *col = &t->column[column];

    return !col->target && (col->kind == COLUMN_NUMERIC || col->kind == COLUMN_CATEGORY);
}

Status table_place_features(Table *t)
{
    bool texts = false;
    int64_t n = 0;

    for (int i = 0; i < t->n; i++) {
        Column *col = &t->column[i];

        col->first = (int)n;
        col->width = !table_is_feature(t, i) ? 0 : col->kind == COLUMN_NUMERIC ? 1 : col->n_known;
        n += col->width;
        texts |= col->kind == COLUMN_TEXT;
        if (n > TABLE_MOST_FEATURES)
            return FAIL(E_UNSUPPORTED, "%s: more than %d features up to column '%.60s': drop= leaves columns out",
                        t->path, TABLE_MOST_FEATURES, col->name);
    }
    if (!n && !texts)
        return FAIL(E_INVALID, "%s: no column is left for features", t->path);
    t->features = (int)n;
    return ST_OK;
}

/* ---- values ---- */

static const double *row_of(const Table *t, int64_t row) { return t->cell + row * (t->n + 1); }

int64_t table_line(const Table *t, int64_t row) { return (int64_t)row_of(t, row)[0]; }

double table_value(const Table *t, int column, int64_t row)
{
    const double v = row_of(t, row)[column + 1];

    return isnan(v) || t->column[column].kind != COLUMN_CATEGORY ? v : t->column[column].seen[(int)v]->place;
}

int64_t table_id(const Table *t, int column, int64_t row)
{
    const double v = table_value(t, column, row);

    return t->column[column].kind == COLUMN_CATEGORY && !(v >= 0) ? t->column[column].n_known : (int64_t)v;
}

Unseen table_unseen(const Table *t, int column, const int64_t *row, int64_t n)
{
    const Column *col = &t->column[column];
    Unseen u = { 0 };

    for (int64_t i = 0; i < n && col->kind == COLUMN_CATEGORY; i++) {
        const double code = row_of(t, row[i])[column + 1];

        if ((!isnan(code) && col->seen[(int)code]->place >= 0) || col->at < 0)
            continue;
        if (!u.rows++) {
            u.line = table_line(t, row[i]);
            u.text = isnan(code) ? col->unseen_text : col->seen[(int)code]->text;
        }
    }
    return u;
}

void table_column_features(const Table *t, int column, int64_t row, float *out)
{
    const Column *col = &t->column[column];
    const double v = table_value(t, column, row);

    if (!col->width)
        return;
    if (col->kind == COLUMN_NUMERIC) {
        *out = (float)(((isnan(v) ? col->median : v) - col->mean) / col->scale);
        return;
    }
    for (int i = 0; i < col->width; i++)
        out[i] = i == v;
}

void table_features(const Table *t, int64_t row, float *out)
{
    for (int i = 0; i < t->n; i++)
        table_column_features(t, i, row, out + t->column[i].first);
}
