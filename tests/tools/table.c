/* Tables: CSV files are read as Python's csv and pandas read them, columns fitted as scikit-learn does
 * (table_values.py); what is wrong is named by file, line and column. */
#include "tools/table/table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/harness/test.h"
#include "tests/tools/table_values.h"
#include "tools/table/csv_reader.h"
#include "tools/table/preprocess_graph.h"

static char path[64];

static const char *write_csv(const char *text, size_t n)
{
    FILE *f;

    snprintf(path, sizeof path, "/tmp/dpexec-table-%ld.csv", (long)getpid());
    CU_ASSERT_FATAL((f = fopen(path, "wb")) != NULL);
    CU_ASSERT_EQUAL(fwrite(text, 1, n, f), n);
    fclose(f);
    return path;
}

static Status read_text(Table **t, const char *text, const TableOptions *how)
{
    const TableOptions plain = { 0 };

    return table_read(t, write_csv(text, strlen(text)), how ? how : &plain, NULL);
}

/* ---- rows ---- */

/* The file's cells as text: rows end with '/', cells with '_'. */
static void check_rows(const char *expected, const char *text, size_t n, char delimiter)
{
    char found[512];
    size_t len = 0;
    bool more;
    Csv c;

    if (!CHECK_OK(csv_open(&c, write_csv(text, n), delimiter)))
        return;
    while (!csv_next(&more, &c) && more) {
        for (int i = 0; i < c.n; i++)
            len += (size_t)snprintf(found + len, sizeof found - len, "%s_", c.cell[i]);
        len += (size_t)snprintf(found + len, sizeof found - len, "/");
    }
    found[len] = '\0';
    CHECK_STR(expected, found);
    csv_close(&c);
    unlink(path);
}

#define CHECK_ROWS(expected, text) check_rows(expected, text, sizeof(text) - 1, '\0')

static void test_rows(void)
{
    CHECK_ROWS("a_b_/1_2_/", "a,b\n1,2\n");
    CHECK_ROWS("a_b_/1_2_/", "\xef\xbb\xbf"
                             "a,b\r\n1,2");
    CHECK_ROWS("a_b_/1_2_/", "\r\na,b\r\r1,2\r");
    CHECK_ROWS("a_b_/1_2_/", "a;b\n1;2\n");
    CHECK_ROWS("a_b_/1_2_/", "a\tb\n1\t2\n");
    CHECK_ROWS("a_b_/1_2_/", "a|b\n1|2\n");
    CHECK_ROWS("a_/1_/", "a\n1\n");
    CHECK_ROWS("x\"y, z_b_/1\r\n2__/", "\"x\"\"y, z\",b\n\"1\r\n2\",\n");
    CHECK_ROWS("a_b c_/x\"y__/", " a , \"b c\" \n x\"y , \"\"\n");
    CHECK_ROWS("1,5_2_/2,5_3_/", "\"1,5\";2\n\"2,5\";3\n");
    check_rows("1_5;2_/", "1,5;2\n", 6, ',');
    check_rows("1,5_2_/", "1,5;2\n", 6, ';');
}

static void refuse_rows(const char *why, const char *text, size_t n)
{
    bool more = true;
    Csv c;
    Status st = csv_open(&c, write_csv(text, n), ',');

    while (!st && more && !(st = csv_next(&more, &c)))
        ;
    CHECK_FAILS(st, why, st);
    CU_ASSERT_NOT_EQUAL(st, ST_OK);
    csv_close(&c);
    unlink(path);
}

#define REFUSE_ROWS(why, text) refuse_rows(why, text, sizeof(text) - 1)

static void test_bad_rows(void)
{
    char *wide = malloc(CSV_MOST_COLUMNS + 2), *tall = malloc(CSV_MOST_BYTES + 2);
    Csv c;

    REFUSE_ROWS(".csv, line 2, column 2: a quote that is not closed", "a,b\n\"x\ny\",\"z\n");
    REFUSE_ROWS(".csv, line 2, column 1: text behind a closing quote", "a,b\n\"x\"y,z\n");
    REFUSE_ROWS(".csv, line 4, column 2: a byte of 0", "a,b\n\"1\n2\",3\n4,\0\n");
    REFUSE_ROWS(".csv, line 2, column 1: not UTF-8", "a,b\n\xe9,1\n");
    CHECK_FAILS(E_IO, "UTF-16",
                csv_open(&c,
                         write_csv("\xff\xfe"
                                   "a",
                                   3),
                         '\0'));
    CHECK_FAILS(E_INVALID, "both comma and semicolon divide its rows evenly: delimiter=comma or delimiter=semicolon",
                csv_open(&c, write_csv("1;2,3\n4;5,6\n", 12), '\0'));
    CU_ASSERT_FATAL(wide && tall);
    memset(wide, ',', CSV_MOST_COLUMNS + 1);
    refuse_rows("line 1: more than 16384 columns", wide, CSV_MOST_COLUMNS + 1);
    memset(tall, 'x', CSV_MOST_BYTES + 1);
    refuse_rows("line 1, column 1: the row has more than 1048576 bytes", tall, CSV_MOST_BYTES + 1);
    tall[0] = '"';
    refuse_rows("more than 1048576 bytes: is a quote not closed?", tall, CSV_MOST_BYTES + 1);
    free(wide);
    free(tall);
}

/* ---- types ---- */

/* The columns as text: name:kind with n for numeric, c for categories, d for dropped; * marks the target. */
static void check_kinds(const char *expected, const char *text, const TableOptions *how)
{
    char found[256] = "";
    size_t len = 0;
    Table *t;

    if (!CHECK_OK(read_text(&t, text, how)))
        return;
    for (int i = 0; i < t->n; i++)
        len += (size_t)snprintf(found + len, sizeof found - len, "%s%s:%c%s", i ? " " : "", t->column[i].name,
                                "ncd"[t->column[i].kind], i == t->target ? "*" : "");
    CHECK_STR(expected, found);
    table_free(t);
    unlink(path);
}

#define DIGITS "0000000000000000000000000000000000000000000000000000000000000000000000"
#define LONG "name" DIGITS

static void test_kinds(void)
{
    check_kinds("a:n b:c target:n*", "a,b,target\n1,x,2\n,y,3\n", NULL);
    check_kinds("1:n 2:c 3:n*", "1,x,2\nNA,y,3\n", &(TableOptions){ .target = "3" });
    check_kinds("a:c b:c", "a,b\nx,y\n", NULL);
    check_kinds("1:c 2:c", "a,b\nx,y\n", &(TableOptions){ .header = "no" });
    check_kinds("unnamed:d a:n", ",a\n0,1\n1,2\n", NULL);
    check_kinds("a+b:d a:c b:n", "a+b,a,b\n1,2,3\n4,5,6\n", &(TableOptions){ .drop = "a+b", .category = "a" });
    check_kinds(LONG "x:c " LONG "y:c", LONG "x," LONG "y\np,q\n", NULL); /* names that differ in their last letter */
    check_kinds("1:c 2:n", DIGITS "x,1\n" DIGITS "y,2\n", &(TableOptions){ .header = "no" });
    check_kinds("a:n b:d c:d", "a,b,c\n1,2,3\n", &(TableOptions){ .drop = "c+b" });
    check_kinds("a:n b:c*", "a;b\n1,5;1\n2;2\n", &(TableOptions){ .decimal = "comma", .target = "b", .classes = true });
}

static void refuse(Status code, const char *why, const char *text, const TableOptions *how)
{
    Table *t;

    CHECK_FAILS(code, why, read_text(&t, text, how));
    unlink(path);
}

static void test_refused(void)
{
    char many[2048] = "name,b\n";

    refuse(E_INVALID,
           "column 'a' holds 2 numbers, but 'abc' in line 3, one of 1 texts: correct it, or give category=a or drop=a",
           "a,b\n1,1\nabc,2\n2,3\n", NULL);
    refuse(E_INVALID, "column 'a' holds numbers with commas, first '1,5' in line 2: decimal=comma",
           "a;b\n1,5;1\n2,5;2\n", NULL);
    refuse(E_INVALID, "first '1,000' in line 2: remove commas between thousands",
           "a,b\n\"1,000\",1\n\"12,500,000\",2\n", NULL);
    refuse(E_IO, "line 3, column 'a': expected a number, found 'x'; line 4: expected 2 cells, found 1",
           "a,b\n1,1\nx,2\n2\n", &(TableOptions){ .numeric = "a" });
    refuse(E_IO, "line 2, column 'a': expected a finite number, found '1e999'", "a,b\n1e999,1\n", NULL);
    refuse(E_IO, "line 3, column 'b': the target is missing", "a,b\n1,1\n2,\n", &(TableOptions){ .target = "b" });
    refuse(E_INVALID, "target=c: no such column (has: 'a', 'b'); drop=d: no such column", "a,b\n1,1\n",
           &(TableOptions){ .target = "c", .drop = "d+a" });
    refuse(E_INVALID, "drop=a: the column is given twice", "a,b\n1,1\n",
           &(TableOptions){ .numeric = "a", .drop = "a" });
    refuse(E_INVALID, "drop=b: it is the target", "a,b\n1,1\n", &(TableOptions){ .target = "b", .drop = "b" });
    refuse(E_INVALID, "header=maybe: expected yes or no", "a,b\n1,1\n", &(TableOptions){ .header = "maybe" });
    refuse(E_INVALID, "column 'b' holds no value: drop=b", "a,b\n1,\n2,NA\n", NULL);
    refuse(E_IO, "line 1: columns 1 and 3 are both called 'a'; column 4 has no name", "a,b,a,\n1,2,3,4\n", NULL);
    refuse(E_IO, "there are no rows but the header", "a,b\n", NULL);
    refuse(E_IO, "there are no rows", "\n\n", NULL);
    for (int i = 0; i < 60; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many), "n%d,t%d\n", i, i);
    refuse(E_IO, "column 'name' has 60 different texts in 60 rows, like names: drop=name", many, NULL);
    refuse(E_IO, "; column 'b' has 60 different texts in 60 rows, like names: drop=b", many, NULL);
    check_kinds("name:c b:c", many, &(TableOptions){ .category = "name+b" });
}

/* ---- values ---- */

static void check_near(const char *what, double found, double expected, double within)
{
    if (!(fabs(found - expected) <= within * fabs(expected)))
        TEST_FAIL("%s: %.17g, expected %.17g", what, found, expected);
}

static Table *read_values(void)
{
    Table *t = NULL;

    if (CHECK_OK(read_text(&t, csv_text, &(TableOptions){ .target = "y", .category = "zip" })))
        CHECK_OK(table_fit(t, NULL, t->rows));
    unlink(path);
    return t;
}

static void check_features(const Table *t, int64_t row, int64_t expected)
{
    float x[CSV_FEATURES];

    table_features(t, row, x);
    for (int i = 0; i < CSV_FEATURES; i++)
        check_near("feature", x[i], csv_features[expected * CSV_FEATURES + i], 2e-7);
}

/* Rows of large tables are read from the file. */
static void check_row_of_file(Table *t, int64_t row)
{
    const size_t size = t->cells.size;
    const double *mapped, *read;
    double room[16] = { 0 };

    CHECK_OK(table_cells(&mapped, t, row, room));
    t->cells.size = SIZE_MAX; /* a large one */
    CHECK_OK(table_cells(&read, t, row, room));
    t->cells.size = size;
    CU_ASSERT(mapped != room && read == room && !memcmp(mapped, room, ((size_t)t->n + 1) * sizeof *room));
}

static void test_fit(void)
{
    Table *t = read_values();

    CU_ASSERT_FATAL(t && t->features == CSV_FEATURES && t->rows == CSV_ROWS);
    for (int i = 0, k = 0; i < t->n - 1; i++)
        if (t->column[i].kind == COLUMN_NUMERIC) {
            check_near("median", t->column[i].median, csv_medians[k], 0);
            check_near("mean", t->column[i].mean, csv_means[k], 1e-14);
            check_near("scale", t->column[i].scale, csv_scales[k++], 1e-13);
        }
    for (int64_t row = 0; row < t->rows; row++) {
        check_features(t, row, row);
        CU_ASSERT_EQUAL(table_value(t, t->target, row), csv_target[row]);
        CU_ASSERT_EQUAL(table_line(t, row), row + 2);
        check_row_of_file(t, row);
    }
    table_free(t);
}

/* Medians of the first n of these, by rows in this order. */
static void test_medians(void)
{
    static const double expected[] = { -3, -1.5, 0, 0, 0, 0.5, 1 };
    static const int64_t row[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    Table *t;

    if (!CHECK_OK(read_text(&t, "a,b\n-3,1\n0,1\n1e300,1\n-1e-300,2\n,0\n7,3\n1,4\n1,5\n", NULL)))
        return;
    for (int n = 1; n <= 2; n++) {
        CHECK_OK(table_fit(t, row, n));
        check_near("median", t->column[0].median, expected[n - 1], 0);
    }
    CHECK_OK(table_fit(t, (const int64_t[]){ 7, 1, 5, 4 }, 4));
    check_near("median", t->column[0].median, 1, 0);
    CHECK_OK(table_fit(t, (const int64_t[]){ 7, 1, 3, 4 }, 4));
    check_near("median", t->column[0].median, 0, 0);
    CHECK_FAILS(E_INVALID, "column 'a' holds no number in the training rows: drop=a",
                table_fit(t, (const int64_t[]){ 4 }, 1));
    CHECK_FAILS(E_INVALID, "column 'a' holds numbers too large", table_fit(t, (const int64_t[]){ 2, 0 }, 2));
    table_free(t);
    unlink(path);
}

/* Validation data take everything from the training data, whatever their columns' order. */
static void test_fitted(void)
{
    static const char val[] =
        "more;city;zip;same;income;time;age\n0;Oslo;3;3.25;NA;1700000000;41\n1;Paris;3;3.25;1;1;\n";
    Table *t = read_values(), *v;
    json_t *fitted = t ? table_fitted(t) : NULL;
    float x[CSV_FEATURES];

    CU_ASSERT_FATAL(fitted != NULL);
    CHECK_FAILS(E_IO, "line 1: no column 'y', which the training data have",
                table_read(&v, write_csv(val, strlen(val)), &(TableOptions){ .target = "y" }, fitted));
    CHECK_FAILS(E_INVALID, "target=age: the target of the training data is target=y",
                table_read(&v, path, &(TableOptions){ .target = "age" }, fitted));
    if (CHECK_OK(table_read(&v, path, &(TableOptions){ .lacks_target = true }, fitted))) {
        const Column *city = &v->column[table_find(v, "city")];

        CU_ASSERT_EQUAL(v->rows, 2);
        const Unseen none = table_unseen(v, table_find(v, "city"), (const int64_t[]){ 0 }, 1),
                     one = table_unseen(v, table_find(v, "city"), (const int64_t[]){ 0, 1 }, 2);

        CU_ASSERT_EQUAL(none.rows, 0);
        CU_ASSERT_EQUAL(one.rows, 1);
        CU_ASSERT_EQUAL(one.line, 3);
        CHECK_STR("Paris", one.text);
        table_features(v, 1, x);
        check_near("an indicator", x[city->first] + x[city->first + 1] + x[city->first + 4], 0, 0);
        check_near("a missing age", x[0], (float)((csv_medians[0] - t->column[0].mean) / t->column[0].scale), 0);
        CU_ASSERT(isnan(table_value(v, v->target, 0)));
        table_free(v);
    }
    CHECK_OK(table_read(&v, write_csv(csv_text, strlen(csv_text)), &(TableOptions){ 0 }, fitted));
    for (int64_t row = 0; row < v->rows; row++)
        check_features(v, row, row);
    table_free(v);
    json_object_set_new(json_array_get(json_object_get(fitted, "columns"), 0), "scale", json_real(0));
    CHECK_FAILS(E_IO, "the run's table: column 'age': its median, mean or scale",
                table_read(&v, path, &(TableOptions){ 0 }, fitted));
    json_decref(fitted);
    table_free(t);
    unlink(path);
}

static void test_classes(void)
{
    const TableOptions how = { .target = "y", .classes = true };
    Table *t, *v;
    json_t *fitted;

    CHECK_OK(read_text(&t, "x,y\n1,10\n2,9\n3,10.0\n4,-1\n", &how));
    CHECK_OK(table_fit(t, (const int64_t[]){ 0, 1 }, 2)); /* the classes are those of the file */
    CU_ASSERT_EQUAL(t->column[1].n_known, 3);
    CHECK_STR("-1", t->column[1].known[0]->text);
    CHECK_STR("9", t->column[1].known[1]->text);
    CU_ASSERT_EQUAL(table_value(t, 1, 2), 2);
    CU_ASSERT_PTR_NOT_NULL_FATAL(fitted = table_fitted(t));
    CHECK_FAILS(E_IO, "line 3, column 'y': the training rows have no class '8'",
                table_read(&v, write_csv("x,y\n1,9\n2,8\n", 12), &how, fitted));
    json_decref(fitted);
    table_free(t);
    /* 2^53 and 2^53 + 1 are one float64, and two classes. */
    CHECK_OK(read_text(&t, "x,y\n1,9007199254740993\n2,9007199254740992\n3,9007199254740993\n", &how));
    CHECK_OK(table_fit(t, NULL, 3));
    CU_ASSERT_EQUAL(t->column[1].n_known, 2);
    table_free(t);
    unlink(path);
}

static void test_graph(void)
{
    Table *t = read_values();
    char onnx[80];
    int column[8], n = 0;
    FILE *f;

    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    for (int i = 0; i < t->n - 1; i++)
        column[n++] = i;
    snprintf(onnx, sizeof onnx, "%s.onnx", path);
    CHECK_OK(preprocess_write(t, (const FeatureTensor[]){ { "x", column, 3, 0, 2 }, { "z", column + 3, n - 3, 8, 2 } },
                              2, onnx));
    CU_ASSERT_PTR_NOT_NULL_FATAL(f = fopen(onnx, "rb"));
    fseek(f, 0, SEEK_END);
    CU_ASSERT(ftell(f) > 1000); /* tests/interop compares what it computes */
    fclose(f);
    unlink(onnx);
    table_free(t);
}

DEFINE_SUITE(table, { "rows", test_rows }, { "bad rows", test_bad_rows }, { "kinds", test_kinds },
             { "refused", test_refused }, { "fit", test_fit }, { "medians", test_medians }, { "fitted", test_fitted },
             { "classes", test_classes }, { "graph", test_graph });
