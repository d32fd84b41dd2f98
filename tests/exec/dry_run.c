/* tests/exec/golden/NAME.txt: what training steps are on described GPUs: program, streams and events, kernels, memory.
 *
 * Two plans of the mlp are written out in full; of each model there is a table with a column for every precision and
 * number of devices, which counts the steps by stream and kernel.  Nothing in them is told by the plug-in, which is not
 * asked, so they are the same on every machine.  GOLDEN_WRITE=1 in the environment writes what is found into the files:
 * read the difference before believing it. */
#include "exec/inspect/dry_run.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "graph/onnx/onnx.h"
#include "tests/harness/test.h"

enum { COLUMNS = 4, MOST_ROWS = 160, NAME = 48 };

typedef struct {
    const char *precision;
    int devices;
} Column;
static const Column columns[COLUMNS] = { { "float32", 1 }, { "float32", 2 }, { "bfloat16", 1 }, { "bfloat16", 2 } };

/* ---- a dry run as text ---- */

static Status set_options(Options *o, const char *gpu, const Column *c)
{
    char devices[1024];
    int n = snprintf(devices, sizeof devices, "cuda:0@" SOURCE_DIR "/tests/devices/%s.json", gpu);

    if (c->devices == 2)
        snprintf(devices + n, sizeof devices - (size_t)n, ",cuda:1@" SOURCE_DIR "/tests/devices/%s.json", gpu);
    TRY(options_set(o, "loss", "cross-entropy"));
    TRY(options_set(o, "batch-size", "8"));
    TRY(options_set(o, "precision", c->precision));
    return options_set(o, "devices", devices);
}

/* The plug-in is not asked. */
static Status plan_alone(FILE *f, const Graph *g, const Options *o)
{
    const char *named = getenv("DPEXEC_CUDA_PLUGIN");
    char *kept = named ? strdup(named) : NULL;
    Status st;

    setenv("DPEXEC_CUDA_PLUGIN", "/no/plug-in", 1);
    st = dry_run(f, g, o, NULL, NULL);
    if (kept)
        setenv("DPEXEC_CUDA_PLUGIN", kept, 1);
    else
        unsetenv("DPEXEC_CUDA_PLUGIN");
    free(kept);
    return st;
}

/* NULL after a failed check.  The caller frees it. */
static char *plan_text(const char *model, const char *gpu, const Column *c)
{
    char path[512], *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    Options *o = options_create();
    Graph *g = NULL;
    bool good;

    snprintf(path, sizeof path, SOURCE_DIR "/models/%s.onnx", model);
    good = f && o && CHECK_OK(onnx_import_file(&g, NULL, path, NULL)) && CHECK_OK(set_options(o, gpu, c)) &&
           CHECK_OK(plan_alone(f, g, o));
    graph_free(g);
    options_free(o);
    if (f)
        fclose(f);
    if (good)
        return text;
    free(text);
    return NULL;
}

/* ---- the table of a model ---- */

typedef struct {
    char name[NAME];
    char cell[COLUMNS][16];
    int count[COLUMNS];
} Row;
typedef struct {
    Row row[MOST_ROWS];
    int n;
} Table;

static Row *row_of(Table *t, const char *name)
{
    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->row[i].name, name))
            return &t->row[i];
    CU_ASSERT_FATAL(t->n < MOST_ROWS);
    t->row[t->n] = (Row){ .count = { 0 } };
    snprintf(t->row[t->n].name, NAME, "%s", name);
    return &t->row[t->n++];
}

static void set_cell(Table *t, const char *name, int column, const char *text, const char *end)
{
    snprintf(row_of(t, name)->cell[column], sizeof t->row->cell[0], "%.*s", (int)(end - text), text);
}

static int count_in(const char *line, const char *end, char c)
{
    int n = 0;

    for (; line < end; line++)
        n += *line == c;
    return n;
}

/* "   12  compute  cuda_add   Add_3 -> ...; waits for e1, e2; records e3" */
static void count_step(Table *t, int column, const char *line, const char *end)
{
    char stream[16], kernel[NAME], op[NAME], name[2 * NAME];
    const char *waits = memmem(line, (size_t)(end - line), "; waits for", 11);

    if (sscanf(line, "%*u %15s %47s %47s", stream, kernel, op) != 3)
        return;
    snprintf(name, sizeof name, "%s %s", stream, *kernel == '(' ? op : kernel);
    row_of(t, name)->count[column]++;
    if (waits) {
        const char *rest = memchr(waits + 1, ';', (size_t)(end - waits - 1));

        row_of(t, "waits")->count[column] += 1 + count_in(waits, rest ? rest : end, ',');
    }
}

/* "  memory: 150.8 KiB: arena 83.4 KiB, states 67.3 KiB, constants 56 B" of the first device */
static void note_memory(Table *t, int column, const char *line, const char *end)
{
    static const char *const what[] = { "arena", "states", "constants" };

    for (int i = 0; i < 3; i++) {
        const char *at = memmem(line, (size_t)(end - line), what[i], strlen(what[i]));

        CU_ASSERT_PTR_NOT_NULL_FATAL(at);
        at += strlen(what[i]) + 1;
        if (!*row_of(t, what[i])->cell[column])
            set_cell(t, what[i], column, at, at + strcspn(at, ",\n"));
    }
}

static void note_line(Table *t, int column, const char *line, const char *end)
{
    static const char *const heading[] = { "streams: ", "events: " };

    if (!strncmp(line, "training step: ", 15))
        set_cell(t, "nodes", column, line + 15, line + 15 + strcspn(line + 15, " "));
    else if (!strncmp(line, "  memory: ", 10))
        note_memory(t, column, line, end);
    else if (!strncmp(line, "cuda:0: ", 8))
        for (int i = 0; i < 2; i++) {
            const char *at = strstr(line, heading[i]);

            CU_ASSERT_PTR_NOT_NULL_FATAL(at);
            at += strlen(heading[i]);
            set_cell(t, i ? "events" : "streams", column, at, at + strspn(at, "0123456789"));
        }
    else if (end - line > 7 && isdigit((unsigned char)line[4]) && line[5] == ' ' && line[6] == ' ')
        count_step(t, column, line, end);
}

static void note_plan(Table *t, int column, const char *text)
{
    for (const char *line = text; *line;) {
        const char *end = line + strcspn(line, "\n");

        note_line(t, column, line, end);
        line = *end ? end + 1 : end;
    }
}

/* The lines without the devices' names. */
static bool same_but_names(const char *a, const char *b)
{
    while (*a && *b) {
        size_t la = strcspn(a, "\n"), lb = strcspn(b, "\n");

        if (strncmp(a, "cuda:", 5) ? la != lb || strncmp(a, b, la) : strncmp(b, "cuda:", 5))
            return false;
        a += la + (a[la] != '\0');
        b += lb + (b[lb] != '\0');
    }
    return *a == *b;
}

static int by_name(const void *a, const void *b) { return strcmp(((const Row *)a)->name, ((const Row *)b)->name); }

/* The first rows as they are, the others by name. */
static char *table_text(Table *t, int n_fixed)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    qsort(t->row + n_fixed, (size_t)(t->n - n_fixed), sizeof *t->row, by_name);
    fprintf(f, "%-32s", "");
    for (int c = 0; c < COLUMNS; c++)
        fprintf(f, "  %8s x%d", columns[c].precision, columns[c].devices);
    putc('\n', f);
    for (int i = 0; i < t->n; i++) {
        fprintf(f, "%-32s", t->row[i].name);
        for (int c = 0; c < COLUMNS; c++)
            *t->row[i].cell[c] ? fprintf(f, "  %11s", t->row[i].cell[c]) : fprintf(f, "  %11d", t->row[i].count[c]);
        putc('\n', f);
    }
    fclose(f);
    return text;
}

/* ---- golden files ---- */

static void compare(const char *name, const char *found)
{
    char path[512], *expected = NULL;
    size_t cap = 0;
    FILE *f;

    snprintf(path, sizeof path, SOURCE_DIR "/tests/exec/golden/%s.txt", name);
    if (getenv("GOLDEN_WRITE") && (f = fopen(path, "w"))) {
        fputs(found, f);
        fclose(f);
    }
    if (!(f = fopen(path, "r")) || getdelim(&expected, &cap, '\0', f) < 0)
        TEST_FAIL("%s: not there; GOLDEN_WRITE=1 makes it", path);
    else if (strcmp(expected, found))
        TEST_FAIL("%s: another plan; GOLDEN_WRITE=1 build/test_exec dry_run && git diff tests/exec/golden shows it",
                  path);
    if (f)
        fclose(f);
    free(expected);
}

/* The test's name is the model's. */
static void test_model(void)
{
    static const char *const first[] = { "nodes", "streams", "events",    "waits",
                                         "arena", "states",  "constants", "as on an A100" };
    const char *model = CU_get_current_test()->pName;
    Table *t = calloc(1, sizeof *t);
    char *text;

    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        row_of(t, first[i]);
    for (int c = 0; c < COLUMNS; c++) {
        char *h100 = plan_text(model, "h100", &columns[c]), *a100 = plan_text(model, "a100", &columns[c]);

        if (h100 && a100) {
            const char *same = same_but_names(h100, a100) ? "yes" : "no";

            note_plan(t, c, h100);
            set_cell(t, "as on an A100", c, same, same + strlen(same));
        }
        free(h100);
        free(a100);
    }
    text = table_text(t, sizeof first / sizeof *first);
    compare(model, text);
    free(text);
    free(t);
}

/* ---- plans in full ---- */

static void check_plan(const char *name, const char *gpu, const Column *c)
{
    char *text = plan_text("mlp", gpu, c), *again = plan_text("mlp", gpu, c);

    if (text && again) {
        CHECK_STR(text, again);
        compare(name, text);
    }
    free(text);
    free(again);
}

static void test_plan_of_one(void) { check_plan("mlp_a100", "a100", &columns[0]); }
static void test_plan_of_two(void) { check_plan("mlp_h100_bfloat16_x2", "h100", &columns[3]); }

DEFINE_SUITE(dry_run, { "mlp", test_model }, { "fashion_cnn", test_model }, { "resnet20", test_model },
             { "transformer", test_model }, { "mlp in full, one A100", test_plan_of_one },
             { "mlp in full, two H100 in bfloat16", test_plan_of_two });
