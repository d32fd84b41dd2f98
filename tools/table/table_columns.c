/* Columns and cells of tables: their names, categories, values and features. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "graph/base/numtext.h"
#include "tools/table/table.h"

enum { LONGEST_NUMBER = 512, SMALL_BYTES = 64 << 20 /* of cells that may stay in memory */, KEPT_BYTES = 8 << 20 };

const char *const table_missing[] = { "", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "?", NULL };

bool table_is_missing(const char *text)
{
    for (const char *const *m = table_missing; *m && (!*text || strchr("Nn#?", *text));
         m++) /* else it is none of them */
        if (!strcmp(text, *m))
            return true;
    return false;
}

/* Reads a decimal number of at most 15 digits, without an exponent, such as -12.5.  Its digits are an integer below
 * 2^53, and the power of ten that divides it is a float64, so that the quotient is the nearest float64 of the text. */
static bool read_short(double *out, const char *text, char point)
{
    static const double power[] = {
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15
    };
    const bool negative = *text == '-';
    int64_t digits = 0;
    int n = 0, behind = -1; /* behind: digits behind the point; -1: there is no point */

    for (text += negative; *text; text++) {
        if (*text == point && behind < 0) {
            behind = 0;
            continue;
        }
        if (*text < '0' || *text > '9' || ++n > 15)
            return false;
        digits = digits * 10 + (*text - '0');
        behind += behind >= 0;
    }
    if (!n)
        return false;
    *out = (double)digits / power[behind > 0 ? behind : 0];
    *out = negative ? -*out : *out;
    return true;
}

bool table_number(double *out, const char *text, bool decimal_comma)
{
    const size_t n = strlen(text);
    char point[LONGEST_NUMBER], *comma;
    double v;

    if (read_short(out, text, decimal_comma ? ',' : '.'))
        return true;
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
    int i = 0;

    *text = '\0';
    for (; i < t->n && len < TABLE_NAMES - 90; i++)
        len += (size_t)snprintf(text + len, TABLE_NAMES - len, "%s'%.40s'", len ? ", " : "", t->column[i].name);
    if (i < t->n)
        snprintf(text + len, TABLE_NAMES - len, " and %d more", t->n - i);
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
    t->overfull |= col->n_seen == TABLE_MOST_CATEGORIES;
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

void table_visit(const Table *t, const int64_t *row, int64_t n, TableVisit *visit, void *user)
{
    const int64_t kept = KEPT_BYTES / (int64_t)sizeof(double) / (t->n + 1);

    for (int64_t i = 0; i < n; i++) {
        visit(user, row_of(t, row ? row[i] : i));
        if (t->cells.size > SMALL_BYTES && (i % (kept + 1) == kept || i == n - 1))
            mapped_forget(&t->cells);
    }
}

Status table_cells(const double **out, const Table *t, int64_t row, double *room)
{
    const size_t size = ((size_t)t->n + 1) * sizeof *room;
    const bool mapped = t->cells.size <= SMALL_BYTES;
    size_t done = 0;

    while (!mapped && done < size) {
        const ssize_t n = pread(t->file, (char *)room + done, size - done, (off_t)((size_t)row * size + done));

        if (n <= 0 && !(n && errno == EINTR))
            return FAIL(E_DEVICE, "%s: its cells cannot be read from a temporary file: %s", t->path,
                        n ? strerror(errno) : "it is truncated");
        done += n > 0 ? (size_t)n : 0;
    }
    *out = mapped ? row_of(t, row) : room;
    return ST_OK;
}

double cell_value(const Column *col, double cell)
{
    return isnan(cell) || col->kind != COLUMN_CATEGORY ? cell : col->seen[(int)cell]->place;
}

int64_t cell_id(const Column *col, double cell)
{
    const double v = cell_value(col, cell);

    return col->kind == COLUMN_CATEGORY && !(v >= 0) ? col->n_known : (int64_t)v;
}

double table_value(const Table *t, int column, int64_t row)
{
    return cell_value(&t->column[column], row_of(t, row)[column + 1]);
}

int64_t table_id(const Table *t, int column, int64_t row)
{
    return cell_id(&t->column[column], row_of(t, row)[column + 1]);
}

/* Is it a category that no training row has? */
static bool is_unseen(const Column *col, double cell)
{
    return col->kind == COLUMN_CATEGORY && col->at >= 0 && (isnan(cell) || col->seen[(int)cell]->place < 0);
}

void unseen_count(Unseen *u, const Column *col, double cell, int64_t line)
{
    if (!is_unseen(col, cell) || u->rows++)
        return;
    u->line = line;
    u->text = isnan(cell) ? col->unseen_text : col->seen[(int)cell]->text;
}

Unseen table_unseen(const Table *t, int column, const int64_t *row, int64_t n)
{
    Unseen u = { 0 };

    for (int64_t i = 0; i < n; i++)
        unseen_count(&u, &t->column[column], row_of(t, row[i])[column + 1], table_line(t, row[i]));
    return u;
}

void cell_features(const Column *col, double cell, float *out)
{
    const double v = cell_value(col, cell);

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
        cell_features(&t->column[i], row_of(t, row)[i + 1], out + t->column[i].first);
}
