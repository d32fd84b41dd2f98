/* Bodies of nodes: what is the same is shared, whoever brings it, and stays as it is. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "graph/ir/body.h"
#include "graph/ops/generate.gen.h"
#include "graph/text/write_json.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/ir/verify.h"
#include "tests/harness/test.h"

#define FUSED(name, body) "  %" name " : float32[2] = dpexec.Fused(%x, %y) {program=" body "}\n"

/* b is a with other names. */
static const char shared[] =
    "graph \"g\" {\n"
    "  input %x : float32[2]\n"
    "  input %y : float32[2]\n" FUSED(
        "a", "graph(%p, %q) { const %k : float32[1] = {2} %m = Mul(%p, %k) %s = Sub(%m, %q) return %s }")
        FUSED("b", "graph(%x, %y) { const %c : float32[1] = {2} %z = Mul(%x, %c) %w = Sub(%z, %y) return %w }") FUSED(
            "c", "graph(%p, %q) { const %k : float32[1] = {2} %m = Mul(%p, %k) %s = Sub(%q, %m) return %s }")
            FUSED("d", "graph(%p, %q) { const %k : float32[1] = {3} %m = Mul(%p, %k) %s = Sub(%m, %q) return %s }")
                FUSED("e", "graph(%p, %q) { const %k : float32[1] = {2} %m = Mul(%p, %k) %s = Sub(%m, %q) return %m }")
                    FUSED("f",
                          "graph(%p, %q) { const %k : float32[1] = {2} %m = Mul(%q, %k) %s = Sub(%m, %q) return %s }")
                        FUSED("h", "graph(%p, %q) { %m = LeakyRelu(%p) {alpha=0.25} return %m }")
                            FUSED("i", "graph(%p, %q) { %m = LeakyRelu(%p) {alpha=0.5} return %m }") FUSED(
                                "j", "graph(%p : float32[2], %q) { %m = LeakyRelu(%p) {alpha=0.5} return %m }") "}\n";

static const Graph *body_of(const Graph *g, const char *name)
{
    return node_graph(value(g, graph_find(g, name))->producer, "program");
}

static void check_sharing(const Graph *g)
{
    CU_ASSERT(body_of(g, "a") == body_of(g, "b"));
    for (const char *x = "acdefhij"; *x; x++)
        for (const char *y = x + 1; *y; y++)
            if (body_same(body_of(g, (char[]){ *x, 0 }), body_of(g, (char[]){ *y, 0 })))
                TEST_FAIL("the bodies of %c and %c are the same", *x, *y);
    CHECK_OK(graph_verify(g));
}

static void test_sharing(void)
{
    Graph *g = NULL, *copy = NULL;
    char *before = NULL, *after = NULL;

    if (!CHECK_OK(graph_parse(&g, shared, sizeof shared - 1)))
        return;
    check_sharing(g);
    CHECK_OK(graph_text(&before, g, NULL));
    if (CHECK_OK(graph_clone(&copy, g))) {
        CU_ASSERT(body_of(copy, "a") != body_of(g, "a"));
        CU_ASSERT(body_same(body_of(copy, "a"), body_of(g, "a")));
        graph_free(g);
        check_sharing(copy);
        CHECK_OK(graph_text(&after, copy, NULL));
        CHECK_STR(before, after);
    }
    free(before);
    free(after);
    graph_free(copy);
}

/* Text is a form of its own: read back it is printed again, and has the same bodies. */
static void test_text(void)
{
    Graph *g = NULL, *back = NULL;
    char *text = NULL, *again = NULL;

    if (CHECK_OK(graph_parse(&g, shared, sizeof shared - 1)) && CHECK_OK(graph_text(&text, g, NULL)) &&
        CHECK_OK(graph_parse(&back, text, strlen(text))) && CHECK_OK(graph_text(&again, back, NULL))) {
        CHECK_STR(text, again);
        check_sharing(back);
        for (uint32_t i = 0; i < g->n_node; i++)
            CU_ASSERT(body_same(node_graph(g->node[i], "program"), node_graph(back->node[i], "program")));
    }
    free(text);
    free(again);
    graph_free(back);
    graph_free(g);
}

/* An instance has the types of its use, its layouts, and what follows; the body is as it was. */
static void test_instance(void)
{
    static const char text[] =
        "graph \"g\" { input %x : float64[2,3,4] channels_last input %y : float64[3,1]\n"
        "  %z : float64[2,3,4] channels_last = dpexec.Fused(%x, %y) {program=graph(%a, %b) { %c = Add(%a, %b) %d = "
        "Cast(%c) {to=1} %e = Cast(%d) {to=11} return %e }} }";
    Graph *g = NULL, *body = NULL;
    const Graph *program;

    if (!CHECK_OK(graph_parse(&g, text, sizeof text - 1)))
        return;
    program = node_graph(g->node[0], "program");
    if (CHECK_OK(body_instance(&body, program, g, 2, g->node[0]->in))) {
        const Value *d = value(body, graph_find(body, "d"));

        CU_ASSERT_EQUAL(d->dtype, DT_FLOAT32);
        CU_ASSERT(shape_eq(d->shape, &(Shape){ 3, { 2, 3, 4 } }));
        CU_ASSERT_EQUAL(value(body, body->input[0])->layout, LAYOUT_CHANNELS_LAST);
        CU_ASSERT_EQUAL(value(program, graph_find(program, "d"))->dtype, DT_NONE);
    }
    CHECK_FAILS(E_MODEL, "2 inputs, expected 1", body_instance(&body, program, g, 1, g->node[0]->in));
    graph_free(body);
    graph_free(g);
}

static void check_holds(const char *text, const char *part)
{
    if (!strstr(text, part))
        TEST_FAIL("expected %s in %s", part, text);
}

static void test_json(void)
{
    static const char text[] = "graph \"g\" { input %x : float32[2] %z = dpexec.Fused(%x) {program=graph(%a) { %b = "
                               "Exp(%a) %c = Neg(%b) return %c }} output \"z\" = %z }";
    Graph *g = NULL;
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);

    if (CHECK_OK(graph_parse(&g, text, sizeof text - 1)))
        CHECK_OK(graph_json(f, g));
    fclose(f);
    check_holds(out, "\"program\": {\"inputs\": [\"a\"], \"nodes\": [{\"op\": \"Exp\", \"name\": \"b\", "
                     "\"inputs\": [\"a\"], \"outputs\": [\"b\"], \"attributes\": {}}, {\"op\": \"Neg\", ");
    check_holds(out, "}], \"outputs\": [\"c\"]}");
    free(out);
    graph_free(g);
}

/* As deep as a text may nest, the JSON closes what it opened. */
static void test_json_nesting(void)
{
    enum { DEEP = 60 };
    char *text = NULL, *out = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    Graph *g = NULL;
    json_t *root, *node;
    int depth = 0;

    fputs("graph \"g\" { input %x : float32[2]\n", f);
    for (int i = 0; i < DEEP; i++)
        fputs("%y : float32[2] = dpexec.Fused(%x) {program=graph(%x) {", f);
    fputs("%y = Neg(%x)", f);
    for (int i = 0; i < DEEP; i++)
        fputs(" return %y }}", f);
    fputs(" output \"y\" = %y }", f);
    fclose(f);
    f = open_memstream(&out, &size);
    if (CHECK_OK(graph_parse(&g, text, strlen(text))))
        CHECK_OK(graph_json(f, g));
    fclose(f);
    root = json_loads(out, 0, NULL);
    CU_ASSERT_PTR_NOT_NULL(root);
    for (node = root; (node = json_array_get(json_object_get(node, "nodes"), 0)); depth++)
        node = json_object_get(json_object_get(node, "attributes"), "program");
    CU_ASSERT_EQUAL(depth, DEEP + 1);
    json_decref(root);
    free(text);
    free(out);
    graph_free(g);
}

/* Deep, but not too deep for the stack. */
static void test_nesting(void)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    Graph *g = NULL;

    fputs("graph \"g\" { input %x : float32[2]\n", f);
    for (int i = 0; i < 100000; i++)
        fputs("%y : float32[2] = dpexec.Fused(%x) {program=graph(%x) {", f);
    fclose(f);
    CHECK_FAILS(E_MODEL, "bodies nest more than 64 deep", graph_parse(&g, text, size));
    free(text);
}

DEFINE_SUITE(body, { "the same bodies are one", test_sharing }, { "bodies as text", test_text },
             { "an instance", test_instance }, { "bodies as JSON", test_json }, { "deep JSON", test_json_nesting },
             { "deep nesting", test_nesting });
