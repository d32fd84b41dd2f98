/* The reference of attention's gradient adds in double, whatever the type: what later kernels are measured by. */
#include "exec/run/interp.h"
#include "graph/ops/attention.gen.h"
#include "graph/ir/emit.h"
#include "graph/ir/op.h"
#include "tests/harness/test.h"

enum { QUERIES = 100000 };

static ValueId all(Graph *g, const Shape *s, double x)
{
    Tensor *t = tensor_create(g->arena, DT_FLOAT32, s);

    for (int64_t i = 0; t && i < tensor_numel(t); i++)
        tensor_set_float(t, i, x);
    return t ? graph_add_const_nocopy(g, "c", t) : NO_VALUE;
}

/* One key, which all queries see with probability 1: dV is the sum of dY, and with V = 1 and Y = 0 so is dK of queries
 * that are 1.  100000 times the float32 0.1 is 10000.00015, next to which float32 has 10000. */
static void test_sums_over_queries(void)
{
    const Shape queries = SHAPE(1, QUERIES, 1, 1), keys = SHAPE(1, 1, 1, 1), stats = SHAPE(1, 1, QUERIES);
    Graph *g = graph_create("attention");
    ValueId in[6], out[3];
    const Tensor **values;

    in[0] = all(g, &queries, 1);
    in[1] = all(g, &keys, 0);
    in[2] = all(g, &keys, 1);
    in[3] = all(g, &queries, 0);
    in[4] = all(g, &stats, 0);
    in[5] = all(g, &queries, 0.1);
    emit_multi(g, &op_ScaledDotProductAttentionGrad, ATTRS(FLOAT("scale", 1)), 6, in, 3, out);
    values = ARENA_NEW(g->arena, const Tensor *, g->n_value);
    CHECK_OK(g->status);
    if (CHECK_OK(interp_run(g->arena, g, values))) {
        CU_ASSERT_EQUAL(tensor_float(values[out[1].i], 0), 10000);
        CU_ASSERT_EQUAL(tensor_float(values[out[2].i], 0), 10000);
    }
    graph_free(g);
}

DEFINE_SUITE(attention, { "sums over queries", test_sums_over_queries });
