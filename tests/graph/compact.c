/* What nobody makes or reads is forgotten; what is left reads as before. */
#include "graph/ir/drop_values.h"

#include <string.h>

#include "graph/text/parse.h"
#include "graph/ir/verify.h"
#include "tests/harness/test.h"

static const char source[] = "graph \"g\" {\n"
                             "  input %x : float32[2]\n"
                             "  state %w : float32[2] = all 1\n"
                             "  %gone : float32[2] = Neg(%x)\n"
                             "  %kept : float32[2] = Add(%x, %w)\n"
                             "  %also_gone : float32[2] = Neg(%gone)\n"
                             "  %y : float32[2] = Mul(%kept, %w)\n"
                             "  output \"y\" = %y\n"
                             "  update %w := %kept\n"
                             "}\n";

static void remove_maker(Graph *g, const char *name) { graph_remove(g, value(g, graph_find(g, name))->producer); }

static void test_drop(void)
{
    static const char *const left[] = { "x", "w", "kept", "y" };
    const Shape s = SHAPE(2);
    Graph *g;

    if (!CHECK_OK(graph_parse(&g, source, strlen(source))))
        return;
    remove_maker(g, "gone");
    remove_maker(g, "also_gone");
    CHECK_OK(graph_sort(g));
    CHECK_OK(graph_drop_values(g));
    CU_ASSERT_EQUAL_FATAL(g->n_value, 5);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_STR(left[i], g->value[i + 1]->name);
        CU_ASSERT_EQUAL(graph_find(g, left[i]).i, i + 1);
    }
    CU_ASSERT(!has_value(graph_find(g, "gone")) && !has_value(graph_find(g, "also_gone")));
    CU_ASSERT(value_eq(g->input[0], graph_find(g, "x")));
    CU_ASSERT(value_eq(graph_output(g, "y"), graph_find(g, "y")));
    CU_ASSERT(value_eq(g->update[0].state, graph_find(g, "w")) && value_eq(g->update[0].next, graph_find(g, "kept")));
    CHECK_OK(graph_verify(g));
    CHECK_STR("gone", value(g, graph_add_value(g, V_TEMP, "gone", DT_FLOAT32, &s))->name);
    graph_free(g);
}

DEFINE_SUITE(compact, { "values that nobody makes or reads", test_drop });
