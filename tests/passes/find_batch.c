/* find-batch: which inputs hold indices of samples, so that the order of samples matters to them. */
#include <stdio.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/text/parse.h"
#include "passes/build_options.h"
#include "passes/passes.gen.h"
#include "tests/harness/test.h"

/* `nodes` read x ["batch",3] and the integers %ids. */
static void check_ordered(const char *nodes, bool expected)
{
    const BuildOptions opt = { .mode = BUILD_INFER };
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt, .eval = interp_node };
    char text[1024];
    Graph *g = NULL;

    snprintf(text, sizeof text,
             "graph \"g\" {\n  input %%x : float32[\"batch\"=?,3]\n  input %%table : float32[7,3]\n"
             "  input %%ids : int64[5]\n  const %%two : int64[] = {2}\n  const %%axis : int64[1] = {1}\n"
             "  %%y = Relu(%%x)\n%s  output \"y\" = %%y\n  output \"z\" = %%z\n}\n",
             nodes);
    if (CHECK_OK(graph_parse(&g, text, strlen(text))) && CHECK_OK(pass_find_batch.run(g, &ctx))) {
        CU_ASSERT_EQUAL(g->batch_found, BATCH_FOUND);
        CU_ASSERT_EQUAL(value(g, graph_find(g, "x"))->carries, 1);
        CU_ASSERT_EQUAL(value(g, graph_find(g, "ids"))->carries, 0);
        if (value(g, graph_find(g, "ids"))->ordered != expected)
            TEST_FAIL("the integers are%s taken for samples by\n%s", expected ? " not" : "", nodes);
        CU_ASSERT(!value(g, graph_find(g, "x"))->ordered);
        CU_ASSERT(!value(g, graph_find(g, "table"))->ordered);
    }
    graph_free(g);
    arena_free(ctx.scratch);
}

static void test_ordered(void)
{
    check_ordered("  %z = Gather(%y, %ids)\n", true);
    check_ordered("  %i = Div(%ids, %two)\n  %z = Gather(%y, %i)\n", true);
    check_ordered("  %i = Unsqueeze(%ids, %axis)\n  %z = GatherND(%y, %i)\n", true);
    check_ordered("  %z = Gather(%y, %ids) {axis=1}\n", false);
    check_ordered("  %z = Gather(%table, %ids)\n", false);
    check_ordered("  %f = Cast(%ids) {to=1}\n  %g = Cast(%f) {to=7}\n  %z = Gather(%y, %g)\n", false);
}

DEFINE_SUITE(find_batch, { "indices of samples", test_ordered });
