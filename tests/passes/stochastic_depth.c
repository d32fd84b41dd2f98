/* stochastic-depth: which masks are dropout, and go out of training, and which are the model's own noise. */
#include <stdio.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "passes/build_options.h"
#include "passes/options/batch.h"
#include "tests/harness/test.h"

/* How many operators draw numbers in inference, of a model that draws once. */
static int drawn(const char *nodes)
{
    BuildOptions opt = { .mode = BUILD_INFER, .batch = &(BatchOptions){ .batch = 4 } };
    Graph *g = NULL;
    char text[1024];
    int n_random = 0;

    snprintf(text, sizeof text,
             "graph \"g\" {\n  input %%x : float32[4,3,2,2]\n  const %%keep : float32[] = {0.75}\n"
             "  const %%zero : float32[] = {0}\n%s  output \"y\" = %%y\n}\n",
             nodes);
    if (CHECK_OK(graph_parse(&g, text, strlen(text))) && CHECK_OK(pipeline_run(g, &opt, interp_node, NULL, NULL)))
        FOR_NODES(g, n)
            n_random += (n->op->flags & OPF_RANDOM) != 0;
    graph_free(g);
    return n_random;
}

#define UNIFORM(shape) \
    "  %u = RandomUniform() {shape=" shape "}\n  %less = Less(%u, %keep)\n  %m = Cast(%less) {to=1}\n"
#define RESIDUAL "  %b = Relu(%x)\n  %d = Mul(%b, %m)\n  %y = Add(%x, %d)\n"

static void test_residual(void)
{
    CU_ASSERT_EQUAL(drawn(UNIFORM("[4,1,1,1]") RESIDUAL), 0);
    CU_ASSERT_EQUAL(drawn(UNIFORM("[4,3,2,2]") RESIDUAL), 1);
    CU_ASSERT_EQUAL(
        drawn("  %u = RandomUniformLike(%x)\n  %less = Less(%u, %keep)\n  %m = Cast(%less) {to=1}\n" RESIDUAL), 1);
}

static void test_divided(void)
{
    CU_ASSERT_EQUAL(drawn(UNIFORM("[4,3,2,2]") "  %d = Mul(%x, %m)\n  %y = Div(%d, %keep)\n"), 0);
    CU_ASSERT_EQUAL(drawn(UNIFORM("[4,3,2,2]") "  %d = Where(%less, %x, %zero)\n  %y = Div(%d, %keep)\n"), 0);
    CU_ASSERT_EQUAL(drawn(UNIFORM("[4,3,2,2]") "  %y = Mul(%x, %m)\n"), 1);
}

DEFINE_SUITE(stochastic_depth, { "a residual branch is kept for whole samples", test_residual },
             { "dropout divides by its probability", test_divided });
