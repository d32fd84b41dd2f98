/* Tables: CSV files whose columns are typed, fitted on training rows, and turned into features.
 *
 *     age,city,price         age: number, standardised: (age - mean) / scale       1 feature
 *     31,Oslo,210            city: category, an indicator for each                 2 features: Bergen, Oslo
 *     ,Bergen,180            a missing age is the median of the training rows
 *
 * The typed cells lie in an unnamed temporary file, so a table may be larger than memory: passes over all rows forget
 * the pages that they have read, and single rows of large tables are read one by one.
 *
 *   - A column is numeric when each of its cells is a number or missing; else it holds categories.
 *   - Missing: an empty cell, NA, N/A, n/a, #N/A, NaN, nan, NULL, null, None or ?.  A missing category is one of
 *     its own, where training rows have it; else, as every category that they lack, it sets no indicator.
 *   - Categories are sorted by their bytes, classes that are numbers by these.
 *   - Classes that are whole numbers below the number of the model's scores are taken as they are, with those between
 *     them that no row has. */
#ifndef DPX_TOOLS_TABLE_H
#define DPX_TOOLS_TABLE_H

#include <jansson.h>
#include <stdbool.h>

#include "graph/base/hash_table.h"
#include "graph/base/mapped.h"

enum { TABLE_MOST_CATEGORIES = 4096 /* of a column */, TABLE_MOST_FEATURES = 1 << 16, TABLE_NAMES = 400 };

/* The largest whole number that no other is read as: cells are float64. */
#define TABLE_WHOLE_MOST 9007199254740991.0

typedef enum { COLUMN_NUMERIC, COLUMN_CATEGORY, COLUMN_DROPPED, COLUMN_TEXT } ColumnKind;

/* Receives the text of a row; NULL is none. */
typedef Status TableText(void *user, const char *text, int64_t line);

typedef struct {
    const char *text; /* "": missing */
    int code;         /* a cell of the table */
    int place;        /* among the fitted categories; -1: no training row has it */
    int64_t rows;     /* that have it, of those fitted */
} Category;

typedef struct {
    const char *name;
    ColumnKind kind;
    bool insisted;              /* the user asked for categories */
    bool target;                /* it is predicted */
    bool group;                 /* it is dropped, and its cells are kept as numbers that equal texts share */
    int at;                     /* its place in the file's rows, from 0; -1: the file lacks it */
    double median, mean, scale; /* of a number: (value - mean) / scale, once it is fitted */
    int first, width;           /* its features, unless it is a target */
    Category **seen;            /* [n_seen] by code */
    Category **known;           /* [n_known] by place */
    int n_seen, n_known;
    size_t room;
    HashTable index;
    int64_t missing;         /* cells; of categories and of numbers */
    const char *unseen_text; /* the first category that the columns of another table lack; NULL: none */
} Column;

typedef struct {
    Arena *arena;
    const char *path;
    bool header, decimal_comma;
    bool overfull; /* a column has more categories than it may */
    char delimiter;
    Column *column; /* [n] in the file's order */
    size_t room;
    int n;
    int target;               /* the first column that is predicted; -1: none is */
    int n_targets, *targets;  /* all of them, in the order that the user gave; several are numbers */
    const char *target_names; /* "price+rent"; NULL: none */
    int features;
    int64_t rows;
    int file; /* of the cells; -1: there is none yet */
    Mapped cells;
    const double *cell; /* [rows][n + 1]: the line of the file, then each column: NaN is missing; a category's code */
    uint64_t digest;    /* of the texts of all rows' cells */
} Table;

/* How a file is read; NULL: as it is found.  Lists join names by '+', and a name may hold '+'. */
typedef struct {
    const char *target;                    /* a list; NULL: the column called "target", if there is one */
    const char *numeric, *category, *drop; /* lists */
    const char *text;                      /* a column whose cells go to take_text as they are */
    const char *group;                     /* a column that tells which rows belong together; it is no feature */
    TableText *take_text;
    void *user;
    const char *header;    /* "yes" or "no" */
    const char *delimiter; /* "comma", "semicolon", "tab" or "pipe" */
    const char *decimal;   /* "point" or "comma" */
    bool classes;          /* the target holds classes, even if they are numbers */
    int64_t scores;        /* the number of classes that the model has scores for; 0: unknown */
    bool lacks_target;     /* it may be missing in rows, or as a column */
} TableOptions;

/* Reads a file.  Its columns are typed by what they hold; or they are those of `fitted`, which table_fitted made: the
 * file may have them in another order, and further ones, and lists of `how` are ignored.  E_IO and E_INVALID list what
 * is wrong, by line and column. */
Status table_read(Table **out, const char *path, const TableOptions *how, const json_t *fitted) CHECKED;
void table_free(Table *t); /* NULL is legal */

/* Puts the classes of a target in order: those of all rows, which are the same whichever are trained on. */
Status table_order_classes(Table *t) CHECKED;
/* Fits medians, means, scales and categories in float64 on n rows, in that order; NULL: on all rows. */
Status table_fit(Table *t, const int64_t *row, int64_t n) CHECKED;
/* Takes what another process fitted on the same rows. */
Status table_take_fit(Table *t, const json_t *fitted) CHECKED;
/* What was fitted, as JSON to be kept beside a model.  NULL: no memory. */
json_t *table_fitted(const Table *t);

/* Receives the cells of a row. */
typedef void TableVisit(void *user, const double *cells);
/* Visits rows row[0..n), in that order; NULL: the first n rows.  Few of their pages stay in memory. */
void table_visit(const Table *t, const int64_t *row, int64_t n, TableVisit *visit, void *user);
/* Finds the cells of a row: where they are mapped, or read into `room`, of t->n + 1 numbers. */
Status table_cells(const double **out, const Table *t, int64_t row, double *room) CHECKED;
/* What table_value and table_id tell, of a cell. */
double cell_value(const Column *col, double cell);
int64_t cell_id(const Column *col, double cell);
void cell_features(const Column *col, double cell, float *out); /* [width] */
/* The value of a cell: a number, or a category's place, which is -1 for one that is not known; NaN: missing. */
double table_value(const Table *t, int column, int64_t row);
/* A number as an integer, or a category's place; that behind all others for one that is not known. */
int64_t table_id(const Table *t, int column, int64_t row);
int64_t table_line(const Table *t, int64_t row); /* where the row begins in its file, from 1 */
/* Rows whose category of a column is none of the fitted ones, and the first of these rows. */
typedef struct {
    int64_t rows, line;
    const char *text;
} Unseen;

/* Counts a row, if it is one of them. */
void unseen_count(Unseen *u, const Column *col, double cell, int64_t line);
/* Counts them among the rows row[0..n), in ascending order. */
Unseen table_unseen(const Table *t, int column, const int64_t *row, int64_t n);
void table_features(const Table *t, int64_t row, float *out); /* of all columns [features] */
int table_find(const Table *t, const char *name);             /* a column; -1: none */
int table_find_group(const Table *t);                         /* the column of groups; -1: none */
bool table_is_feature(const Table *t, int column);
/* Takes a name off a list: the longest column's name that ends at a '+' or the list's end; NULL: no column has it. */
Column *table_take_name(Table *t, const char **list);
/* The columns' names for an error, as many as there is room for. */
const char *table_names(char text[TABLE_NAMES], const Table *t);

/* ---- for the files of this folder ---- */
Status table_add_column(Table *t, const char *name) CHECKED;
/* Fills an empty table's columns by JSON of table_fitted.  E_IO: it is something else. */
Status table_load(Table *t, const json_t *fitted) CHECKED;
/* Finds a column's category, which it adds, up to one more than it may have; *out is NULL from then on. */
Status table_category(Category **out, Table *t, Column *col, const char *text) CHECKED;
/* Makes the columns of a list the targets.  *problem, NULL if there is none, is that of the name at *wrong: no column
 * has it, or it is given twice. */
Status table_set_targets(const char **problem, const char **wrong, Table *t, const char *list) CHECKED;
/* The category that is already there; NULL: none. */
Category *table_find_category(const Column *col, const char *text);
/* Sets the features of each column.  E_UNSUPPORTED: too many. */
Status table_place_features(Table *t) CHECKED;
bool table_number(double *out, const char *text, bool decimal_comma);
bool table_is_missing(const char *text);
extern const char *const table_missing[]; /* the texts that are missing values; NULL ends */

#endif
