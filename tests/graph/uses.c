/* Who reads what, and the small questions of patterns. */
#include "graph/ir/readers.h"
#include "graph/ops/unary.gen.h"

#include <string.h>

#include "graph/text/parse.h"
#include "tests/harness/test.h"

static Graph *parsed(void)
{
    static const char text[] =
        "graph \"g\" { input %x : float32[2]\n state %s : float32[2] = all 0\n const %two : float32[] = {2}\n"
        "%a = Neg(%x)\n %b = Mul(%two, %a)\n %c = Add(%b, %b)\n %d = Pow(%c, %two)\n %e = Abs(%d)\n %f = Abs(%d)\n"
        "%h = Neg(%e)\n update %s := %h\n output \"f\" = %f }";
    Graph *g = NULL;

    CHECK_OK(graph_parse(&g, text, strlen(text)));
    return g;
}

static void test_readers(void)
{
    Graph *g = parsed();
    Arena *a = arena_create();
    Uses u;

#define OF(name) graph_find(g, #name)
    if (CHECK_OK(uses_find(&u, g, a))) {
        CU_ASSERT_EQUAL(uses_count(&u, OF(x)), 1);
        CU_ASSERT_EQUAL(uses_count(&u, OF(b)), 2);
        CU_ASSERT_EQUAL(uses_count(&u, OF(h)), 1);
        CU_ASSERT_EQUAL(uses_count(&u, NO_VALUE), 0);
        CU_ASSERT_PTR_EQUAL(only_reader(&u, OF(a)), maker(g, OF(b)));
        CU_ASSERT_PTR_NULL(only_reader(&u, OF(b))); /* one node, twice */
        CU_ASSERT_PTR_NULL(only_reader(&u, OF(d)));
        CU_ASSERT_PTR_NULL(only_reader(&u, OF(f))); /* an output */
        CU_ASSERT_PTR_NULL(only_reader(&u, OF(h))); /* a next value */
        CU_ASSERT_PTR_EQUAL(inner_maker(&u, OF(a)), maker(g, OF(a)));
        CU_ASSERT_PTR_NULL(inner_maker(&u, OF(x)));
        CU_ASSERT_EQUAL(u.first[OF(d).i + 1] - u.first[OF(d).i], 2);
        CU_ASSERT_PTR_EQUAL(u.reader[u.first[OF(d).i]].n, maker(g, OF(e)));
        CU_ASSERT_PTR_EQUAL(u.reader[u.first[OF(d).i] + 1].n, maker(g, OF(f)));
    }
    arena_free(a);
    graph_free(g);
}

static void test_makers(void)
{
    Graph *g = parsed();
    double number = 0;

    CU_ASSERT_PTR_NULL(maker(g, OF(x)));
    CU_ASSERT_PTR_NULL(maker(g, NO_VALUE));
    CU_ASSERT_PTR_NULL(made_by(g, OF(a), &op_Abs));
    CU_ASSERT_PTR_EQUAL(made_by(g, OF(a), &op_Neg), g->node[0]);
    CU_ASSERT_EQUAL(const_input(g, maker(g, OF(b)), &number), 0);
    CU_ASSERT_EQUAL(number, 2);
    CU_ASSERT_EQUAL(const_input(g, maker(g, OF(d)), &number), 1);
    CU_ASSERT_EQUAL(const_input(g, maker(g, OF(c)), &number), -1);
    CU_ASSERT_EQUAL(const_input(g, maker(g, OF(e)), &number), -1);
    graph_remove(g, maker(g, OF(a)));
    CU_ASSERT_PTR_NULL(maker(g, OF(a)));
    graph_free(g);
}

DEFINE_SUITE(uses, { "readers", test_readers }, { "makers", test_makers });
