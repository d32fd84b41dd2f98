/* Reading of tables: a first pass finds what each column holds, a second one stores the cells. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "graph/base/numtext.h"
#include "tools/data/data.h"
#include "tools/table/csv_reader.h"
#include "tools/args.h"
#include "tools/table/table.h"

enum { MOST_FAULTS = 8, /* that one error lists */ SAMPLE_TEXT = 64, FEW_TEXTS = 32 };

/* What a column holds. */
typedef struct {
    int64_t numbers, texts, commas; /* cells; commas: texts that are numbers with a comma */
    int64_t thousands;              /* texts that may be whole numbers with commas between thousands, as 1,000 */
    int64_t line;                   /* of the first text */
    char text[SAMPLE_TEXT];
    const char *head; /* the cell of the first row */
} Survey;

/* ---- options ---- */

static Status read_word(int *out, const char *option, const char *word, const char *const *words, const char *forms)
{
    for (*out = 0; word && words[*out]; ++*out)
        if (!strcmp(word, words[*out]))
            return ST_OK;
    return word ? FAIL(E_INVALID, "%s=%s: expected %s", option, word, forms) : ST_OK;
}

/* Opens the file; *header: 0 yes, 1 no, 2 to be found. */
static Status open_csv(Csv *c, Table *t, int *header, const TableOptions *how)
{
    static const char *const delimiters[] = { "comma", "semicolon", "tab", "pipe", NULL };
    static const char *const yes_no[] = { "yes", "no", NULL }, *const decimals[] = { "point", "comma", NULL };
    int d, decimal = 0;

    TRY(read_word(&d, "delimiter", how->delimiter, delimiters, "comma, semicolon, tab or pipe"));
    TRY(read_word(header, "header", how->header, yes_no, "yes or no"));
    TRY(read_word(&decimal, "decimal", how->decimal, decimals, "point or comma"));
    if (!how->header)
        *header = 2;
    if (how->decimal)
        t->decimal_comma = decimal == 1;
    TRY(csv_open(c, t->path, how->delimiter ? ",;\t|"[d] : '\0'));
    t->delimiter = c->delimiter;
    return ST_OK;
}

/* Gives the columns of a list a kind.  `given` counts how often each column is in a list. */
static void set_kinds(Table *t, const char *option, const char *list, ColumnKind kind, int *given, Problems *wrong)
{
    char names[TABLE_NAMES];

    for (const char *at = list; at && *at;) {
        const char *begin = at;
        Column *col = table_take_name(t, &at);

        if (!col)
            problems_add(wrong, "%s=%.*s: no such column (has: %s)", option, (int)strcspn(begin, "+"), begin,
                         table_names(names, t));
        else if (given[col - t->column]++)
            problems_add(wrong, "%s=%s: the column is given twice", option, col->name);
        else {
            col->kind = kind;
            col->insisted = kind == COLUMN_CATEGORY;
        }
    }
}

/* ---- what a file holds ---- */

/* Whether three digits follow each comma, and nothing else. */
static bool is_grouped(const char *cell)
{
    const char *at = cell + (*cell == '-');
    const size_t n = strspn(at, "0123456789");

    if (!n || n > 3 || at[n] != ',')
        return false;
    for (at += n; *at == ','; at += 4)
        if (strspn(at + 1, "0123456789") != 3)
            return false;
    return !*at;
}

static void survey_cell(Survey *s, const char *cell, int64_t line, bool decimal_comma)
{
    double v;

    if (table_is_missing(cell))
        return;
    if (table_number(&v, cell, decimal_comma)) {
        s->numbers++;
        return;
    }
    if (!s->texts++) {
        s->line = line;
        snprintf(s->text, sizeof s->text, "%s", cell);
    }
    s->thousands += is_grouped(cell);
    s->commas += !decimal_comma && strchr(cell, ',') && (table_number(&v, cell, true) || is_grouped(cell));
}

/* Whether the first row names the columns: each cell is a text of its own, or a column of numbers begins with a text.
 */
static bool looks_like_header(const Survey *s, int n)
{
    bool texts = true;
    double v;

    for (int i = 0; i < n; i++) {
        const bool number = table_number(&v, s[i].head, true) || table_number(&v, s[i].head, false);

        if (!number && !table_is_missing(s[i].head) && s[i].numbers && !s[i].texts)
            return true;
        texts &= !number && !table_is_missing(s[i].head);
        for (int k = 0; k < i && texts; k++)
            texts &= strcmp(s[i].head, s[k].head) != 0;
    }
    return texts;
}

/* Names the columns by the first row, or by their numbers.  A first column without a name is called "unnamed". */
static Status name_columns(Table *t, Csv *c)
{
    PROBLEMS(wrong);
    bool more;

    csv_rewind(c);
    TRY(csv_next(&more, c));
    for (int i = 0; i < c->n; i++) {
        char number[16];
        const char *name = c->cell[i];

        snprintf(number, sizeof number, "%d", i + 1);
        if (!t->header)
            name = number;
        else if (!*name && !i)
            name = "unnamed";
        if (!*name)
            problems_add(&wrong, "column %d has no name", i + 1);
        else if (table_find(t, name) >= 0)
            problems_add(&wrong, "columns %d and %d are both called '%.60s'", table_find(t, name) + 1, i + 1, name);
        TRY(table_add_column(t, name));
        t->column[i].at = i;
        if (t->header && !*c->cell[i]) /* pandas writes the numbers of rows so */
            t->column[i].kind = COLUMN_DROPPED;
    }
    return problems_fail(&wrong, E_IO, "%s, line %" PRId64, t->path, c->row_line);
}

/* Surveys all rows and adds the columns.  *out: [t->n], which the caller frees. */
static Status survey_file(Survey **out, Table *t, Csv *c, int header)
{
    int64_t first = 0, rows = 0;
    Survey *s = NULL;
    Status st;
    bool more;
    int n = 0;

    for (; !(st = csv_next(&more, c)) && more; rows++) {
        if (!rows) {
            first = c->row_line;
            n = c->n;
            if (!(s = calloc((size_t)n, sizeof *s)))
                return FAIL_NOMEM();
            for (int i = 0; i < n; i++)
                if (!(s[i].head = arena_strdup(t->arena, c->cell[i]))) {
                    free(s);
                    return FAIL_NOMEM();
                }
            continue;
        }
        for (int i = 0; i < n && c->n == n; i++) /* other rows are refused later, all at once */
            survey_cell(&s[i], c->cell[i], c->row_line, t->decimal_comma);
    }
    t->header = rows && (header == 2 ? looks_like_header(s, n) : !header);
    if (!st && rows == t->header)
        st = FAIL(E_IO, "%s: there are no rows%s", t->path, rows ? " but the header" : "");
    for (int i = 0; i < n && !t->header && !st; i++)
        survey_cell(&s[i], s[i].head, first, t->decimal_comma);
    st = st ? st : name_columns(t, c);
    if (st) {
        free(s);
        return st;
    }
    *out = s;
    return ST_OK;
}

/* Decides a column's kind by what it holds, unless a list did. */
static void find_kind(Column *col, const Survey *s, bool given, Problems *wrong)
{
    if (given || col->kind == COLUMN_DROPPED)
        return;
    col->kind = s->texts ? COLUMN_CATEGORY : COLUMN_NUMERIC;
    if (s->texts && s->commas == s->texts)
        problems_add(wrong,
                     s->thousands == s->texts
                         ? "column '%.60s' holds numbers with commas, first '%s' in line %" PRId64
                           ": remove commas between thousands; decimal=comma reads them as decimal points, "
                           "category=%.60s as texts"
                         : "column '%.60s' holds numbers with commas, first '%s' in line %" PRId64
                           ": decimal=comma reads them so, category=%.60s as texts",
                     col->name, s->text, s->line, col->name);
    else if (s->numbers > s->texts && s->texts)
        problems_add(wrong,
                     "column '%.60s' holds %" PRId64 " numbers, but '%s' in line %" PRId64 ", one of %" PRId64
                     " texts: correct it, or give category=%.60s or drop=%.60s",
                     col->name, s->numbers, s->text, s->line, s->texts, col->name, col->name);
    else if (!s->texts && !s->numbers && !col->target)
        problems_add(wrong, "column '%.60s' holds no value: drop=%.60s", col->name, col->name);
}

static Status find_targets(Table *t, const char *list, Problems *wrong)
{
    const char *problem, *at;
    char names[TABLE_NAMES], typed[64], meant[96] = "";
    Nearest near = { 0 };

    TRY(table_set_targets(&problem, &at, t, list ? list : "target"));
    if (!problem || !list)
        return ST_OK;
    snprintf(typed, sizeof typed, "%.*s", (int)strcspn(at, "+"), at);
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->column[i].name, typed))
            nearest_add(&near, t->column[i].name, typed);
    if (near.name)
        snprintf(meant, sizeof meant, ", did you mean %.60s?", near.name);
    problems_add(wrong, "target=%.*s: %s%s (has: %s)", (int)strcspn(at, "+"), at, problem, meant,
                 table_names(names, t));
    return ST_OK;
}

/* Targets of a class loss hold classes; several targets hold numbers. */
static void check_targets(Table *t, const Survey *s, bool classes, Problems *wrong)
{
    int texts = 0;

    for (int i = 0; i < t->n; i++) {
        Column *col = &t->column[i];

        if (col->target && col->kind == COLUMN_DROPPED)
            problems_add(wrong, "drop=%s: it is the target", col->name);
        else if (col->target && col->kind == COLUMN_TEXT)
            problems_add(wrong, "text=%s: it is the target", col->name);
        else if (col->kind == COLUMN_TEXT && texts++)
            problems_add(wrong, "text: '%s' is a second column", col->name);
        else if (col->target && classes && t->n_targets == 1)
            col->kind = COLUMN_CATEGORY;
        else if (col->target && t->n_targets > 1 && col->kind == COLUMN_CATEGORY)
            problems_add(wrong, "target=%s: several targets are numbers, and column '%.60s' holds categories%s%s",
                         t->target_names, col->name, s[i].texts ? ", such as " : "", s[i].text);
    }
    if (classes && t->n_targets > 1)
        problems_add(wrong, "target=%s: a class loss takes one column of classes", t->target_names);
}

/* Marks the column of groups. */
static void find_group(Table *t, const char *name, Problems *wrong)
{
    const int i = name ? table_find(t, name) : -1;
    char names[TABLE_NAMES];

    if (!name)
        return;
    if (i < 0)
        problems_add(wrong, "--val-split: group=%s: no such column (has: %s)", name, table_names(names, t));
    else if (t->column[i].target)
        problems_add(wrong, "--val-split: group=%s: it is the target", name);
    else {
        t->column[i].kind = COLUMN_DROPPED;
        t->column[i].group = true;
    }
}

static Status find_kinds(Table *t, const Survey *s, const TableOptions *how)
{
    int *given = calloc((size_t)t->n + 1, sizeof *given);
    PROBLEMS(wrong);
    Status st = given ? find_targets(t, how->target, &wrong) : FAIL_NOMEM();

    if (st) {
        free(given);
        return st;
    }
    set_kinds(t, "numeric", how->numeric, COLUMN_NUMERIC, given, &wrong);
    set_kinds(t, "category", how->category, COLUMN_CATEGORY, given, &wrong);
    set_kinds(t, "drop", how->drop, COLUMN_DROPPED, given, &wrong);
    set_kinds(t, "text", how->text, COLUMN_TEXT, given, &wrong);
    find_group(t, how->group, &wrong);
    for (int i = 0; i < t->n; i++)
        find_kind(&t->column[i], &s[i], given[i], &wrong);
    check_targets(t, s, how->classes, &wrong);
    free(given);
    return problems_fail(&wrong, E_INVALID, "%s", t->path);
}

/* ---- the cells ---- */

static Status store_category(double *out, Table *t, Column *col, const char *cell, bool fitted)
{
    char number[NUMBER_TEXT];
    Category *found;
    double v;

    *out = (double)NAN;
    if (col->target && table_number(&v, cell, t->decimal_comma) && fabs(v) <= TABLE_WHOLE_MOST)
        cell = text_float64(number, v); /* 1 and 1.0 are one class */
    if (fitted) {
        found = table_find_category(col, cell);
        if (!found && !col->unseen_text && !(col->unseen_text = arena_printf(t->arena, "%.60s", cell)))
            return FAIL_NOMEM();
    } else {
        TRY(table_category(&found, t, col, cell));
    }
    if (found)
        *out = found->code;
    return ST_OK;
}

/* Converts a cell; what is wrong with it is added to `wrong`. */
static Status store_cell(double *out, Table *t, Column *col, const char *cell, int64_t line, bool fitted,
                         const TableOptions *how, Problems *wrong)
{
    const bool missing = table_is_missing(cell), target = col->target;

    *out = (double)NAN;
    if (col->kind == COLUMN_TEXT)
        return how->take_text(how->user, cell, line);
    col->missing += missing;
    if (target && missing) {
        if (!how->lacks_target)
            problems_add(wrong, "line %" PRId64 ", column '%.60s': the target is missing", line, col->name);
        return ST_OK;
    }
    if (col->kind == COLUMN_CATEGORY) {
        TRY(store_category(out, t, col, missing ? "" : cell, fitted));
        if (target && isnan(*out) && fitted && !how->lacks_target)
            problems_add(wrong, "line %" PRId64 ", column '%.60s': the training rows have no class '%.60s'", line,
                         col->name, cell);
    } else if (!missing && !table_number(out, cell, t->decimal_comma)) {
        problems_add(wrong, "line %" PRId64 ", column '%.60s': expected a number, found '%.60s'", line, col->name,
                     cell);
    } else if (!missing && !isfinite(*out)) {
        problems_add(wrong, "line %" PRId64 ", column '%.60s': expected a finite number, found '%.60s'", line,
                     col->name, cell);
    }
    return ST_OK;
}

/* Adds a category column that has more texts than it may, or as many as a name. */
static void check_categories(const Table *t, const Column *col, Problems *wrong)
{
    if (col->kind != COLUMN_CATEGORY)
        return;
    if (col->n_seen > TABLE_MOST_CATEGORIES)
        problems_add(wrong, "column '%.60s' has more than %d categories: drop=%.60s leaves it out", col->name,
                     TABLE_MOST_CATEGORIES, col->name);
    else if (col->n_seen > FEW_TEXTS && col->n_seen > t->rows / 2 && !col->insisted)
        problems_add(wrong,
                     "column '%.60s' has %d different texts in %" PRId64
                     " rows, like names: drop=%.60s leaves it out, category=%.60s keeps it",
                     col->name, col->n_seen, t->rows, col->name, col->name);
}

/* The number of a row's group: a hash of the text, of as many bits as float64 holds. */
static double store_group(const Column *col, const Csv *c, Problems *wrong)
{
    const char *cell = c->cell[col->at];

    if (table_is_missing(cell))
        problems_add(wrong, "line %" PRId64 ", column '%.60s': the group is missing", c->row_line, col->name);
    return (double)(hash_text(HASH_BEGIN, cell) >> 11);
}

static Status store_rows(Table *t, Csv *c, int width, FILE *to, bool fitted, const TableOptions *how)
{
    double *row = calloc((size_t)t->n + 1, sizeof *row);
    XXH3_state_t *digest = XXH3_createState();
    PROBLEMS(wrong);
    Status st = row && digest ? ST_OK : FAIL_NOMEM();
    bool more = true;

    if (digest)
        XXH3_64bits_reset(digest);

    csv_rewind(c);
    st = st || !t->header ? st : csv_next(&more, c);
    while (!st && wrong.n < MOST_FAULTS && !t->overfull && !(st = csv_next(&more, c)) && more) {
        if (c->n != width) {
            problems_add(&wrong, "line %" PRId64 ": expected %d cells, found %d", c->row_line, width, c->n);
            continue;
        }
        row[0] = (double)c->row_line;
        XXH3_64bits_update(digest, c->cell[0], csv_row_bytes(c));
        for (int i = 0; i < t->n && !st; i++) {
            Column *col = &t->column[i];

            row[i + 1] = (double)NAN;
            if (col->group)
                row[i + 1] = store_group(col, c, &wrong);
            else if (col->kind != COLUMN_DROPPED && col->at >= 0)
                st = store_cell(&row[i + 1], t, col, c->cell[col->at], c->row_line, fitted, how, &wrong);
        }
        t->rows++;
        if (!st && fwrite(row, sizeof *row, (size_t)t->n + 1, to) != (size_t)t->n + 1)
            st = FAIL(E_IO, "%s: cannot write its cells to a temporary file: %s", t->path, strerror(errno));
    }
    free(row);
    t->digest = st ? 0 : XXH3_64bits_digest(digest);
    XXH3_freeState(digest);
    if (!st && more && !t->overfull)
        problems_add(&wrong, "the rest is not read");
    for (int i = 0, cells = wrong.n; i < t->n && !st && !fitted && !cells; i++) /* wrong cells come first */
        check_categories(t, &t->column[i], &wrong);
    if (!st && !wrong.n && !t->rows) /* of a file with fitted columns */
        st = FAIL(E_IO, "%s: there are no rows but the header", t->path);
    return st ? st : problems_fail(&wrong, E_IO, "%s", t->path);
}

/* Stores all rows, whose cells have `width` columns. */
static Status store_table(Table *t, Csv *c, int width, bool fitted, const TableOptions *how)
{
    FILE *to;
    Status st;

    TRY(temporary_open(&to, 0, t->path));
    if ((st = store_rows(t, c, width, to, fitted, how))) {
        fclose(to);
        return st;
    }
    t->file = dup(fileno(to));
    TRY(map_stream(&t->cells, to, t->path));
    if (t->file < 0)
        return FAIL(E_IO, "%s: cannot keep its cells: %s", t->path, strerror(errno));
    t->cell = (const double *)(const void *)t->cells.data;
    return ST_OK;
}

static Status table_create(Table **out, const char *path)
{
    Arena *a = arena_create();
    Table *t = a ? ARENA_NEW(a, Table, 1) : NULL;

    if (!t || !(t->path = arena_strdup(a, path))) {
        arena_free(a);
        return FAIL_NOMEM();
    }
    t->arena = a;
    t->target = t->file = -1;
    *out = t;
    return ST_OK;
}

void table_free(Table *t)
{
    if (!t)
        return;
    mapped_close(&t->cells);
    if (t->file >= 0)
        close(t->file);
    arena_free(t->arena);
}

/* Where the classes are whole numbers below the number of the model's scores, adds those that no row has, so that each
 * is its own number. */
static Status add_classes(Table *t, int64_t scores)
{
    Column *col = t->target < 0 ? NULL : &t->column[t->target];
    Category *unused;
    char number[NUMBER_TEXT];
    double v;

    if (!col || col->kind != COLUMN_CATEGORY || scores > TABLE_MOST_CATEGORIES)
        return ST_OK;
    for (int i = 0; i < col->n_seen; i++)
        if (!table_number(&v, col->seen[i]->text, false) || v < 0 || v >= (double)scores || v != floor(v))
            return ST_OK;
    for (int64_t i = 0; i < scores; i++)
        TRY(table_category(&unused, t, col, text_float64(number, (double)i)));
    return ST_OK;
}

static Status read_found(Table *t, Csv *c, const TableOptions *how)
{
    Survey *s = NULL;
    Status st;
    int header;

    TRY(open_csv(c, t, &header, how));
    TRY(survey_file(&s, t, c, header));
    st = find_kinds(t, s, how);
    free(s);
    TRY(st);
    TRY(store_table(t, c, t->n, false, how));
    return add_classes(t, how->scores);
}

/* ---- with the columns of another table ---- */

/* Finds the fitted columns in the file's first row by their names. */
static Status match_names(Table *t, const Csv *c, const TableOptions *how)
{
    PROBLEMS(wrong);

    for (int i = 0; i < t->n; i++) {
        Column *col = &t->column[i];

        col->at = -1;
        for (int k = 0; k < c->n; k++) {
            if (strcmp(!k && !*c->cell[k] ? "unnamed" : c->cell[k], col->name))
                continue;
            if (col->at >= 0 && col->kind != COLUMN_DROPPED)
                problems_add(&wrong, "columns %d and %d are both called '%.60s'", col->at + 1, k + 1, col->name);
            col->at = k;
        }
        if (col->at < 0 && col->kind != COLUMN_DROPPED && !(col->target && how->lacks_target))
            problems_add(&wrong, "no column '%.60s', which the training data have", col->name);
    }
    return problems_fail(&wrong, E_IO, "%s, line %lld", t->path, (long long)c->row_line);
}

/* Takes the columns by their places, of which only the targets' may be missing. */
static Status match_places(Table *t, const Csv *c, const TableOptions *how)
{
    const bool lacks = c->n == t->n - t->n_targets && how->lacks_target;

    if (c->n != t->n && !lacks)
        return FAIL(E_IO, "%s, line %lld: expected %d columns, as the training data have, found %d", t->path,
                    (long long)c->row_line, t->n, c->n);
    for (int i = 0, at = 0; i < t->n; i++)
        t->column[i].at = lacks && t->column[i].target ? -1 : at++;
    return ST_OK;
}

static Status read_fitted(Table *t, Csv *c, const TableOptions *how, const json_t *fitted)
{
    PROBLEMS(wrong);
    int header, width;
    bool more, named;

    TRY(table_load(t, fitted));
    if (how->target && (!t->target_names || strcmp(how->target, t->target_names)))
        return FAIL(E_INVALID, "%s: target=%s: the target of the training data is %s%s", t->path, how->target,
                    t->target_names ? "target=" : "none", t->target_names ? t->target_names : "");
    TRY(open_csv(c, t, &header, how));
    named = t->header;
    if (header < 2)
        t->header = !header;
    TRY(csv_next(&more, c));
    if (!more)
        return FAIL(E_IO, "%s: there are no rows", t->path);
    TRY(named && t->header ? match_names(t, c, how) : match_places(t, c, how));
    width = c->n;
    find_group(t, how->group, &wrong);
    for (int i = 0; i < t->n; i++)
        if (t->column[i].group && t->column[i].at < 0)
            problems_add(&wrong, "--val-split: group=%s: no such column", how->group);
    TRY(problems_fail(&wrong, E_INVALID, "%s", t->path));
    return store_table(t, c, width, true, how);
}

Status table_read(Table **out, const char *path, const TableOptions *how, const json_t *fitted)
{
    Csv c = { 0 };
    Table *t;
    Status st;

    TRY(table_create(&t, path));
    st = fitted ? read_fitted(t, &c, how, fitted) : read_found(t, &c, how);
    csv_close(&c);
    if (st)
        table_free(t);
    else
        *out = t;
    return st;
}
