/* Graphs of one step at two lengths are paired node by node; where they differ, all replicas keep the longest. */
#include "passes/partition/variants.h"

#include <stdio.h>
#include <string.h>

#include "graph/text/parse.h"
#include "tests/harness/test.h"

static Graph *parse(int length, const char *nodes)
{
    char text[512];
    Graph *g = NULL;
    int n = snprintf(text, sizeof text,
                     "graph \"g\" {\n  input %%x : float32[2,%d]\n  const %%half : float32[] = {0.5}\n%s"
                     "  output \"y\" = %%y\n}\n",
                     length, nodes);

    return CHECK_OK(graph_parse(&g, text, (size_t)n)) ? g : NULL;
}

/* The longest's nodes, a shorter one's, and why they do not fit; "": they do. */
static void check(const char *longest, const char *shorter, const char *expected)
{
    Arena *a = arena_create();
    Graph *g = parse(3, longest);
    Variant variant = { .g = parse(2, shorter) };
    int of[2] = { -1, 0 };
    Variants v = { .arena = a, .list = &variant, .n = 1, .replicas = 2, .of = of };

    if (g && variant.g && CHECK_OK(variants_match(&v, g, a))) {
        CU_ASSERT_EQUAL(v.n, !*expected);
        CU_ASSERT_EQUAL(of[1], *expected ? -1 : 0);
        if (*expected ? !strstr(v.why, expected) : *v.why != '\0')
            TEST_FAIL("%s for%s: '%s', expected '%s'", shorter, longest, v.why, expected);
    }
    if (v.n)
        graph_free(variant.g);
    graph_free(g);
    arena_free(a);
}

static void test_match(void)
{
    static const char two[] = "  %r = Relu(%x)\n  %y = Mul(%r, %half)\n";

    check(two, two, "");
    check(two, "  %y = Relu(%x)\n", "another end here");
    check("  %y = Relu(%x)\n", two, "another node here");
    check(two, "  %r = Exp(%x)\n  %y = Mul(%r, %half)\n", "a shorter batch has Exp");
    check(two, "  %r = Relu(%x)\n  %y = Mul(%r, %x)\n", "another input here");
}

DEFINE_SUITE(variants, { "nodes are paired in order", test_match });
