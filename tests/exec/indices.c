/* Indices and labels that are inputs, of int32 and of int64, on CUDA devices: bad ones are refused before a step by the
 * name of the input and the place, and what is legal (indices that count from the end, ignored labels) gives what the
 * formula says. */
#include <limits.h>
#include <math.h>

#include "graph/ir/emit.h"
#include "graph/ops/index.gen.h"
#include "graph/ops/loss.gen.h"
#include "passes/pass.h"
#include "tests/exec/training.h"
#include "tests/harness/test.h"

enum { N = 7, ROWS = 5, IGNORED = -100 };

/* The scores of N rows of a table, against labels: the sum of -score[label] over the labels that are not ignored. */
static Graph *lookup(DType t, int replicas)
{
    Graph *g = graph_create("lookup");
    Shape batch = SHAPE(N), size = SHAPE(ROWS, CLASSES);
    Tensor *table = tensor_create(g->arena, DT_FLOAT32, &size);
    ValueId rows, labels, sums[2];

    for (int i = 0; i < ROWS * CLASSES; i++)
        ((float *)table->data)[i] = (float)(i * i);
    rows = graph_add_input(g, "rows", t, &batch);
    labels = graph_add_input(g, "labels", t, &batch);
    rows = EMIT(g, Gather, NULL, graph_add_state(g, "table", table, false), rows);
    EMIT_MULTI(g, NllSum, ATTRS(INT("ignore_index", IGNORED)), 2, sums, rows, labels);
    graph_add_output(g, OUT_LOSS, sums[0]);
    training_partition(g, replicas, 1);
    return g;
}

static const int64_t good_rows[N] = { 0, 4, -1, -5, 2, 2, 3 }, good_labels[N] = { 0, 4, IGNORED, 1, 2, IGNORED, 3 };

static double expected(void)
{
    double sum = 0;

    for (int i = 0; i < N; i++)
        if (good_labels[i] != IGNORED)
            sum -= pow((double)(good_rows[i] + (good_rows[i] < 0 ? ROWS : 0)) * CLASSES + (double)good_labels[i], 2);
    return sum;
}

static void set(NamedTensor in[2], Arena *a, DType t)
{
    static const char *const names[] = { "rows", "labels" };
    Shape batch = SHAPE(N);

    for (int k = 0; k < 2; k++) {
        in[k] = (NamedTensor){ names[k], *tensor_create(a, t, &batch) };
        for (int i = 0; i < N; i++)
            tensor_set_int(&in[k].tensor, i, (k ? good_labels : good_rows)[i]);
    }
}

static void refused(Rig *rig, NamedTensor in[2], int which, int at, int64_t bad, const char *text)
{
    const int64_t good = tensor_int(&in[which].tensor, at);

    tensor_set_int(&in[which].tensor, at, bad);
    CHECK_FAILS(E_INVALID, text, program_run(rig->program, in, 2));
    tensor_set_int(&in[which].tensor, at, good);
}

static void check_type(DType t, int replicas)
{
    Arena *a = arena_create();
    NamedTensor in[2];
    Rig rig;

    set(in, a, t);
    if (CHECK_OK(rig_open_cuda(&rig, lookup(t, replicas), 1, false))) {
        refused(&rig, in, 0, 6, ROWS, "element 6 of input 'rows' is 5, not one of 5");
        refused(&rig, in, 0, 1, -ROWS - 1, "element 1 of input 'rows' is -6, not one of 5");
        refused(&rig, in, 0, 0, INT_MIN, "element 0 of input 'rows' is -2147483648, not one of 5");
        refused(&rig, in, 1, 3, CLASSES, "element 3 of input 'labels' is 5, not one of 5 classes");
        refused(&rig, in, 1, 0, -1, "element 0 of input 'labels' is -1, not one of 5 classes");
        refused(&rig, in, 1, 6, INT_MAX, "element 6 of input 'labels' is 2147483647, not one of 5 classes");
        if (t == DT_INT64)
            refused(&rig, in, 1, 5, (int64_t)1 << 32,
                    "element 5 of input 'labels' is 4294967296, not one of 5 classes");
        if (CHECK_OK(program_run(rig.program, in, 2)))
            CU_ASSERT_EQUAL(*(float *)rig_output(&rig, OUT_LOSS)->data, expected());
    }
    rig_close(&rig);
    arena_free(a);
}

static void test_int32(void)
{
    check_type(DT_INT32, 1);
    check_type(DT_INT32, 3);
}

static void test_int64(void)
{
    check_type(DT_INT64, 1);
    check_type(DT_INT64, 3);
}

DEFINE_SUITE(indices, { "int32", test_int32 }, { "int64", test_int64 });
