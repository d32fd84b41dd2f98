/* refold: a tensor that the exporter computed from parameters follows them when they change. */
#include <stdio.h>
#include <string.h>

#include "exec/run/interp.h"
#include "graph/ir/op.h"
#include "graph/text/parse.h"
#include "passes/build_options.h"
#include "tests/harness/test.h"

extern const Pass pass_refold;

/* The folded tensor, of p = {1,2,4} and q = {3,5,7}, the operator that computes it again, and what that gives for twice
 * as large a p. */
typedef struct {
    const char *folded, *op;
    double expected[3];
} Folded;

static void check(const Folded *t)
{
    char text[512];
    const BuildOptions opt = { 0 };
    PassCtx ctx = { .scratch = arena_create(), .opt = &opt };
    const Shape shape = SHAPE(3);
    const Tensor **values;
    Tensor *p;
    Graph *g = NULL;
    int n = snprintf(text, sizeof text,
                     "graph \"g\" {\n  input %%x : float32[3]\n  const %%p : float32[3] = {1,2,4}\n"
                     "  const %%q : float32[3] = {3,5,7}\n  const %%folded : float32[3] = {%s}\n"
                     "  %%y = Add(%%x, %%folded)\n  output \"y\" = %%y\n}\n",
                     t->folded);

    if (CHECK_OK(graph_parse(&g, text, (size_t)n))) {
        value(g, graph_find(g, "folded"))->folded_from = "['p', 'q']";
        CHECK_OK(pass_refold.run(g, &ctx));
        CHECK_STR(t->op, g->node[0]->op->name);
        p = (Tensor *)value(g, graph_find(g, "p"))->init;
        for (int i = 0; i < 3; i++)
            tensor_set_float(p, i, 2 * tensor_float(p, i));
        values = ARENA_NEW(ctx.scratch, const Tensor *, g->n_value);
        values[g->input[0].i] = tensor_create(ctx.scratch, DT_FLOAT32, &shape);
        if (CHECK_OK(interp_run(ctx.scratch, g, values)))
            for (int i = 0; i < 3; i++)
                CU_ASSERT_EQUAL(tensor_float(values[g->output[0].value.i], i), t->expected[i]);
    }
    graph_free(g);
    arena_free(ctx.scratch);
}

static void test_one_source(void)
{
    check(&(Folded){ "1,0.5,0.25", "Reciprocal", { 0.5, 0.25, 0.125 } });
    check(&(Folded){ "-1,-2,-4", "Neg", { -2, -4, -8 } });
    check(&(Folded){ "3,6,12", "Mul", { 6, 12, 24 } });
    check(&(Folded){ "3,1.5,0.75", "Div", { 1.5, 0.75, 0.375 } });
    check(&(Folded){ "4,5,7", "Add", { 5, 7, 11 } });
    check(&(Folded){ "2,1,-1", "Sub", { 1, -1, -5 } });
}

static void test_two_sources(void)
{
    check(&(Folded){ "4,7,11", "Add", { 5, 9, 15 } });
    check(&(Folded){ "2,3,3", "Sub", { 1, 1, -1 } });
    check(&(Folded){ "-2,-3,-3", "Sub", { -1, -1, 1 } });
    check(&(Folded){ "3,10,28", "Mul", { 6, 20, 56 } });
    check(&(Folded){ "3,2.5,1.75", "Div", { 1.5, 1.25, 0.875 } });
}

DEFINE_SUITE(refold, { "formulas of one parameter and a number", test_one_source },
             { "formulas of two parameters", test_two_sources });
