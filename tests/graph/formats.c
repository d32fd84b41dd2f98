/* Graphviz and JSON: hostile names do not break out of their quotes, and the JSON is read back by another library. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "graph/text/write_dot.h"
#include "graph/ops/activation.gen.h"
#include "graph/text/write_json.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "tests/harness/test.h"

static Graph *sample(void)
{
    static const char good[] = "graph \"g \\\"q\\\" \\x0a\xff\xc3\xa9\" {\n"
                               "  input %\"x\\\"\\\\\" : float32[\"batch\"=?,3]\n"
                               "  state %w trainable : float32[2,3] @d1 = all 1\n"
                               "  const %c : float32[] = {2}\n"
                               "  %y : float32[2,3] = Softmax(%w) {axis=1} \"node \\\"n\\\"\" @r0 d1\n"
                               "  %z = Mul(%y, %c) @r0 d1\n"
                               "  update %w := %z\n"
                               "  output \"out\" = %z\n"
                               "}\n";
    Graph *g = NULL;

    CHECK_OK(graph_parse(&g, good, sizeof good - 1));
    return g;
}

static char *write_to_text(Status (*writer)(FILE *, const Graph *), const Graph *g)
{
    char *out = NULL;
    size_t len;
    FILE *f = open_memstream(&out, &len);

    CHECK_OK(writer(f, g));
    fclose(f);
    return out;
}

static void test_json(void)
{
    Graph *g = sample();
    char *out = write_to_text(graph_json, g);
    json_error_t error;
    json_t *j = json_loads(out, 0, &error);

    if (!j)
        TEST_FAIL("line %d: %s\n%s", error.line, error.text, out);
    CHECK_STR("g \"q\" \n\xef\xbf\xbd\xc3\xa9", json_string_value(json_object_get(j, "name")));
    CU_ASSERT_EQUAL(json_array_size(json_object_get(j, "values")), 5);
    CU_ASSERT_EQUAL(json_array_size(json_object_get(j, "nodes")), 2);
    CHECK_STR("x\"\\", json_string_value(json_array_get(json_object_get(j, "inputs"), 0)));
    CHECK_STR("batch", json_string_value(json_array_get(
                           json_object_get(json_array_get(json_object_get(j, "values"), 0), "shape"), 0)));
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(json_array_get(json_object_get(j, "nodes"), 0), "device")), 1);
    CHECK_STR("z", json_string_value(json_object_get(json_array_get(json_object_get(j, "updates"), 0), "next")));
    json_decref(j);
    free(out);
    graph_free(g);
}

static Status write_dot(FILE *f, const Graph *g) { return graph_dot(f, g, NULL); }

/* Every quote that is not escaped opens or closes a string, and no line ends inside one. */
static void test_dot(void)
{
    Graph *g = sample();
    char *out = write_to_text(write_dot, g);
    int quotes = 0, braces = 0;

    for (const char *s = out; *s; s++) {
        if (*s == '\\' && s[1])
            s++;
        else if (*s == '"')
            quotes++;
        else if (quotes % 2 == 0)
            braces += (*s == '{') - (*s == '}');
        CU_ASSERT(*s != '\n' || quotes % 2 == 0);
    }
    CU_ASSERT_EQUAL(quotes % 2, 0);
    CU_ASSERT_EQUAL(braces, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(out, "cluster_1\""));     /* device 1 */
    CU_ASSERT_PTR_NOT_NULL(strstr(out, "cluster_1_0\""));   /* replica 0 */
    CU_ASSERT_PTR_NOT_NULL(strstr(out, "cluster_1_0_1\"")); /* forward */
    CU_ASSERT_PTR_NOT_NULL(strstr(out, "Softmax\\nnode"));
    CU_ASSERT_PTR_NOT_NULL(strstr(out, "\\nMul\\n")); /* in the same box, for nothing else reads the Softmax */
    CU_ASSERT_PTR_NULL(strstr(out, "-> n1"));
    CU_ASSERT_PTR_NOT_NULL(strstr(out, "n0 -> o0"));
    CU_ASSERT_PTR_NOT_NULL(strstr(out, "1 constant r0 d1"));
    free(out);
    graph_free(g);
}

/* As a model is before its types are inferred. */
static void test_untyped(void)
{
    Graph *g = graph_create("g");
    Shape two = SHAPE(2);
    ValueId x = graph_add_input(g, "x", DT_FLOAT32, &two);
    Node *n = graph_add_node(g, &op_Relu, "relu", NULL, 1, &x, 1, NULL);
    char *out;

    graph_add_output(g, "y", n->out[0]);
    out = write_to_text(write_dot, g);
    CU_ASSERT_PTR_NOT_NULL(strstr(out, "v1 -> n0 [label=\"float32[2]\"];\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(out, "n0 -> o0;\n"));
    free(out);
    graph_free(g);
}

DEFINE_SUITE(formats, { "JSON is read by another library", test_json }, { "Graphviz quotes hold", test_dot },
             { "no types, no labels", test_untyped });
