/* Scan whose length the file fixes becomes dataflow; one that data decides, and wrong ones, are refused with a line. */
#include "tests/onnx/build.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/concat.gen.h"

#define KIND(k) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##k

static Graph *imported(Built *b)
{
    Graph *g = NULL;

    CHECK_OK(built_import(&g, b));
    built_free(b);
    return g;
}

static void ints_attr(Built *b, Onnx__NodeProto *n, const char *name, size_t count_, int64_t *v)
{
    Onnx__AttributeProto *a = attr_make(b->arena, name, KIND(INTS));

    a->n_ints = count_;
    a->ints = v;
    node_add_attr(b->arena, n, a);
}

/* Running sums of x [2, 5, 3] along axis 1, from the end when `backward`, stacked along the last axis in reverse. */
static Built running_sum(int64_t opset, const char *dims, Onnx__NodeProto **node)
{
    static int64_t in_axis = 1, back = 1, out_axis = -1;
    Built b = built_create(opset), sub;
    float zero[6] = { 0 };

    built_input(&b, "x", DT_FLOAT32, dims);
    built_init(&b, "zero", DT_FLOAT32, "2,3", sizeof zero, zero);
    *node = built_node(&b, "Scan", "zero,x", "total,sums");
    (*node)->name = "scan";
    node_attr_int(b.arena, *node, "num_scan_inputs", 1);
    ints_attr(&b, *node, "scan_input_axes", 1, &in_axis);
    ints_attr(&b, *node, "scan_input_directions", 1, &back);
    ints_attr(&b, *node, "scan_output_axes", 1, &out_axis);
    ints_attr(&b, *node, "scan_output_directions", 1, &back);
    sub = built_subgraph(&b, *node, "body");
    built_input(&sub, "s", DT_FLOAT32, "2,3");
    built_input(&sub, "part", DT_FLOAT32, "2,3");
    built_node(&sub, "Add", "s,part", "s2");
    built_output(&sub, "s2");
    built_output(&sub, "s2");
    built_output(&b, "total");
    built_output(&b, "sums");
    return b;
}

static void test_scan(void)
{
    Onnx__NodeProto *n;
    Built b = running_sum(17, "2,5,3", &n);
    Graph *g = imported(&b);
    const Node *stacked, *split = NULL, *first = NULL;

    if (!g)
        return;
    FOR_NODES(g, x) {
        first = first || x->op != &op_Add ? first : x;
        split = x->op == &op_Split ? x : split;
    }
    CU_ASSERT_PTR_NOT_NULL_FATAL(split);
    CU_ASSERT_EQUAL(split->n_out, 5);
    CU_ASSERT_EQUAL(node_int(split, "axis"), 1);
    CU_ASSERT(value_eq(value(g, first->in[1])->producer->in[0], split->out[4])); /* the last first */
    stacked = value(g, graph_output(g, "sums"))->producer;
    CU_ASSERT_EQUAL(node_int(stacked, "axis"), -1);
    CU_ASSERT(value_eq(value(g, stacked->in[0])->producer->in[0], graph_output(g, "total")));
    CU_ASSERT(value_eq(value(g, stacked->in[4])->producer->in[0], first->out[0]));
    graph_free(g);
}

/* The same of what a product and a sum make of x. */
static Built behind_nodes(const char *dims)
{
    const float one[9] = { 1 };
    Onnx__NodeProto *n;
    Built b = running_sum(17, dims, &n);

    built_init(&b, "w", DT_FLOAT32, "3,3", sizeof one, one);
    built_node(&b, "MatMul", "x,w", "xw");
    built_node(&b, "Add", "xw,x", "made");
    n->input[1] = (char *)"made";
    return b;
}

/* A size is known behind what is open beside it. */
static void test_scan_of_open_batch(void)
{
    Built b = behind_nodes("N,5,3"), c = behind_nodes("2,T,3");
    Graph *g = imported(&b);
    const Node *split = NULL;

    REFUSED(&c, E_UNSUPPORTED, "the length of 'made' along axis 1, which is scanned, is not fixed in the file");
    if (!g)
        return;
    FOR_NODES(g, x)
        split = x->op == &op_Split ? x : split;
    CU_ASSERT(split && split->n_out == 5);
    graph_free(g);
}

/* Nor does it hide behind a shape that is computed of the open one: [n, 5, 3] + x. */
static void test_scan_of_computed_shape(void)
{
    const int64_t first = 0, by[3] = { 1, 0, 0 }, plus[3] = { 0, 5, 3 };
    const float one = 1;
    Onnx__NodeProto *n;
    Built b = running_sum(17, "N,5,3", &n);
    Graph *g;

    built_init(&b, "first", DT_INT64, "", sizeof first, &first);
    built_init(&b, "by", DT_INT64, "3", sizeof by, by);
    built_init(&b, "plus", DT_INT64, "3", sizeof plus, plus);
    built_init(&b, "one", DT_FLOAT32, "", sizeof one, &one);
    built_node(&b, "Shape", "x", "sizes");
    built_node(&b, "Gather", "sizes,first", "n");
    built_node(&b, "Mul", "n,by", "rows");
    built_node(&b, "Add", "rows,plus", "like");
    built_node(&b, "Expand", "one,like", "ones");
    built_node(&b, "Add", "ones,x", "made");
    n->input[1] = (char *)"made";
    if (!(g = imported(&b)))
        return;
    FOR_NODES(g, x)
        CU_ASSERT(x->op != &op_Split || x->n_out == 5);
    graph_free(g);
}

static void test_scan_refused(void)
{
    static int64_t two[2] = { 0, 0 }, far = 8;
    Onnx__NodeProto *n;
    Built b = running_sum(8, "2,5,3", &n), c = running_sum(17, "2,T,3", &n), d, e;

    REFUSED(&b, E_MODEL, "Scan scan (output 'total'): a body of 2 inputs, expected 1");
    REFUSED(&c, E_UNSUPPORTED, "the length of 'x' along axis 1, which is scanned, is not fixed in the file");
    d = running_sum(17, "2,5,3", &n);
    n->attribute[0]->i = 3;
    REFUSED(&d, E_MODEL, "attribute 'num_scan_inputs' is missing, or not between 1 and the number of inputs");
    d = running_sum(17, "2,5,3", &n);
    n->attribute[1]->n_ints = 2;
    n->attribute[1]->ints = two;
    REFUSED(&d, E_MODEL, "attribute 'scan_input_axes' has 2 numbers, expected 1");
    d = running_sum(17, "2,5,3", &n);
    n->attribute[2]->ints = &far;
    REFUSED(&d, E_MODEL, "attribute 'scan_input_directions': 8, expected 0 to 1");
    d = running_sum(17, "5", &n);
    REFUSED(&d, E_MODEL, "input 'x': axis 1 of 1 dimensions");
    d = running_sum(17, "2,400000,3", &n);
    REFUSED(&d, E_MODEL, "more than 300000 nodes");
    e = running_sum(17, "2,5,3", &n);
    n->attribute[n->n_attribute - 1]->g->n_output = 0;
    REFUSED(&e, E_MODEL, "2 outputs, of a body of 0 that carries 1 values");
}

DEFINE_SUITE(flow_scan, { "Scan", test_scan }, { "of an open batch", test_scan_of_open_batch },
             { "of a computed shape", test_scan_of_computed_shape }, { "refused", test_scan_refused });
