/* FlexAttention becomes the nodes of its formula; of what type those are follows through the file, and what does not
 * fit is refused with a line.  What it computes is compared in tests/cli/flex_attention.sh and with the official tests.
 */
#include "tests/onnx/build.h"
#include "graph/ops/activation.gen.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/cast.gen.h"
#include "graph/ops/layout.gen.h"
#include "graph/ops/matmul.gen.h"
#include "graph/ops/softmax.gen.h"

/* y = FlexAttention(q, k, v), its inputs of these dimensions and of float32. */
static Built attention(const char *q, const char *k, const char *v, Onnx__NodeProto **n)
{
    Built b = built_create(24);

    built_opset(&b, "ai.onnx.preview", 1);
    built_input(&b, "q", DT_FLOAT32, q);
    built_input(&b, "k", DT_FLOAT32, k);
    built_input(&b, "v", DT_FLOAT32, v);
    *n = built_node(&b, "FlexAttention", "q,k,v", "y");
    (*n)->domain = (char *)"ai.onnx.preview";
    (*n)->name = (char *)"attend";
    built_output(&b, "y");
    return b;
}

static const Node *first(const Graph *g, const OpDef *op)
{
    FOR_NODES(g, n)
        if (n->op == op)
            return n;
    return NULL;
}

/* A node that makes the queries of q; which type the scores are cast to, DT_NONE: none. */
static void check_type(const char *op, const char *inputs, int64_t to, DType queries, int64_t cast)
{
    Onnx__AttributeProto *scale;
    Onnx__NodeProto *n, *made;
    Built b = attention("N,2,3,4", "N,2,5,4", "N,2,5,4", &n);
    Graph *g = NULL;
    const Node *found;

    built_input(&b, "of_double", DT_FLOAT64, "1");
    built_input(&b, "of_bytes", DT_INT8, "N,2,3,4");
    built_input(&b, "chooses", DT_BOOL, "1");
    made = built_node(&b, op, inputs, "made");
    if (to)
        node_attr_int(b.arena, made, "to", to);
    n->input[0] = (char *)"made";
    scale = attr_make(b.arena, "scale", ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    scale->has_f = 1;
    scale->f = 2;
    node_add_attr(b.arena, n, scale);
    CHECK_OK(built_import(&g, &b));
    built_free(&b);
    if (!g)
        return;
    found = first(g, &op_Mul);
    CU_ASSERT_EQUAL(value(g, found->in[1])->dtype, queries);
    found = value(g, first(g, &op_Softmax)->in[0])->producer;
    if (cast)
        CU_ASSERT(found->op == &op_Cast && node_int(found, "to") == cast);
    if (!cast)
        CU_ASSERT_PTR_EQUAL(found->op, &op_MatMul);
    graph_free(g);
}

static void test_types(void)
{
    check_type("Relu", "q", 0, DT_FLOAT32, DT_NONE);
    check_type("Where", "chooses,q,q", 0, DT_FLOAT32, DT_NONE);
    check_type("Cast", "q", DT_FLOAT64, DT_FLOAT64, DT_NONE);
    check_type("CastLike", "q,of_double", 0, DT_FLOAT64, DT_NONE);
    check_type("DequantizeLinear", "of_bytes,of_double", 0, DT_FLOAT64, DT_NONE);
    check_type("Cast", "q", DT_FLOAT16, DT_FLOAT16, DT_FLOAT32);
}

/* Heads are repeated but where the file says that there are as many. */
static void test_heads(void)
{
    static const struct {
        const char *q, *k;
        bool repeated;
    } c[] = { { "1,4,3,4", "1,4,5,4", false }, { "1,4,3,4", "1,2,5,4", true }, { "N,H,3,4", "N,4,5,4", true } };

    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        Onnx__NodeProto *n;
        Built b = attention(c[i].q, c[i].k, c[i].k, &n);
        Graph *g = NULL;

        CHECK_OK(built_import(&g, &b));
        built_free(&b);
        if (!g)
            continue;
        CU_ASSERT_EQUAL(first(g, &op_Expand) != NULL, c[i].repeated);
        graph_free(g);
    }
}

static void add_graph(Built *b, Onnx__NodeProto *n, const char *name, const char *op, const char *in, const char *out)
{
    Built body = built_subgraph(b, n, name);

    built_input(&body, "s", DT_FLOAT32, "N,2,3,5");
    built_node(&body, op, in, "r")->name = (char *)"change";
    built_output(&body, out);
}

static void test_modifiers(void)
{
    static const float one = 1;
    Onnx__NodeProto *n;
    Built b = attention("N,2,3,4", "N,2,5,4", "N,2,5,4", &n);
    const Node *softmax, *change;
    Graph *g = NULL;

    built_init(&b, "w", DT_FLOAT32, "", sizeof one, &one);
    add_graph(&b, n, "score_mod", "Mul", "s,w", "r");
    add_graph(&b, n, "prob_mod", "Tanh", "s", "r");
    CHECK_OK(built_import(&g, &b));
    built_free(&b);
    if (!g)
        return;
    softmax = first(g, &op_Softmax);
    change = value(g, softmax->in[0])->producer;
    CU_ASSERT_PTR_EQUAL(change->op, &op_Mul);
    CHECK_STR("attend/change", change->name);
    CHECK_STR("w", value(g, change->in[1])->name);
    CU_ASSERT_PTR_EQUAL(value(g, graph_output(g, "y"))->producer->op, &op_MatMul);
    CU_ASSERT(value_eq(first(g, &op_Tanh)->in[0], softmax->out[0]));
    graph_free(g);
}

static void test_refused(void)
{
    Onnx__NodeProto *n;
    Built b = attention("N,3,4", "N,2,5,4", "N,2,5,4", &n), body;

    REFUSED(&b, E_MODEL,
            "FlexAttention attend (output 'y'): input 'q' has 3 dimensions, expected [batch, heads, tokens, depth]");
    b = attention("1,4,3,4", "1,2,5,4", "1,4,5,4", &n);
    REFUSED(&b, E_MODEL, "2 heads of keys, but 4 of values");
    b = attention("1,3,3,4", "1,2,5,4", "1,2,5,4", &n);
    REFUSED(&b, E_MODEL, "3 heads of queries, expected a multiple of the 2 of keys");
    b = attention("1,3,3,4", "1,0,5,4", "1,0,5,4", &n);
    REFUSED(&b, E_MODEL, "3 heads of queries, expected a multiple of the 0 of keys");
    b = attention("N,2,3,4", "N,2,5,4", "N,2,5,4", &n);
    node_attr_int(b.arena, n, "softmax_precision", DT_INT64);
    REFUSED(&b, E_MODEL, "attribute 'softmax_precision': 7, expected a type of floats");
    b = attention("N,2,3,4", "N,2,5,4", "N,2,5,4", &n);
    node_attr_int(b.arena, n, "scale", 1);
    REFUSED(&b, E_MODEL, "attribute 'scale' is of type 2, expected 1");
    b = attention("N,2,3,4", "N,2,5,4", "N,2,5,4", &n);
    add_graph(&b, n, "score_mod", "Tanh", "s", "other");
    REFUSED(&b, E_MODEL, "output 'other' of the subgraph is made by no node");
    b = attention("N,2,3,4", "N,2,5,4", "N,2,5,4", &n);
    body = built_subgraph(&b, n, "prob_mod");
    built_output(&body, "k");
    REFUSED(&b, E_MODEL, "attribute 'prob_mod': 0 inputs and 1 outputs, expected one of each");
    b = attention("N,2,3,4", "N,2,5,4", "N,2,5,4", &n);
    built_input(&b, "counts", DT_INT64, "N,2,3,4");
    built_node(&b, "Abs", "counts", "positive");
    n->input[0] = (char *)"positive";
    REFUSED(&b, E_UNSUPPORTED, "the file does not give the float type of 'positive'");
    b = attention("N,2,3,4", "N,2,5,4", "N,2,5,4", &n);
    n->n_input = 2;
    REFUSED(&b, E_MODEL, "expected queries, keys and values, and one output");
}

DEFINE_SUITE(flex_attention, { "types", test_types }, { "heads", test_heads }, { "modifiers", test_modifiers },
             { "refused", test_refused });
