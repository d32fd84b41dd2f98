/* What the collectives say of themselves: the table of graph/ir/collective.h, where outputs are views, what may be
 * overwritten. */
#include <string.h>

#include "graph/ir/collective.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "tests/harness/test.h"

static const char text[] =
    "graph \"g\" {\n"
    "  input %a : float32[4,6]\n"
    "  input %b : float32[4,6]\n"
    "  input %c : float32[2]\n"
    "  input %d : float32[2]\n"
    "  %all0, %all1, %all2, %small0, %small1, %small2 = dpexec.AllReduce(%a, %b, %c, %d) {spans=[0,1,1,2], tensors=2, "
    "devices=[0,1,2]}\n"
    "  %piece0, %piece1 = dpexec.ReduceScatter(%a, %b) {spans=[0,1,1,2], axis=1, counts=[2,4], devices=[1,0]}\n"
    "  %whole0, %whole1, %whole2 = dpexec.AllGather(%a, %b) {axis=-2, devices=[2,1,0]}\n"
    "  %row0, %row1 = dpexec.Scatter(%a) {axis=0, counts=[1,3], devices=[0,1]}\n"
    "  %column0, %column1 = dpexec.Scatter(%a) {axis=1, counts=[2,4], devices=[0,1]}\n"
    "  %copy0, %copy1 = dpexec.Broadcast(%a) {devices=[-1,1]}\n"
    "  %two0, %two1, %small_piece0, %small_piece1 = dpexec.ReduceScatter(%a, %b, %c, %d) {spans=[0,1,1,2], axis=0, "
    "tensors=2, counts=[1,3,2,0], devices=[0,1]}\n"
    "  %turned0, %turned1, %turned2 = dpexec.AllToAll(%a, %b) {axis=-2, cut=-1, counts=[3,0,3], devices=[0,1,0]}\n"
    "  %both0, %both1, %small_whole0, %small_whole1 = dpexec.AllGather(%a, %b, %c, %d) {axis=0, tensors=2, "
    "devices=[0,1]}\n"
    "  %none = Relu(%a)\n"
    "}\n";

static const struct {
    const char *output; /* the first */
    Exchange is;
    bool reduces, spreads;
    int64_t view_of_second;
} expected[] = {
    { "all0", { .tensors = 2, .parts = 2, .copies = 3, .sum = true, .axis = -1, .n_device = 3 }, true, false, -1 },
    { "piece0",
      { .tensors = 1, .parts = 2, .copies = 2, .sum = true, .split = true, .axis = 1, .n_device = 2 },
      0,
      0,
      -1 },
    { "whole0", { .tensors = 1, .parts = 2, .copies = 3, .joined = true, .axis = 0, .n_device = 3 }, false, false, -1 },
    { "two0",
      { .tensors = 2, .parts = 2, .copies = 2, .sum = true, .split = true, .axis = 0, .n_device = 2 },
      0,
      0,
      -1 },
    { "both0", { .tensors = 2, .parts = 2, .copies = 2, .joined = true, .axis = 0, .n_device = 2 }, false, false, -1 },
    { "turned0",
      { .tensors = 1, .parts = 2, .copies = 3, .joined = true, .split = true, .axis = 0, .cut = 1, .n_device = 3 },
      false,
      false,
      -1 },
    { "row0", { .tensors = 1, .parts = 1, .copies = 2, .split = true, .axis = 0, .n_device = 2 }, false, true, 24 },
    { "column0", { .tensors = 1, .parts = 1, .copies = 2, .split = true, .axis = 1, .n_device = 2 }, false, true, -1 },
    { "copy0", { .tensors = 1, .parts = 1, .copies = 2, .axis = -1, .n_device = 2 }, false, true, 0 },
    { "none", { .axis = -1 }, false, false, -1 },
};

static void test_table(void)
{
    Graph *g = NULL;

    if (!CHECK_OK(graph_parse(&g, text, sizeof text - 1)))
        return;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const Node *n = value(g, graph_find(g, expected[i].output))->producer;
        const Exchange e = exchange_of(n), *is = &expected[i].is;

        if (e.tensors != is->tensors || e.parts != is->parts || e.copies != is->copies || e.sum != is->sum ||
            e.joined != is->joined || e.split != is->split || e.axis != is->axis || e.n_device != is->n_device ||
            e.cut != (!is->split   ? -1
                      : is->joined ? is->cut
                                   : is->axis) ||
            exchange_reduces(&e) != expected[i].reduces || exchange_distributes(&e) != expected[i].spreads)
            TEST_FAIL("%s is described otherwise", expected[i].output);
        CU_ASSERT_EQUAL(node_view_of(g, n, 1), expected[i].view_of_second);
        CU_ASSERT_EQUAL(e.span != NULL, e.sum);
    }
    graph_free(g);
}

static bool has_shape(const Graph *g, const char *name, Shape shape)
{
    return shape_eq(value(g, graph_find(g, name))->shape, &shape);
}

static void test_shapes(void)
{
    Graph *g = NULL;

    if (!CHECK_OK(graph_parse(&g, text, sizeof text - 1)))
        return;
    CU_ASSERT(has_shape(g, "two1", SHAPE(3, 6)) && has_shape(g, "small_piece0", SHAPE(2)) &&
              has_shape(g, "small_piece1", SHAPE(0)));
    CU_ASSERT(has_shape(g, "turned0", SHAPE(8, 3)) && has_shape(g, "turned1", SHAPE(8, 0)) &&
              has_shape(g, "turned2", SHAPE(8, 3)));
    CU_ASSERT(has_shape(g, "both1", SHAPE(8, 6)) && has_shape(g, "small_whole1", SHAPE(4)));
    graph_free(g);
}

static void test_devices(void)
{
    Graph *g = NULL;
    Exchange all, copy;

    if (!CHECK_OK(graph_parse(&g, text, sizeof text - 1)))
        return;
    all = exchange_of(value(g, graph_find(g, "all0"))->producer);
    copy = exchange_of(value(g, graph_find(g, "copy0"))->producer);
    CU_ASSERT_EQUAL(exchange_device(&all, 1), 1);
    CU_ASSERT_EQUAL(exchange_device(&all, 5), 2); /* of the second tensor */
    CU_ASSERT_EQUAL(exchange_tensor(&all, 2), 0);
    CU_ASSERT_EQUAL(exchange_tensor(&all, 3), 1);
    CU_ASSERT_EQUAL(exchange_device(&copy, 0), -1);
    graph_free(g);
}

/* A sum over any part of its own tensor, and no other collective over anything. */
static void test_overwriting(void)
{
    Graph *g = NULL;

    if (!CHECK_OK(graph_parse(&g, text, sizeof text - 1)))
        return;
    for (size_t i = 0; i + 1 < sizeof expected / sizeof *expected; i++) {
        const Node *n = value(g, graph_find(g, expected[i].output))->producer;

        for (int o = 0; o < n->n_out; o++)
            for (int j = 0; j < n->n_in; j++)
                CU_ASSERT_EQUAL(node_overwrites(g, n, o, j), expected[i].reduces && o / 3 == j / 2);
    }
    graph_free(g);
}

DEFINE_SUITE(exchange, { "the table", test_table }, { "shapes", test_shapes }, { "devices", test_devices },
             { "overwriting", test_overwriting });
