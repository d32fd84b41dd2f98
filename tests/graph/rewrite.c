/* Replacing in bulk: recorded, read through, put into effect by one walk. */
#include "graph/ir/rewrite.h"
#include "graph/ops/binary.gen.h"
#include "graph/ops/unary.gen.h"

#include <stdlib.h>
#include <string.h>

#include "graph/ir/emit.h"
#include "graph/text/parse.h"
#include "graph/text/print.h"
#include "graph/ir/verify.h"
#include "tests/harness/test.h"

static Graph *chain(void)
{
    static const char text[] =
        "graph \"g\" { input %x : float32[2]\n input %z : float32[2]\n state %s : float32[2] = all 0\n"
        "%a = Neg(%x)\n %b = Neg(%a)\n %c = Neg(%b)\n %d = Add(%c, %b)\n"
        "update %s := %b\n output \"d\" = %d\n output \"c\" = %c }";
    Graph *g = NULL;

    CHECK_OK(graph_parse(&g, text, strlen(text)));
    return g;
}

static void expect(Graph *g, const char *text)
{
    char *found = NULL;

    if (CHECK_OK(graph_sort(g)) && CHECK_OK(graph_verify(g)) && CHECK_OK(graph_text(&found, g, NULL)) &&
        strcmp(found, text))
        TEST_FAIL("found\n%s", found);
    free(found);
}

/* c -> b -> x, in both orders, and a new value that stands for a. */
static void test_chains(void)
{
    for (int order = 0; order < 2; order++) {
        Graph *g = chain();
        Arena *a = arena_create();
        ValueId x = graph_find(g, "x"), b = graph_find(g, "b"), c = graph_find(g, "c"), y;

        CHECK_OK(rewrite_begin(g, a));
        graph_replace(g, order ? c : b, order ? b : x);
        graph_replace(g, order ? b : c, order ? x : b);
        CU_ASSERT_EQUAL(rewrite_in(g, c).i, x.i);
        CU_ASSERT_EQUAL(value(g, graph_find(g, "d"))->producer->in[0].i, c.i); /* not before it is read */
        y = EMIT(g, Abs, NULL, graph_find(g, "z"));
        graph_replace(g, graph_find(g, "a"), y);
        rewrite_read(g, value(g, b)->producer);
        CU_ASSERT_EQUAL(value(g, b)->producer->in[0].i, y.i);
        graph_replace(g, y, graph_find(g, "z")); /* a value that is newer than the rewrite */
        CHECK_OK(rewrite_end(g));
        CU_ASSERT_EQUAL(rewrite_in(g, c).i, c.i);
        expect(g, "graph \"g\" {\n  input %x : float32[2]\n  input %z : float32[2]\n  state %s : float32[2] = {0, 0}\n"
                  "  %a : float32[2] = Neg(%x)\n  %b : float32[2] = Neg(%z)\n  %c : float32[2] = Neg(%x)\n"
                  "  %d : float32[2] = Add(%x, %x)\n  %Abs_4 : float32[2] = Abs(%z)\n"
                  "  update %s := %x\n  output \"d\" = %d\n  output \"c\" = %x\n}\n");
        arena_free(a);
        graph_free(g);
    }
}

static void test_by_nothing(void)
{
    Graph *g = chain();
    Arena *a = arena_create();

    CHECK_OK(rewrite_begin(g, a));
    graph_replace(g, graph_find(g, "c"), NO_VALUE);
    CU_ASSERT_FALSE(has_value(rewrite_in(g, graph_find(g, "c"))));
    CHECK_OK(rewrite_end(g));
    CU_ASSERT_FALSE(has_value(value(g, graph_find(g, "d"))->producer->in[0]));
    CU_ASSERT_FALSE(has_value(graph_output(g, "c")));
    arena_free(a);
    graph_free(g);
}

static void refuse(const char *first, const char *by_first, const char *then, const char *by_then, const char *says)
{
    Graph *g = chain();
    Arena *a = arena_create();

    CHECK_OK(rewrite_begin(g, a));
    graph_replace(g, graph_find(g, first), graph_find(g, by_first));
    CHECK_OK(g->status);
    graph_replace(g, graph_find(g, then), graph_find(g, by_then));
    CU_ASSERT_EQUAL(g->status, E_INTERNAL);
    if (!strstr(status_message(), says))
        TEST_FAIL("%s", status_message());
    CU_ASSERT_EQUAL(rewrite_end(g), E_INTERNAL);
    arena_free(a);
    graph_free(g);
}

static void test_refused(void)
{
    Graph *g = chain();
    Arena *a = arena_create();

    refuse("a", "b", "b", "a", "'b' would be replaced by itself");
    refuse("a", "b", "a", "c", "'a' would be replaced by two different values");
    CHECK_OK(rewrite_begin(g, a));
    CU_ASSERT_EQUAL(rewrite_begin(g, a), E_INTERNAL);
    rewrite_drop(g);
    CHECK_OK(rewrite_begin(g, a));
    graph_replace(g, graph_find(g, "a"), graph_find(g, "x"));
    graph_replace(g, graph_find(g, "a"), graph_find(g, "x")); /* said twice */
    CHECK_OK(rewrite_end(g));
    arena_free(a);
    graph_free(g);
}

/* Doubled, b is read doubled by all but what doubles it; of another shape, when readers are to be redirected. */
static void test_made_of_itself(void)
{
    for (int open = 0; open < 2; open++) {
        Graph *g = chain();
        Arena *a = arena_create();
        ValueId b = graph_find(g, "b"), twice = EMIT(g, Add, NULL, b, b);

        if (open)
            CHECK_OK(rewrite_begin(g, a));
        graph_replace(g, b, twice);
        CHECK_OK(rewrite_end(g));
        CU_ASSERT_EQUAL(value(g, twice)->producer->in[1].i, b.i);
        CU_ASSERT_EQUAL(value(g, graph_find(g, "c"))->producer->in[0].i, twice.i);
        CU_ASSERT_EQUAL(g->update[0].next.i, twice.i);
        CHECK_OK(graph_sort(g));
        value_set_shape(g, value(g, b), &(Shape){ 1, { 1 } });
        graph_redirect(g, graph_find(g, "c"), b);
        CHECK_OK(g->status);
        CU_ASSERT_EQUAL(graph_output(g, "c").i, b.i);
        graph_replace(g, graph_find(g, "d"), b);
        CU_ASSERT_EQUAL(g->status, E_INTERNAL);
        if (!strstr(status_message(), "'d' would be replaced by a value of another shape, 'b'"))
            TEST_FAIL("%s", status_message());
        arena_free(a);
        graph_free(g);
    }
}

/* One node takes over what two others made. */
static void test_set_lists(void)
{
    Graph *g = chain();
    ValueId x = graph_find(g, "x"), a = graph_find(g, "a"), out[2] = { graph_find(g, "b"), NO_VALUE };
    Node *first = value(g, a)->producer, *second = value(g, out[0])->producer;

    out[1] = a;
    node_set_inputs(g, second, 1, &x);
    node_set_outputs(g, second, 2, out);
    graph_remove(g, first);
    CHECK_OK(g->status);
    CU_ASSERT_PTR_EQUAL(value(g, a)->producer, second);
    CU_ASSERT_EQUAL(value(g, a)->out_index, 1);
    CU_ASSERT_EQUAL(second->n_in, 1);
    CU_ASSERT_EQUAL(second->in[0].i, x.i);
    graph_free(g);
}

DEFINE_SUITE(rewrite, { "chains are read through", test_chains }, { "by nothing", test_by_nothing },
             { "cycles are refused", test_refused }, { "lists are set in bulk", test_set_lists },
             { "what is made of what it replaces", test_made_of_itself });
