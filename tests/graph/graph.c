/* The IR's construction and order. */
#include "graph/ir/graph.h"
#include "graph/ops/softmax.gen.h"

#include "graph/ir/op.h"
#include "tests/harness/test.h"

static void test_sort_is_stable(void)
{
    Graph *g = graph_create("g");
    Shape s = SHAPE(2, 3);
    ValueId x = graph_add_input(g, "x", DT_FLOAT32, &s);
    Node *a = graph_add_node(g, &op_Softmax, "a", NULL, 1, &x, 1, NULL);
    Node *b = graph_add_node(g, &op_Softmax, "b", NULL, 1, a->out, 1, NULL);
    Node *c = graph_add_node(g, &op_Softmax, "c", NULL, 1, &x, 1, NULL);

    node_set_input(g, a, 0, c->out[0]);
    CHECK_OK(graph_sort(g));
    CU_ASSERT_PTR_EQUAL(g->node[0], c);
    CU_ASSERT_PTR_EQUAL(g->node[1], a);
    CU_ASSERT_PTR_EQUAL(g->node[2], b);
    node_set_input(g, c, 0, b->out[0]);
    CHECK_FAILS(E_MODEL, "cycle", graph_sort(g));
    graph_free(g);
}

static void test_names_are_unique(void)
{
    Graph *g = graph_create("g");
    Shape s = SHAPE(1);
    ValueId a = graph_add_input(g, "x", DT_FLOAT32, &s), b = graph_add_input(g, "x", DT_FLOAT32, &s);

    CHECK_STR("x", value(g, a)->name);
    CHECK_STR("x_1", value(g, b)->name);
    graph_rename(g, b, "y");
    CU_ASSERT_EQUAL(graph_find(g, "y").i, b.i);
    CU_ASSERT_EQUAL(graph_find(g, "x_1").i, 0);
    graph_free(g);
}

static void test_clone_is_equal(void)
{
    Graph *g = graph_create("g"), *copy = NULL;
    Shape s = SHAPE(2, 3);
    ValueId x = graph_add_input(g, "x", DT_FLOAT32, &s);
    Node *n = graph_add_node(g, &op_Softmax, "a", ATTRS(INT("axis", 1)), 1, &x, 1, NULL);

    graph_add_output(g, "y", n->out[0]);
    value(g, x)->tied = value(g, x)->member = true;
    value(g, x)->evidence = EVIDENCE_PARAMETER;
    value(g, x)->next = "z";
    CHECK_OK(node_normalise(g, n));
    CHECK_OK(node_infer(g, n));
    CHECK_OK(graph_clone(&copy, g));
    CU_ASSERT(value(copy, x)->tied && value(copy, x)->member);
    CU_ASSERT_EQUAL(value(copy, x)->evidence, EVIDENCE_PARAMETER);
    CHECK_STR("z", value(copy, x)->next);
    CU_ASSERT_PTR_NOT_EQUAL(value(copy, x)->next, value(g, x)->next);
    CU_ASSERT_EQUAL(copy->n_node, 1);
    CU_ASSERT_EQUAL(node_int(copy->node[0], "axis"), 1);
    CU_ASSERT_PTR_EQUAL(value(copy, copy->node[0]->out[0])->producer, copy->node[0]);
    CU_ASSERT(shape_eq(value(copy, copy->output[0].value)->shape, &s));
    graph_free(copy);
    graph_free(g);
}

/* Readers are made for the type that they found. */
static void test_replaced_alike(void)
{
    Shape s = SHAPE(2, 3), other = SHAPE(1, 2, 3), unknown = shape_unknown();
    struct {
        DType dtype;
        const Shape *shape;
        Status expected;
    } by[] = {
        { DT_FLOAT32, &s, ST_OK },
        { DT_NONE, &unknown, ST_OK },
        { DT_FLOAT32, &other, E_INTERNAL },
        { DT_FLOAT16, &s, E_INTERNAL },
    };

    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        Graph *g = graph_create("g");
        ValueId x = graph_add_input(g, "x", DT_FLOAT32, &s), y = graph_add_input(g, "y", by[i].dtype, by[i].shape);

        graph_add_output(g, "out", x);
        graph_replace(g, x, y);
        CU_ASSERT_EQUAL(g->status, by[i].expected);
        CU_ASSERT_EQUAL(g->output[0].value.i, by[i].expected ? x.i : y.i);
        graph_free(g);
    }
}

/* Each by its domain and name, and nothing by another domain or a name that stands between two. */
static void test_operators_are_found(void)
{
    char other[128];

    for (int i = 0; i < op_list_len; i++) {
        const OpDef *op = op_list[i];

        CU_ASSERT_PTR_EQUAL(op_find(op->domain ? op->domain : "ai.onnx", op->name), op);
        CU_ASSERT_PTR_NULL(op_find("another", op->name));
        snprintf(other, sizeof other, "%s~", op->name);
        CU_ASSERT_PTR_NULL(op_find(op->domain, other));
    }
    CU_ASSERT_PTR_NULL(op_find(NULL, ""));
}

DEFINE_SUITE(graph, { "sort is stable and names cycles", test_sort_is_stable },
             { "names are unique", test_names_are_unique }, { "clone is equal", test_clone_is_equal },
             { "replaced by its like", test_replaced_alike }, { "operators are found", test_operators_are_found });
