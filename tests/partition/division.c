/* How the batch is divided, what is split, what is refused, and what the graph looks like. */
#include <stdlib.h>
#include <string.h>

#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/tensor/reduce_tree.h"
#include "passes/batch_axis.h"
#include "passes/partition/place.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "passes/options/outputs.h"
#include "passes/options/replicas.h"
#include "tests/harness/test.h"
#include "tests/partition/train.h"

static Graph *parse(const char *text)
{
    Graph *g = NULL;

    return CHECK_OK(graph_parse(&g, text, strlen(text))) ? g : NULL;
}

/* ---- sizes ---- */

static void check_division(int64_t batch, const BuildOptions *opt, const int64_t *expected)
{
    char text[200];
    Arena *a = arena_create();
    Graph *g;
    Partition p;
    int64_t at = 0;

    snprintf(text, sizeof text, "graph \"g\" {\n  input %%x : float32[%lld,2]\n}\n", (long long)batch);
    g = parse(text);
    if (g && CHECK_OK(partition_decide(&p, g, opt, a, NULL)))
        for (int r = 0; r < replica_options(opt)->replicas; r++) {
            CU_ASSERT_EQUAL(p.batch.count[r], expected[r]);
            CU_ASSERT_EQUAL(p.batch.offset[r], at);
            at += p.batch.count[r];
        }
    graph_free(g);
    arena_free(a);
}

static void check_sizes(int64_t batch, int replicas, SplitMode mode, const int64_t *expected)
{
    check_division(batch, &(BuildOptions){ .replicas = &(ReplicaOptions){ .replicas = replicas, .split = mode } },
                   expected);
}

static void check_weights(int64_t batch, int replicas, int devices, const double *weight, int n,
                          const int64_t *expected)
{
    check_division(batch,
                   &(BuildOptions){ .replicas = &(ReplicaOptions){ .replicas = replicas,
                                                                   .devices = devices,
                                                                   .split = SPLIT_WEIGHTS,
                                                                   .weight = weight,
                                                                   .n_weight = n } },
                   expected);
}

/* By hand: dues, their whole parts, the largest remainders. */
static void test_weights(void)
{
    static const double thirds[] = { 1, 1, 1 }, shares[] = { 41, 29, 17, 13 }, some[] = { 0, 1, 0, 2 },
                        uneven[] = { 0.1, 0.7 }, tiny[] = { 1e-9, 1 };

    check_weights(10, 3, 3, thirds, 3, (const int64_t[]){ 4, 3, 3 });    /* 3.33 each */
    check_weights(10, 4, 4, shares, 4, (const int64_t[]){ 4, 3, 2, 1 }); /* 4.1, 2.9, 1.7, 1.3 */
    check_weights(12, 4, 4, shares, 4, (const int64_t[]){ 5, 3, 2, 2 }); /* 4.92, 3.48, 2.04, 1.56 */
    check_weights(1, 4, 4, shares, 4, (const int64_t[]){ 1, 0, 0, 0 });
    check_weights(7, 4, 4, some, 4, (const int64_t[]){ 0, 2, 0, 5 }); /* 2.33, 4.67 */
    check_weights(0, 2, 2, uneven, 2, (const int64_t[]){ 0, 0 });
    check_weights(9, 5, 2, uneven, 2, (const int64_t[]){ 1, 0, 0, 4, 4 }); /* 0.375 three times, 3.9375 twice */
    check_weights(1000000000, 2, 2, tiny, 2, (const int64_t[]){ 1, 999999999 });
    check_weights(5, 1, 1, uneven, 2, (const int64_t[]){ 5 });
}

static void test_sizes(void)
{
    check_sizes(10, 4, SPLIT_BALANCED, (const int64_t[]){ 3, 3, 2, 2 });
    check_sizes(5, 4, SPLIT_CHUNK, (const int64_t[]){ 2, 2, 1, 0 });
    check_sizes(3, 4, SPLIT_CHUNK, (const int64_t[]){ 1, 1, 1, 0 });
    check_sizes(2, 3, SPLIT_BALANCED, (const int64_t[]){ 1, 1, 0 });
    check_sizes(10, 4, SPLIT_CHUNK, (const int64_t[]){ 3, 3, 3, 1 });
    check_sizes(0, 2, SPLIT_BALANCED, (const int64_t[]){ 0, 0 });
}

/* ---- which inputs ---- */

static int axis_of(const char *text, const BuildOptions *opt, const char *input)
{
    Arena *a = arena_create();
    Graph *g = parse(text);
    Partition p;
    int axis = -2;

    if (g && CHECK_OK(partition_decide(&p, g, opt, a, NULL)))
        axis = p.batch_axis[graph_find(g, input).i];
    graph_free(g);
    arena_free(a);
    return axis;
}

static const char named[] = "graph \"g\" {\n"
                            "  input %mask : float32[4,4]\n"
                            "  input %x : float32[\"N\"=4,3]\n"
                            "  input %y : float32[3,\"N\"=4]\n"
                            "  input %table : float32[4,7]\n"
                            "  input %target : int64[4]\n"
                            "}\n";
static const char unnamed[] = "graph \"g\" {\n"
                              "  input %x : float32[4,3]\n"
                              "  input %y : float32[3,4]\n"
                              "  input %scalar : float32[]\n"
                              "  input %z : float32[4]\n"
                              "}\n";

static const char rows[] = "graph \"g\" {\n"
                           "  input %x : float32[\"N\"=4,3]\n"
                           "  input %target : int64[\"N\"=8]\n"
                           "}\n";

static const char second[] = "graph \"g\" {\n"
                             "  input %x : float32[4,\"batch_size\"=4]\n"
                             "  input %y : float32[4,\"other\"=4]\n"
                             "}\n";

static void test_inputs(void)
{
    static const BatchInput told[] = { { "y", 1 } }, told_x[] = { { "x", 0 } };
    BuildOptions by_symbol = { .replicas = &(ReplicaOptions){ .replicas = 2 } },
                 by_name = { .replicas = &(ReplicaOptions){ .replicas = 2 },
                             .batch = &(BatchOptions){ .batch_input = told, .n_batch_input = 1 } },
                 by_x = { .replicas = &(ReplicaOptions){ .replicas = 2 },
                          .batch = &(BatchOptions){ .batch_input = told_x, .n_batch_input = 1 } };

    CU_ASSERT_EQUAL(axis_of(named, &by_symbol, "x"), 0);
    CU_ASSERT_EQUAL(axis_of(named, &by_symbol, "y"), 1);
    CU_ASSERT_EQUAL(axis_of(named, &by_symbol, "mask"), -1);
    CU_ASSERT_EQUAL(axis_of(named, &by_symbol, "table"), -1);
    CU_ASSERT_EQUAL(axis_of(named, &by_symbol, "target"), 0);
    CU_ASSERT_EQUAL(axis_of(second, &by_symbol, "x"), 1);
    CU_ASSERT_EQUAL(axis_of(second, &by_symbol, "y"), -1);
    CU_ASSERT_EQUAL(axis_of(unnamed, &by_symbol, "x"), 0);
    CU_ASSERT_EQUAL(axis_of(unnamed, &by_symbol, "y"), -1);
    CU_ASSERT_EQUAL(axis_of(unnamed, &by_symbol, "scalar"), -1);
    CU_ASSERT_EQUAL(axis_of(unnamed, &by_symbol, "z"), 0);
    CU_ASSERT_EQUAL(axis_of(unnamed, &by_name, "x"), -1);
    CU_ASSERT_EQUAL(axis_of(unnamed, &by_name, "y"), 1);
    CU_ASSERT_EQUAL(axis_of(rows, &by_x, "target"), -1); /* 8 rows are not the batch of 4 */
}

/* Without symbols the first input's axis 0 gives the batch size: data is split where axis 0 has it. */
static void test_data(void)
{
    const BuildOptions opt = { 0 };
    Graph *g = parse(unnamed);

    if (!g)
        return;
    CU_ASSERT_EQUAL(data_split_axis(g, &opt, "x"), 0);
    CU_ASSERT_EQUAL(data_split_axis(g, &opt, "y"), -1);
    CU_ASSERT_EQUAL(data_split_axis(g, &opt, "scalar"), -1);
    CU_ASSERT_EQUAL(data_split_axis(g, &opt, "z"), 0);
    graph_free(g);
}

static void refused(const char *text, const Graph *g, BuildOptions opt)
{
    Arena *a = arena_create();
    Partition p;

    CHECK_FAILS(E_INVALID, text, partition_decide(&p, g, &opt, a, NULL));
    arena_free(a);
}

static void test_wrong_options(void)
{
    static const BatchInput missing[] = { { "nothing", 0 } }, deep[] = { { "x", 2 } },
                            both[] = { { "x", 0 }, { "y", 0 } };
    static const int backwards[] = { 1, 0 };
    static const double three[] = { 1, 2, 3 };
    Arena *a = arena_create();
    Graph *g = parse(unnamed);
    Partition p;

    CHECK_FAILS(
        E_INVALID, "--batch-input nothing: the model has no such input",
        partition_decide(
            &p, g, &(BuildOptions){ .batch = &(BatchOptions){ .batch_input = missing, .n_batch_input = 1 } }, a, NULL));
    CHECK_FAILS(E_INVALID, "--batch-input x:2: the input has rank 2",
                partition_decide(&p, g,
                                 &(BuildOptions){ .batch = &(BatchOptions){ .batch_input = deep, .n_batch_input = 1 } },
                                 a, NULL));
    CHECK_FAILS(E_INVALID, "batch size 4",
                partition_decide(&p, g,
                                 &(BuildOptions){ .batch = &(BatchOptions){ .batch_input = both, .n_batch_input = 2 } },
                                 a, NULL));
    CHECK_FAILS(E_INVALID, "--split: expected a weight for each of 2 devices or 4 replicas, found 3",
                partition_decide(&p, g,
                                 &(BuildOptions){ .replicas = &(ReplicaOptions){ .replicas = 4,
                                                                                 .devices = 2,
                                                                                 .split = SPLIT_WEIGHTS,
                                                                                 .weight = three,
                                                                                 .n_weight = 3 } },
                                 a, NULL));
    CHECK_FAILS(
        E_INVALID, "--split: expected a weight for each of 2 devices, found 3",
        partition_decide(
            &p, g,
            &(BuildOptions){
                .replicas = &(ReplicaOptions){ .devices = 2, .split = SPLIT_WEIGHTS, .weight = three, .n_weight = 3 } },
            a, NULL));
    CHECK_FAILS(E_INVALID, "every device needs one",
                partition_decide(&p, g, &(BuildOptions){ .replicas = &(ReplicaOptions){ .replicas = 1, .devices = 2 } },
                                 a, NULL));
    CHECK_FAILS(E_INVALID, "replica 1 is on device 0",
                partition_decide(
                    &p, g,
                    &(BuildOptions){
                        .replicas = &(ReplicaOptions){ .replicas = 2, .devices = 2, .device_of_replica = backwards } },
                    a, NULL));
    graph_free(g);
    arena_free(a);
}

static void test_wrong_devices(void)
{
    static const int beyond[] = { 0, 2 }, second[] = { 1, 1 }, first[] = { 0, 0 };
    Graph *g = parse(unnamed);

    refused(
        "replica 1 is on device 2: expected non-decreasing numbers below 2", g,
        (BuildOptions){ .replicas = &(ReplicaOptions){ .replicas = 2, .devices = 2, .device_of_replica = beyond } });
    refused(
        "device 0 has no replica", g,
        (BuildOptions){ .replicas = &(ReplicaOptions){ .replicas = 2, .devices = 2, .device_of_replica = second } });
    refused("device 1 has no replica", g,
            (BuildOptions){ .replicas = &(ReplicaOptions){ .replicas = 2, .devices = 2, .device_of_replica = first } });
    refused("4 samples in groups of 1: more groups than the 3 replicas", g,
            (BuildOptions){ .replicas = &(ReplicaOptions){ .replicas = 3, .devices = 1, .samples_each = 1 } });
    refused("6 replicas on 2 devices: expected 1, 2, 4, 8 ... replicas on each", g,
            (BuildOptions){ .replicas = &(ReplicaOptions){ .replicas = 6, .world = 2 } });
    refused("3 replicas on 2 devices: expected 1, 2, 4, 8 ... replicas on each", g,
            (BuildOptions){ .replicas = &(ReplicaOptions){ .replicas = 3, .world = 2 } });
    refused("--output-device 1: expected one of 1 device, counted from 0, or host", g,
            (BuildOptions){ .outputs = &(OutputOptions){ .output_device = 1 } });
    refused("--output-device 2: expected one of 2 devices", g,
            (BuildOptions){ .replicas = &(ReplicaOptions){ .devices = 2 },
                            .outputs = &(OutputOptions){ .output_device = 2 } });
    graph_free(g);
}

/* ---- the tree ---- */

static void test_tree(void)
{
    int program[16];
    static const int expected5[] = { 0, 1, TREE_ADD, 2, 3, TREE_ADD, TREE_ADD, 4, TREE_ADD };

    CHECK_OK(reduce_tree_program(program, (const int64_t[]){ 0, 1, 1, 2, 2, 3, 3, 4, 4, 5 }, 5));
    CU_ASSERT(!memcmp(program, expected5, sizeof expected5));
    CHECK_OK(reduce_tree_program(program, (const int64_t[]){ 0, 4, 4, 5 }, 2));
    CU_ASSERT_EQUAL(program[2], TREE_ADD);
    CHECK_FAILS(E_INVALID, "expected to begin at 1", reduce_tree_program(program, (const int64_t[]){ 0, 1, 2, 3 }, 2));
    CHECK_FAILS(E_INVALID, "no part", reduce_tree_program(program, (const int64_t[]){ 0, 3, 3, 4 }, 2));
    CHECK_FAILS(E_INVALID, "at least one", reduce_tree_program(program, NULL, 0));
}

/* ---- the text ---- */

static void test_text(void)
{
    static const char text[] = "graph \"g\" {\n"
                               "  input %x : float32[3,2]\n"
                               "  state %w trainable : float32[2] = {1, 2}\n"
                               "  %y : float32[3,2] = Mul(%x, %w)\n"
                               "  %loss : float32[] = ReduceSum(%y) {keepdims=0}\n"
                               "  output \"loss\" = %loss\n"
                               "}\n";
    static const char expected[] =
        "graph \"g\" {\n"
        "  input %x : float32[3,2]\n"
        "  state %w@d0 trainable : float32[2] @d0 = {1, 2}\n"
        "  state %w@d1 trainable : float32[2] @d1 = {1, 2}\n"
        "  %x@r0 : float32[1,2] @r0 d0, %x@r1 : float32[1,2] @r1 d0, %x@r2 : float32[1,2] @r2 d1 = dpexec.Scatter(%x) "
        "{counts=[1,1,1], devices=[0,0,1]}\n"
        "  %y@r0 : float32[1,2] = Mul(%x@r0, %w@d0) @r0 d0\n"
        "  %y@r1 : float32[1,2] = Mul(%x@r1, %w@d0) @r1 d0\n"
        "  %y@r2 : float32[1,2] = Mul(%x@r2, %w@d1) @r2 d1\n"
        "  %loss@r0 : float32[] = ReduceSum(%y@r0) {keepdims=0} @r0 d0\n"
        "  %loss@r1 : float32[] = ReduceSum(%y@r1) {keepdims=0} @r1 d0\n"
        "  %loss@r2 : float32[] = ReduceSum(%y@r2) {keepdims=0} @r2 d1\n"
        "  %loss@d0 : float32[] = Add(%loss@r0, %loss@r1) @d0\n"
        "  %loss@d0_1 : float32[] of \"loss\" @d0, %loss@d1 : float32[] @d1 = dpexec.AllReduce(%loss@d0, %loss@r2) "
        "{spans=[0,2,2,3], devices=[0,1]}\n"
        "  output \"loss\" = %loss@d0_1\n"
        "}\n";
    Graph *g = parse(text), *many = NULL;
    char *found = NULL;

    if (g && CHECK_OK(train_divide(&many, g, &(Division){ .replicas = 3, .devices = 2 }, NULL)) &&
        CHECK_OK(graph_text(&found, many, &(PrintOptions){ .no_node_names = true })))
        CHECK_STR(expected, found);
    free(found);
    graph_free(g);
    graph_free(many);
}

/* A model that is written keeps the names of its outputs' dimensions. */
static void test_output_dimensions(void)
{
    static const char *const names[MAX_RANK] = { "N" };
    Graph *g = parse("graph \"g\" {\n  input %x : float32[\"N\"=4,3]\n  %y = Relu(%x)\n  output \"y\" = %y\n}\n"),
          *many = NULL;

    if (g)
        g->output[0].dim_param = names;
    if (g && CHECK_OK(train_divide(&many, g, &(Division){ .replicas = 2, .devices = 2 }, NULL))) {
        CU_ASSERT_EQUAL(many->n_output, 1);
        CHECK_STR("N", many->output[0].dim_param ? many->output[0].dim_param[0] : "");
    }
    graph_free(g);
    graph_free(many);
}

DEFINE_SUITE(division, { "sizes of the parts", test_sizes }, { "parts by weight", test_weights },
             { "which inputs are split", test_inputs }, { "which data is split", test_data },
             { "dimensions of outputs", test_output_dimensions }, { "wrong options", test_wrong_options },
             { "replicas and devices that do not go together", test_wrong_devices }, { "the tree of sums", test_tree },
             { "text", test_text });
