/* rebatch: at the size that a model was exported for nothing changes by a bit; other sizes are that many samples; what
 * cannot be rewritten is named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/onnx/onnx.h"
#include "graph/text/parse.h"
#include "passes/report.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "tests/harness/test.h"

static const char *const exported[] = { "norms", "copies", "tied", "vit", "windows", "cut", "halves", "rows" };

static Graph *import_exported(const char *name, const char *exporter, int b0)
{
    char path[512];
    Graph *g = NULL;

    snprintf(path, sizeof path, SOURCE_DIR "/tests/api/repaired_%s_%s_%d.onnx", name, exporter, b0);
    CHECK_OK(onnx_import_file(&g, NULL, path, &(ImportOptions){ .eval = interp_node }));
    return g;
}

/* The first output for `batch` samples that repeat after `period`; NULL: a failed check. */
static const Tensor *infer(Arena *a, Graph *g, bool repair, int64_t batch, int64_t period)
{
    const BuildOptions opt = { .mode = BUILD_INFER, .batch = &(BatchOptions){ .batch = batch } };
    const Tensor **values;
    Tensor *x;
    int64_t row;

    if ((repair && !CHECK_OK(model_repair(g, &opt, interp_node, NULL))) ||
        !CHECK_OK(pipeline_run(g, &opt, interp_node, NULL, NULL)))
        return NULL;
    values = ARENA_NEW(a, const Tensor *, g->n_value);
    x = tensor_create(a, value(g, g->input[0])->dtype, value(g, g->input[0])->shape);
    row = tensor_numel(x) / batch;
    for (int64_t i = 0; i < tensor_numel(x); i++) {
        int64_t k = i / row % period * row + i % row;

        if (dtype_is_float(x->dtype))
            tensor_set_float(x, i, (double)(k * 37 % 101) / 50 - 1);
        else
            tensor_set_int(x, i, k * 37 % 11);
    }
    values[g->input[0].i] = x;
    return CHECK_OK(interp_run(a, g, values)) ? values[g->output[0].value.i] : NULL;
}

static void check_bits(const char *name, const char *exporter, int b0)
{
    Graph *g[3] = { import_exported(name, exporter, b0), import_exported(name, exporter, b0),
                    import_exported(name, exporter, b0) };
    Arena *a = arena_create();
    const Tensor *plain = infer(a, g[0], false, b0, b0), *repaired = infer(a, g[1], true, b0, b0),
                 *thrice = infer(a, g[2], true, 3 * b0, b0);

    if (plain && repaired && thrice) {
        size_t bytes = (size_t)tensor_numel(plain) * dtype_size(plain->dtype);

        CU_ASSERT(shape_eq(&plain->shape, &repaired->shape));
        CU_ASSERT(!memcmp(plain->data, repaired->data, bytes));
        CU_ASSERT_EQUAL(tensor_numel(thrice), 3 * tensor_numel(plain));
        for (int i = 0; i < 3 && tensor_numel(thrice) == 3 * tensor_numel(plain); i++)
            CU_ASSERT(!memcmp(plain->data, (const char *)thrice->data + (size_t)i * bytes, bytes));
    }
    for (int i = 0; i < 3; i++)
        graph_free(g[i]);
    arena_free(a);
}

static void test_bits(void)
{
    for (size_t i = 0; i < sizeof exported / sizeof *exported; i++)
        for (int b0 = 1; b0 <= 4; b0 += 3) {
            check_bits(exported[i], "old", b0);
            check_bits(exported[i], "new", b0);
        }
}

static Status repair_text(Graph **g, const char *text, int64_t batch)
{
    const BuildOptions opt = { .mode = BUILD_INFER, .batch = &(BatchOptions){ .batch = batch } };

    TRY(graph_parse(g, text, strlen(text)));
    return model_repair(*g, &opt, interp_node, NULL);
}

static void test_refused(void)
{
    static const char *const text =
        "graph \"g\" {\n  input %x : float32[2,3]\n  const %rows : float32[2,3] = {1,2,3,4,5,6}\n"
        "  %y = Add(%x, %rows) \"mix\"\n  output \"y\" = %y\n}\n";
    Graph *g = NULL;

    CHECK_FAILS(E_UNSUPPORTED, "exported for batches of 2 and does not work for 5: Add mix", repair_text(&g, text, 5));
    graph_free(g);
    g = NULL;
    CHECK_FAILS(E_UNSUPPORTED, "constant 'rows'", repair_text(&g, text, 5));
    graph_free(g);
    g = NULL;
    CHECK_OK(repair_text(&g, text, 2));
    graph_free(g);
}

/* Rows that are equal along another axis, too, are one there as well; but not where all numbers are. */
static void test_equal_rows(void)
{
    static const char *const text =
        "graph \"g\" {\n  input %x : float32[2,3,2]\n  const %rows : float32[2,3,2] = {1,2,1,2,1,2,1,2,1,2,1,2}\n"
        "  const %ones : float32[2,3,2] = {1,1,1,1,1,1,1,1,1,1,1,1}\n  %y = Add(%x, %rows) \"a\"\n"
        "  %z = Mul(%y, %ones) \"b\"\n  output \"z\" = %z\n}\n";
    const Shape row = SHAPE(1, 1, 2), table = SHAPE(1, 3, 2);
    Graph *g = NULL;

    if (CHECK_OK(repair_text(&g, text, 5))) {
        CU_ASSERT(shape_eq(value(g, graph_find(g, "rows"))->shape, &row));
        CU_ASSERT(shape_eq(value(g, graph_find(g, "ones"))->shape, &table));
    }
    graph_free(g);
    for (int64_t batch = 2; batch <= 6; batch += 4) {
        Arena *a = arena_create();
        Graph *same = NULL, *repaired = NULL;
        const Tensor *plain, *now;

        CHECK_OK(graph_parse(&same, text, strlen(text)));
        CHECK_OK(graph_parse(&repaired, text, strlen(text)));
        plain = infer(a, same, false, 2, 2);
        now = infer(a, repaired, true, batch, 2);
        if (plain && now)
            for (int64_t i = 0; i < batch / 2; i++)
                CU_ASSERT(!memcmp(plain->data, (const char *)now->data + i * 12 * 4, sizeof(float[12])));
        graph_free(same);
        graph_free(repaired);
        arena_free(a);
    }
}

/* Of a fixed first axis and an open one behind it either may be the batch: nothing is rewritten unasked. */
static void test_two_axes(void)
{
    static const char *const text = "graph \"g\" {\n  input %x : float32[3,?,4]\n  const %to : int64[3] = {3,-1,2}\n"
                                    "  %y = Reshape(%x, %to) \"r\"\n  output \"y\" = %y\n}\n";
    const BuildOptions opt = { .mode = BUILD_INFER, .batch = &(BatchOptions){ .batch = 5 } };
    Graph *g = NULL;

    if (CHECK_OK(repair_text(&g, text, 5))) {
        CU_ASSERT_EQUAL(g->n_node, 1);
        CU_ASSERT_EQUAL(tensor_int(value_const(g, g->node[0]->in[1]), 0), 3);
        CHECK_FAILS(E_SHAPE, "the batch axis of these inputs is ambiguous: 'x' [3,?,4] (--batch-input x:1",
                    pipeline_run(g, &opt, interp_node, NULL, NULL));
    }
    graph_free(g);
}

/* The axes that Expand is given are 4 in number because the batch is 4: at another size the fourth, which holds the
 * batch, is none. */
static void test_list_of_another_length(void)
{
    static const char *const text =
        "graph \"g\" {\n  input %x : float32[4,4,4,4]\n  const %four : int64[1] = {4}\n  const %n : int64[1] = {4}\n"
        "  const %axes : int64[3] = {1,2,3}\n  %w = Expand(%four, %n) \"list\"\n  %t = Transpose(%x) {perm=[1,2,3,0]} "
        "\"turn\"\n"
        "  %e = Expand(%t, %w) \"expand\"\n  %p = ReduceSum(%x, %axes) {keepdims=0} \"sum\"\n  %u = Cast(%w) {to=1} "
        "\"cast\"\n"
        "  %v = Add(%p, %u) \"add\"\n  output \"e\" = %e\n  output \"v\" = %v\n}\n";
    Graph *g = NULL;

    CHECK_FAILS(E_UNSUPPORTED, "exported for batches of 4 and does not work for 3: Add add", repair_text(&g, text, 3));
    graph_free(g);
}

/* Rows that the network takes whatever the batch's size are named; so are those of a batch of one, which are taken to
 * be each sample's, and what then gives as many rows as the batch had is refused. */
static void check_rows(const char *input, const char *node, NoteKind kind, const char *want, const char *refused)
{
    const BuildOptions opt = { .mode = BUILD_INFER, .batch = &(BatchOptions){ .batch = 5 } };
    char *text = NULL;
    Report *r = report_create();
    Graph *g = NULL;
    bool found = false;

    CU_ASSERT_FATAL(r && asprintf(&text,
                                  "graph \"g\" {\n  input %%x : float32[%s]\n  const %%0 : int64[1] = {0}\n"
                                  "  const %%1 : int64[1] = {1}\n  const %%2 : int64[1] = {2}\n"
                                  "  const %%many : int64[2,4] = {0,1,0,1,1,0,1,0}\n"
                                  "  const %%last : int64[2] = {-1,-1}\n  %%y = %s \"n\"\n  output \"y\" = %%y\n}\n",
                                  input, node) > 0);
    if (CHECK_OK(graph_parse(&g, text, strlen(text)))) {
        Status st = model_repair(g, &opt, interp_node, r);

        if (refused)
            CHECK_FAILS(E_UNSUPPORTED, refused, st);
        else
            CHECK_OK(st);
        for (int i = 0; i < r->n_note; i++)
            found |= r->note[i].kind == kind && strstr(r->note[i].text, want);
        CU_ASSERT(found || refused);
    }
    graph_free(g);
    report_free(r);
    free(text);
}

static void test_rows(void)
{
    check_rows("4,6", "Slice(%x, %0, %2, %0)", NOTE_MIXES, "Slice takes 2 rows of the batch, from row 0", NULL);
    check_rows("?,6", "Slice(%x, %1, %2, %0)", NOTE_MIXES, "Slice takes 1 row of the batch, from row 1", NULL);
    check_rows("4,6", "Gather(%x, %1)", NOTE_MIXES, "Gather takes 1 row of the batch, from row 1", NULL);
    check_rows("1,6", "Slice(%x, %0, %1, %0)", NOTE_GUESS, "it takes those rows of every sample", NULL);
    check_rows("1,6", "RandomNormal() {shape=[1,6]}", NOTE_GUESS, "draws one row, because the model", NULL);
    check_rows("1,6", "Gather(%x, %last)", 0, "", "does not work for 5: Gather n");
    check_rows("2,4", "GatherElements(%x, %many)", 0, "", "does not work for 5: GatherElements n");
}

/* A divisor of a sum over the batch may count the samples of the file, as sum / N does: said at another size. */
static void check_counts(int b0, const char *nodes, int64_t batch, const char *want)
{
    const BuildOptions opt = { .mode = BUILD_INFER, .batch = &(BatchOptions){ .batch = batch } };
    char *text = NULL;
    Report *r = report_create();
    Graph *g = NULL;
    int n_found = 0;

    CU_ASSERT_FATAL(r && asprintf(&text,
                                  "graph \"g\" {\n  input %%x : float32[%d,9]\n  const %%1 : float32[] = {1}\n"
                                  "  const %%2 : float32[] = {2}\n  const %%third : float32[] = {0.333333343}\n"
                                  "  const %%4 : float32[] = {4}\n  const %%5 : float32[] = {5}\n"
                                  "  const %%8 : float32[] = {8}\n  const %%quarter : float32[] = {0.25}\n"
                                  "  const %%log : float32[] = {1.3862944}\n  const %%near : float32[] = {1.3864}\n"
                                  "  %s\n  output \"y\" = %%y\n}\n",
                                  b0, nodes) > 0);
    if (CHECK_OK(graph_parse(&g, text, strlen(text))) && CHECK_OK(model_repair(g, &opt, interp_node, r)))
        for (int i = 0; i < r->n_note; i++)
            if (r->note[i].kind == NOTE_GUESS) {
                n_found++;
                CU_ASSERT_PTR_NOT_NULL(strstr(r->note[i].text, want ? want : "nothing"));
            }
    CU_ASSERT_EQUAL(n_found, want != NULL);
    graph_free(g);
    report_free(r);
    free(text);
}

#define SUM_OF "%s = ReduceSum(%x) {keepdims=0} \"sum\"\n  "
#define MEAN_OF "%s = ReduceMean(%x) {keepdims=0} \"mean\"\n  "
#define VARIANCE "%s = ReduceMean(%x) {keepdims=0} \"mean\"\n  %n = Mul(%s, %4) \"times\"\n  "

static void test_counts(void)
{
    check_counts(4, SUM_OF "%y = Div(%s, %4) \"mean\"", 7, "Div by 4 of what is summed");
    check_counts(4, SUM_OF "%y = Div(%s, %4) \"mean\"", 4, NULL);
    check_counts(4, SUM_OF "%y = Div(%s, %8) \"mean\"", 7, "Div by 8");
    check_counts(4, SUM_OF "%y = Div(%s, %5) \"scaled\"", 7, NULL);
    check_counts(3, SUM_OF "%r = Sqrt(%s) \"root\"\n  %y = Mul(%r, %third) \"mean\"", 7, "Mul by 0.333333");
    check_counts(2, SUM_OF "%y = Mul(%s, %2) \"twice\"", 7, NULL);
    check_counts(2, "%t = Transpose(%x) {perm=[1,0]} \"t\"\n  %p = MatMul(%t, %x) \"p\"\n  %y = Div(%p, %1) \"cov\"", 7,
                 "for batches of 7");
    check_counts(1, SUM_OF "%y = Div(%s, %2) \"halved\"", 7, NULL);
    check_counts(1, SUM_OF "%y = Div(%s, %1) \"mean\"", 7, "counts samples of the 1 that");
    check_counts(4, "%s = ReduceMean(%x) {keepdims=0} \"mean\"\n  %y = Div(%s, %4) \"scaled\"", 7, NULL);
    check_counts(4, VARIANCE "%y = Div(%n, %4) \"biased\"", 7, "Div by 4");
    check_counts(4, "%y = Div(%x, %4) \"each\"", 7, NULL);
    check_counts(4, "%d = Mul(%x, %quarter) \"part\"\n  %y = ReduceSum(%d) {keepdims=0} \"sum\"", 7, "Mul by 0.25");
    check_counts(4, "%d = Div(%x, %4) \"part\"\n  %y = ReduceSum(%d) {keepdims=0} \"sum\"", 7,
                 "Div by 4 of what is summed over the batch behind it");
    check_counts(4, "%d = Mul(%x, %4) \"part\"\n  %y = ReduceSum(%d) {keepdims=0} \"sum\"", 7, NULL);
    check_counts(4, "%d = Div(%x, %4) \"part\"\n  %y = ReduceMean(%d) {keepdims=0} \"mean\"", 7, NULL);
    check_counts(4, MEAN_OF "%y = Add(%s, %log) \"add\"", 7,
                 "Add by 1.38629 of what the batch gives: if that is the logarithm");
    check_counts(4, MEAN_OF "%y = Sub(%log, %s) \"sub\"", 7, "Sub by 1.38629");
    check_counts(4, MEAN_OF "%y = Add(%s, %near) \"add\"", 7, NULL);
    check_counts(2, MEAN_OF "%y = Add(%s, %log) \"add\"", 7, NULL);
}

/* Exported for one sample: the first of three others is what it is alone. */
static void check_apart(const char *text)
{
    Graph *g[2] = { NULL, NULL };
    Arena *a = arena_create();
    const Tensor *alone = NULL, *first = NULL;

    if (CHECK_OK(graph_parse(&g[0], text, strlen(text))) && CHECK_OK(graph_parse(&g[1], text, strlen(text)))) {
        alone = infer(a, g[0], false, 1, 1);
        first = infer(a, g[1], true, 3, 3);
    }
    if (alone && first) {
        CU_ASSERT_EQUAL(tensor_numel(first), 3 * tensor_numel(alone));
        for (int64_t i = 0; i < tensor_numel(alone) && tensor_numel(first) == 3 * tensor_numel(alone); i++)
            CU_ASSERT_DOUBLE_EQUAL(tensor_float(alone, i), tensor_float(first, i), 1e-6);
    }
    graph_free(g[0]);
    graph_free(g[1]);
    arena_free(a);
}

/* A 1 that stays a 1 fails nowhere: it broadcasts. */
static void test_sizes_of_one(void)
{
    check_apart("graph \"g\" {\n  input %x : float32[1,2,2,2]\n  const %to : int64[4] = {1,2,4,4}\n"
                "  const %back : int64[4] = {1,2,2,2}\n  %up = Resize(%x, _, _, %to) {mode=\"linear\"} \"up\"\n"
                "  %down = Resize(%up, _, _, %back) {mode=\"nearest\"} \"down\"\n  %y = Add(%x, %down) \"add\"\n"
                "  output \"y\" = %y\n}\n");
    check_apart("graph \"g\" {\n  input %x : float32[1,2,3]\n  const %to : int64[3] = {1,1,2}\n"
                "  %c = CenterCropPad(%x, %to) \"crop\"\n  %y = Mul(%c, %c) \"mul\"\n  output \"y\" = %y\n}\n");
}

/* Rows of one sample in two columns are [batch,2], not [1,2 batch]. */
static void test_rows_of_one(void)
{
    check_apart("graph \"g\" {\n  input %x : float32[1,3,2]\n  const %at : int64[1,2,2] = {0,1,0,0}\n"
                "  const %axis : int64[1] = {1}\n  %r = GatherND(%x, %at) \"rows\"\n"
                "  %y = ReduceSum(%r, %axis) {keepdims=0} \"sum\"\n  output \"y\" = %y\n}\n");
}

/* [H,N,W,C] of one sample as [H,W,C]: the samples are within the rows, not beside each other within a row. */
static void test_joined_axes(void)
{
    check_apart("graph \"g\" {\n  input %x : float32[1,2,3,4]\n  const %join : int64[3] = {3,4,2}\n"
                "  const %part : int64[4] = {3,1,4,2}\n  %h = Transpose(%x) {perm=[2,0,3,1]} \"t\"\n"
                "  %r = Reshape(%h, %join) \"join\"\n  %k = Transpose(%r) {perm=[0,2,1]} \"k\"\n"
                "  %s = MatMul(%r, %k) \"scores\"\n  %p = Softmax(%s) \"softmax\"\n  %m = MatMul(%p, %r) \"mix\"\n"
                "  %b = Reshape(%m, %part) \"part\"\n  %y = Transpose(%b) {perm=[1,3,0,2]} \"u\"\n"
                "  output \"y\" = %y\n}\n");
}

/* Rows 0 and 2 of each of two samples, listed row by row: six samples that repeat the two have the same rows thrice. */
static void test_rows_by_row(void)
{
    static const char *const text =
        "graph \"g\" {\n  input %x : float32[2,3,2]\n  const %flat : int64[2] = {-1,2}\n"
        "  const %at : int64[4] = {0,3,2,5}\n  const %part : int64[3] = {2,-1,2}\n  %f = Reshape(%x, %flat) \"f\"\n"
        "  %r = Gather(%f, %at) \"rows\"\n  %p = Reshape(%r, %part) \"p\"\n  %y = Transpose(%p) {perm=[1,0,2]} \"t\"\n"
        "  output \"y\" = %y\n}\n";
    Graph *g[2] = { NULL, NULL };
    Arena *a = arena_create();
    const Tensor *plain = NULL, *thrice = NULL;

    if (CHECK_OK(graph_parse(&g[0], text, strlen(text))) && CHECK_OK(graph_parse(&g[1], text, strlen(text)))) {
        plain = infer(a, g[0], false, 2, 2);
        thrice = infer(a, g[1], true, 6, 2);
    }
    if (plain && thrice) {
        CU_ASSERT_EQUAL(tensor_numel(plain), 8);
        CU_ASSERT_EQUAL(tensor_numel(thrice), 24);
        for (int64_t i = 0; i < tensor_numel(thrice) && tensor_numel(plain) == 8; i++)
            CU_ASSERT_EQUAL(tensor_float(thrice, i), tensor_float(plain, i % 8));
    }
    graph_free(g[0]);
    graph_free(g[1]);
    arena_free(a);
}

/* A length that the file leaves open stays open in a list in which the batch is a number. */
static void test_open_length(void)
{
    static const char *const text =
        "graph \"g\" {\n  input %x : float32[1,?,4]\n  const %1 : int64[1] = {1}\n  const %2 : int64[1] = {2}\n"
        "  %d = Shape(%x) \"dims\"\n  %t = Slice(%d, %1, %2) \"length\"\n  %to = Concat(%1, %t, %2, %2) {axis=0} "
        "\"list\"\n"
        "  %y = Reshape(%x, %to) \"heads\"\n  output \"y\" = %y\n}\n";

    for (int64_t batch = 1; batch <= 3; batch += 2)
        for (int64_t length = 5; length <= 40; length += 27) {
            const InputShape shape = { "x", SHAPE(batch, length, 4) };
            const Shape want = SHAPE(batch, length, 2, 2);
            BatchOptions given = { .batch = batch };
            const BuildOptions opt = { .mode = BUILD_INFER, .batch = &given };
            Graph *g = NULL;

            if (CHECK_OK(graph_parse(&g, text, strlen(text))) && CHECK_OK(model_repair(g, &opt, interp_node, NULL))) {
                given.input_shape = &shape;
                given.n_input_shape = 1;
                if (CHECK_OK(pipeline_run(g, &opt, interp_node, NULL, NULL)))
                    CU_ASSERT(shape_eq(value(g, g->output[0].value)->shape, &want));
            }
            graph_free(g);
        }
}

DEFINE_SUITE(rebatch, { "bits at the exported size", test_bits }, { "what cannot be rewritten is named", test_refused },
             { "a list whose length is the batch", test_list_of_another_length },
             { "rows equal along two axes", test_equal_rows }, { "two axes that may be the batch", test_two_axes },
             { "rows of some samples", test_rows }, { "numbers that may count samples", test_counts },
             { "sizes of one sample", test_sizes_of_one }, { "rows of one sample", test_rows_of_one },
             { "axes joined with one sample", test_joined_axes }, { "rows listed row by row", test_rows_by_row },
             { "an open length beside a batch of one", test_open_length });
